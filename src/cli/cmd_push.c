/* cmd_push.c - `mallow push`: a recording or a profile, sent to a store on the network. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/human.h"
#include "base/path.h"
#include "base/text.h"
#include "base/write.h"
#include "cli/command.h"
#include "cli/transfer.h"
#include "cli/upload_options.h"
#include "push/headers.h"
#include "push/manifest.h"
#include "push/push.h"
#include "push/segments.h"
#include "show/document.h"
#include "show/json_document.h"
#include "trust/place.h"

/* `mallow push --segments`: a recording in pieces. */

struct push_segments {
    struct uploading_options to;
    uint64_t segment_bytes, retries, timeout_ns;
    bool replace, removed, json, quiet;
};

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
        return error_set(err, ERROR_UNSUPPORTED, "%s changed while it was sent; it is not removed",
                         path);
    if (trust_place_of(&place, path, fd, err))
        return -1;
    const int status = trust_identify(fd, &id) ? trust_remove(place.dir, place.name, &id, err) : 1;
    trust_place_close(&place);
    return status > 0 ? error_set(err, ERROR_UNSUPPORTED,
                                  "%s is another file by now; it is not removed", path)
                      : status;
}

static void print_pushed_segments(const struct push_segments *how, const char *path,
                                  const char *url, const struct segments_result *r,
                                  uint64_t took_ns)
{
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
                    SIZE(r->bytes), (unsigned long long)r->segments, r->segments == 1 ? "" : "s",
                    r->looked ? "at" : "sent to", url, SIZE(r->sent_bytes), TIME(took_ns));
        if (how->removed)
            text_printf(stdout, "removed %s\n", path);
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

/* fd: the file of this path, open. An exit status. */
static int push_segments(const struct command *self, const struct push_segments *how,
                         const char *path, int fd)
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

/* The file that `mallow push` sends.
 *
 * Owns: standard input in a file of its own. One thread. */

