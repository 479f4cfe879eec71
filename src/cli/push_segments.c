/* push_segments.c - see push_segments.h. */
#include "cli/push_segments.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/path.h"
#include "base/text.h"
#include "show/document.h"
#include "cli/transfer.h"
#include "show/json_document.h"
#include "push/segments.h"
#include "trust/place.h"

/* A recording, and one that does not grow while it is sent. */
static int check_file(int fd, const char *path, uint64_t *bytes, struct error *err)
{
    char magic[4];
    struct stat st;
    if (fstat(fd, &st))
        return error_system(err, "cannot look at %s", path);
    if (pread(fd, magic, sizeof magic, 0) != sizeof magic ||
        (memcmp(magic, "MLC1", 4) && memcmp(magic, "MLS1", 4)) || st.st_size < 128)
        return error_set(err, ERROR_USAGE,
                         "%s is not a recording; without --segments, push sends any file", path);
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s is being written; 'mallow record --to URL' sends a recording "
                         "meanwhile, push sends it afterwards",
                         path);
    *bytes = (uint64_t)st.st_size;
    return 0;
}

static int remove_file(int fd, const char *path, uint64_t bytes, struct error *err)
{
    struct trust_place place;
    struct trust_identity id;
    struct stat st;
    if (fstat(fd, &st) || (uint64_t)st.st_size != bytes)
        return error_set(err, ERROR_UNSUPPORTED, "%s changed while it was sent: it stays", path);
    if (trust_place_of(&place, path, fd, err))
        return -1;
    const int status = trust_identify(fd, &id) ? trust_remove(place.dir, place.name, &id, err) : 1;
    trust_place_close(&place);
    return status > 0
               ? error_set(err, ERROR_UNSUPPORTED, "%s is another file by now: it stays", path)
               : status;
}

static void print_pushed_segments(const struct push_segments *how, const char *path,
                                  const char *url, const struct segments_result *r,
                                  uint64_t took_ns)
{
    char all[HUMAN_TEXT_BYTES], some[HUMAN_TEXT_BYTES], took[HUMAN_TEXT_BYTES];
    if (how->json) {
        struct json_object *o = document_new();
        json_object_object_add(o, "file", json_object_new_string(path));
        json_object_object_add(o, "url", json_object_new_string(url));
        json_object_object_add(o, "bytes", json_object_new_int64((int64_t)r->bytes));
        json_object_object_add(o, "segments", json_object_new_int64((int64_t)r->segments));
        json_object_object_add(o, "sent_bytes", json_object_new_int64((int64_t)r->sent_bytes));
        json_object_object_add(o, "sent_segments",
                               json_object_new_int64((int64_t)r->sent_segments));
        json_object_object_add(o, "checked", json_object_new_boolean(r->looked));
        json_object_object_add(o, "removed", json_object_new_boolean(how->removed));
        json_object_object_add(o, "duration_ns", json_object_new_int64((int64_t)took_ns));
        document_print_indented(o);
        json_object_put(o);
    } else if (!how->quiet) {
        text_printf(stdout, "%s: %s in %llu segment%s %s %s (%s sent in %s)\n", path,
                    human_size(all, r->bytes), (unsigned long long)r->segments,
                    r->segments == 1 ? "" : "s", r->looked ? "at" : "sent to", url,
                    human_size(some, r->sent_bytes), human_duration(took, took_ns));
        if (how->removed)
            text_printf(stdout, "%s is removed here\n", path);
    }
}

static int send_all(const struct push_segments *how, int fd, struct objects *to, uint64_t bytes,
                    struct transfer *transfer, struct segments_result *result, struct error *err)
{
    const struct segments_options o = {.segment_bytes = how->segment_bytes,
                                       .replace = how->replace,
                                       .progress = transfer_show,
                                       .arg = transfer};
    struct segments *s = segments_begin(to, fd, &o, err);
    if (!s)
        return -1;
    const int status = segments_finish(s, bytes, how->removed, err);
    segments_result(s, result);
    segments_free(s);
    return status;
}

int push_segments(const struct command *self, const struct push_segments *how, const char *path,
                  int fd)
{
    const uint64_t start = clock_monotonic_ns();
    struct transfer transfer = {
        .self = self, .verb = "sending", .retries = how->retries, .quiet = how->quiet};
    struct segments_result result = {0};
    struct uploading up;
    struct error err = {0};
    uint64_t bytes = 0;
    struct objects *to = NULL;
    int status = uploading_prepare(&up, &how->to, path_base_name(path), &err);
    if (!status)
        status = check_file(fd, path, &bytes, &err);
    up.objects.timeout_ns = how->timeout_ns;
    up.objects.pause = transfer_pause;
    up.objects.arg = &transfer;
    if (!status && !(to = objects_open(&up.objects, &err)))
        status = -1;
    if (!status) {
        progress_begin(&transfer.progress, "sending");
        status = send_all(how, fd, to, bytes, &transfer, &result, &err);
        progress_end(&transfer.progress);
    }
    if (!status && how->removed)
        status = remove_file(fd, path, bytes, &err);
    if (!status)
        print_pushed_segments(how, path, objects_url(to), &result, clock_monotonic_ns() - start);
    objects_close(to);
    uploading_release(&up);
    return status ? command_fail(self, &err) : command_finish(self);
}