/* Standard input in a file without a name, so that it can be sent a second time. */
static int spool(struct error *err)
{
    const int fd = trust_unnamed(err);
    static char part[1 << 16];
    ssize_t n = 0;
    int status = fd < 0 ? -1 : 0;
    while (!status && (n = read(STDIN_FILENO, part, sizeof part)) > 0)
        if (write_all(fd, part, (size_t)n))
            status = error_system(err, "cannot write a temporary file");
    if (n < 0)
        status = error_system(err, "cannot read standard input");
    if (!status)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A descriptor of a regular file, the caller's; of a file without a name for "-". -1 with *err. */
static int push_open(const char *path, struct error *err)
{
    if (!strcmp(path, "-"))
        return spool(err);
    const int fd = trust_open_any(path, err);
    struct stat st;
    if (fd >= 0 || err->kind != ERROR_USAGE) /* the latter: it is no regular file */
        return fd;
    return error_set(err, ERROR_USAGE,
                     !stat(path, &st) && S_ISDIR(st.st_mode)
                         ? "%s is a directory; push sends one file"
                         : "%s is not a file; '-' reads standard input",
                     path);
}

#define SECOND_NS 1000000000ull

struct push_cli {
    struct push_segments s;
    int method; /* 0: PUT, 1: POST */
    bool segments;
};

#define AT(field)    offsetof(struct push_cli, field)
#define TO_AT(field) offsetof(struct push_cli, s.to.field)

static const struct option_spec specs[] = {
    {0, "to", OPTION_TEXT, AT(s.to.url), "URL",
     "the destination (required); the file's name is added to a URL that ends in /"},
    {0, "method", OPTION_CHOICE, AT(method), "put|post", "the method of the request (default put)"},
    {0, "header", OPTION_TEXTS, AT(s.to.header), "HEADER",
     "also send this header, 'NAME: VALUE'; @FILE takes a header from each line of FILE; may be "
     "repeated"},
    {0, "ca", OPTION_TEXT, AT(s.to.ca), "FILE",
     "trust the certificates in FILE (default: the system's)", .completion = VALUE_FILE},
    {0, "retry", OPTION_COUNT, AT(s.retries), "N", "try N times more when it fails (default 3)", 0,
     100},
    {0, "timeout", OPTION_DURATION, AT(s.timeout_ns), "DURATION",
     "give up when almost no data moves for DURATION, or when the answer is incomplete DURATION "
     "after the file was sent (default 1m)",
     SECOND_NS, 86400 * SECOND_NS},
    {0, "segments", OPTION_FLAG, AT(segments), NULL,
     "send a recording in pieces below the URL, with checksums; a second try sends the missing "
     "ones"},
    {0, "segment-size", OPTION_SIZE, AT(s.segment_bytes), "SIZE",
     "the size of a segment (default 16M)", SEGMENT_BYTES_LEAST, SEGMENT_BYTES_MOST,
     .with = "segments"},
    {0, "replace", OPTION_FLAG, AT(s.replace), NULL, "replace another recording at the URL",
     .with = "segments"},
    {0, "remove", OPTION_FLAG, AT(s.removed), NULL,
     "remove FILE once the store is known to have all of it", .with = "segments"},
    UPLOADING_S3(TO_AT, "segments"),
    UPLOADING_REGION(TO_AT),
    {0, "json", OPTION_FLAG, AT(s.json), NULL, "print one JSON document instead of text"},
    {'q', "quiet", OPTION_FLAG, AT(s.quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

/* A raw recording is several times as large as a sealed one, and may be growing. */
static void warn_of_raw(const struct command *self, int fd, const char *path)
{
    char magic[4];
    if (pread(fd, magic, 4, 0) == 4 && !memcmp(magic, "MLC1", 4))
        command_warn(self,
                     "%s is not sealed: it is still being written, or was not read since; its "
                     "present content is sent",
                     path);
}

/* ---- */

struct telling {
    const struct command *self;
    struct progress progress;
    bool quiet;
};

static void show_push_progress(void *arg, uint64_t sent, uint64_t bytes)
{
    struct telling *t = arg;
    progress_update(&t->progress, sent, bytes);
}

static void again(void *arg, const char *why, uint64_t pause_ns)
{
    struct telling *t = arg;
    progress_end(&t->progress);
    if (!t->quiet)
        command_warn(t->self, "%s; again in %s", why, TIME(pause_ns));
    progress_begin(&t->progress, "sending");
}

static void print_pushed(const struct push_cli *cli, const char *path, const struct push_result *r)
{
    if (cli->s.json) {
        struct json_object *o = document_new();
        json_object_object_add(o, "file", json_object_new_string(path));
        json_object_object_add(o, "url", json_object_new_string(r->url));
        json_object_object_add(o, "location",
                               *r->location ? json_object_new_string(r->location) : NULL);
        json_object_object_add(o, "http_status", json_object_new_int64(r->status));
        json_object_object_add(o, "sent_bytes", json_object_new_int64((int64_t)r->bytes));
        json_object_object_add(o, "duration_ns", json_object_new_int64((int64_t)r->duration_ns));
        json_object_object_add(o, "tries", json_object_new_int64((int64_t)r->tries));
        document_print_indented(o);
        json_object_put(o);
    } else if (!cli->s.quiet) {
        text_printf(stdout, "%s: %s sent to %s in %s (%ld)\n",
                    strcmp(path, "-") ? path : "standard input", SIZE(r->bytes), r->url,
                    TIME(r->duration_ns), r->status);
        if (*r->location)
            text_printf(stdout, "stored as %s\n", r->location);
    }
}

static int send_it(const struct command *self, const struct push_cli *cli, const char *path,
                   const struct push_headers *headers)
{
    const char *slash = strrchr(path, '/');
    const char *name = !strcmp(path, "-") ? NULL : slash ? slash + 1 : path;
    struct push_result result;
    struct error err;
    if (push_check(cli->s.to.url, name, &err))
        return command_fail(self, &err);
    int fd = push_open(path, &err);
    if (fd < 0)
        return command_fail(self, &err);
    warn_of_raw(self, fd, path);
    struct telling telling = {.self = self, .quiet = cli->s.quiet};
    const struct push_options o = {.url = cli->s.to.url,
                                   .post = cli->method == 1,
                                   .header = (const char *const *)headers->text,
                                   .header_count = headers->count,
                                   .authorities = cli->s.to.ca,
                                   .retries = cli->s.retries,
                                   .timeout_ns = cli->s.timeout_ns,
                                   .first_pause_ns = SECOND_NS,
                                   .progress = show_push_progress,
                                   .again = again,
                                   .arg = &telling};
    progress_begin(&telling.progress, "sending");
    const int status = push_file(fd, name, &o, &result, &err);
    progress_end(&telling.progress);
    close(fd);
    if (status)
        return command_fail(self, &err);
    print_pushed(cli, path, &result);
    return command_finish(self);
}

static int send_segments(const struct command *self, const struct push_cli *cli, const char *path)
{
    struct error err;
    if (cli->method == 1 || !strcmp(path, "-"))
        return command_usage(self, "--segments needs a file, and the method put");
    const int fd = push_open(path, &err);
    if (fd < 0)
        return command_fail(self, &err);
    const int status = push_segments(self, &cli->s, path, fd);
    close(fd);
    return status;
}

static int run_push(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct push_cli *cli = options;
    struct push_headers headers = {0};
    struct error err;
    (void)operand_count;
    if (!cli->s.to.url)
        return command_usage(self, "no destination given; use --to URL");
    if (cli->segments)
        return send_segments(self, cli, operands[0]);
    const int status =
        push_headers_collect(&headers, cli->s.to.header.items, cli->s.to.header.count, &err)
            ? command_fail(self, &err)
            : send_it(self, cli, operands[0], &headers);
    push_headers_release(&headers);
    return status;
}

static const struct push_cli defaults = {.s = {.retries = 3, .timeout_ns = 60 * SECOND_NS}};

const struct command command_push = {
    .name = "push",
    .summary = "send a recording or a profile to a store on the network",
    .operands = "FILE",
    .description =
        "Sends FILE, or standard input for '-', to a store that takes files by HTTP: an\n"
        "object store (by a signed URL), WebDAV, an artifact store of a CI, a profile\n"
        "server. What fails for the moment is tried again. Certificates are checked;\n"
        "redirections are not followed; ~/.netrc and the usual proxy variables are used.\n"
        "\n"
        "With --segments, a recording goes in pieces; those that are there are not\n"
        "sent again. 'mallow pull' puts them together.\n"
        "\n"
        "A recording holds the program's command line, paths of files and names of\n"
        "functions. 'mallow workload' makes a file that does not.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct push_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_push,
};
