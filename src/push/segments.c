/* segments.c - Sends a growing recording in segments, and assembles one from its segments. It
 * trusts a segment at the store only after its sum matches, and puts the final list only after
 * it has checked that all segments are there. */
#include "push/segments.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "push/manifest.h"

#define BEGIN_BYTES 128u          /* the header of the first chunk or section, with its checksum */
#define LIST_EVERY  1000000000ull /* ns between lists while segments are sent */

struct segments {
    struct objects *to;
    int fd;
    struct segments_options o;
    struct manifest there; /* by the server's last list; what of it is ours is not sent again */
    struct manifest sent;  /* surely there, and the recording's */
    uint8_t *bytes;        /* one segment */
    uint64_t listed_ns;
    bool unlisted; /* something was sent since the last list */
    struct segments_result result;
};

/* ---- the server's list ---- */

/* *found: there is one, and it is in *m. */
static int read_list(struct objects *from, const char *name, struct manifest *m, bool *found,
                     struct error *err)
{
    struct buffer text = {0};
    const enum objects_status status = objects_get(from, name, &text, MANIFEST_MOST, err);
    *found = status == OBJECTS_DONE;
    int failed = status == OBJECTS_FAILED ? -1 : 0;
    if (*found && manifest_read(m, buffer_text(&text), text.size_bytes, err)) {
        error_prefix(err, "%.200s%s", objects_url(from), name);
        failed = -1;
    }
    buffer_release(&text);
    return failed;
}

static int put_list(struct segments *s, const char *name, struct error *err)
{
    struct buffer text = {0};
    manifest_write(&s->sent, &text);
    enum objects_status status = OBJECTS_FAILED;
    if (buffer_failed(&text) || text.size_bytes > MANIFEST_MOST)
        error_set(err, ERROR_UNSUPPORTED,
                  "the list of segments is too long; --segment-size makes larger ones");
    else
        status = objects_put(s->to, name, text.data, text.size_bytes, err);
    buffer_release(&text);
    s->listed_ns = clock_monotonic_ns();
    s->unlisted = s->unlisted && status != OBJECTS_DONE;
    return status == OBJECTS_DONE ? 0 : -1;
}

/* ---- the recording ---- */

static int read_part(const struct segments *s, uint64_t from, uint64_t bytes, struct error *err)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t n = pread(s->fd, s->bytes + done, bytes - done, (off_t)(from + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return error_system(err, "cannot read the recording");
        if (n == 0)
            return error_set(err, ERROR_FORMAT, "the recording became shorter while it was sent");
        done += (uint64_t)n;
    }
    return 0;
}

/* Which of the segments there belong to this recording. */
static int compare_segments(struct segments *s, struct error *err)
{
    bool listed, begun = false;
    if (read_list(s->to, MANIFEST_NAME, &s->there, &listed, err) ||
        (!listed && read_list(s->to, PROGRESS_NAME, &s->there, &begun, err)))
        return s->o.replace && err->kind == ERROR_FORMAT ? 0 : -1;
    if ((!listed && !begun) || !memcmp(s->there.begins, s->sent.begins, SHA256_BYTES))
        return 0;
    manifest_release(&s->there);
    if (!s->o.replace)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s has %s another recording, or of this one before it was sealed; "
                         "choose another URL, or --replace it",
                         objects_url(s->to), listed ? "the segments of" : "some segments of");
    return 0;
}

/* The list of another recording must not name segments of this one. */
static int remove_list(struct segments *s, struct error *err)
{
    const enum objects_status status = objects_delete(s->to, MANIFEST_NAME, err);
    if (status == OBJECTS_REFUSED)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s: the server does not delete the list that is there; choose "
                         "another URL",
                         objects_url(s->to));
    return status == OBJECTS_FAILED ? -1 : 0;
}

struct segments *segments_begin(struct objects *to, int fd, const struct segments_options *o,
                                struct error *err)
{
    struct segments *s = calloc(1, sizeof *s);
    uint8_t first[BEGIN_BYTES];
    if (!s) {
        error_memory(err);
        return NULL;
    }
    *s = (struct segments){.to = to, .fd = fd, .o = *o};
    s->bytes = first;
    int status = read_part(s, 0, sizeof first, err);
    s->bytes = NULL;
    if (!status) {
        sha256(first, sizeof first, s->sent.begins);
        status = compare_segments(s, err);
    }
    if (!status && o->replace && !s->there.segment_bytes)
        status = remove_list(s, err);
    if (!status) {
        s->sent.segment_bytes = s->there.segment_bytes ? s->there.segment_bytes
                                : o->segment_bytes     ? o->segment_bytes
                                                       : SEGMENT_BYTES_USUAL;
        s->bytes = malloc(s->sent.segment_bytes);
        status = s->bytes ? 0 : error_memory(err);
    }
    if (!status)
        return s;
    segments_free(s);
    return NULL;
}

void segments_free(struct segments *s)
{
    if (!s)
        return;
    manifest_release(&s->there);
    manifest_release(&s->sent);
    free(s->bytes);
    free(s);
}

/* ---- sending ---- */

/* Sends the segment unless it is there; `surely`: also then. */
static int send_one(struct segments *s, uint64_t segment, uint64_t bytes, bool surely,
                    struct error *err)
{
    uint8_t sum[SHA256_BYTES];
    char name[SEGMENT_NAME_BYTES];
    if (read_part(s, segment * s->sent.segment_bytes, bytes, err))
        return -1;
    sha256(s->bytes, bytes, sum);
    const bool there = !surely && segment < s->there.count &&
                       manifest_bytes_of(&s->there, segment) == bytes &&
                       !memcmp(s->there.sums[segment], sum, sizeof sum);
    if (!there) {
        manifest_name(segment, name);
        if (objects_put(s->to, name, s->bytes, bytes, err) != OBJECTS_DONE)
            return -1;
        s->result.sent_bytes += bytes;
        s->result.sent_segments++;
        s->unlisted = true;
    }
    const uint64_t end = segment * s->sent.segment_bytes + bytes;
    if (manifest_set(&s->sent, segment, sum, err))
        return -1;
    if (end > s->sent.bytes)
        s->sent.bytes = end;
    return 0;
}

int segments_send(struct segments *s, uint64_t end, bool rest, struct error *err)
{
    const uint64_t size = s->sent.segment_bytes;
    while (s->sent.bytes < end) {
        const uint64_t segment = s->sent.bytes / size, from = segment * size;
        const uint64_t bytes = end - from < size ? end - from : size;
        if (bytes < size && !rest)
            break;
        if (send_one(s, segment, bytes, false, err))
            return -1;
        if (s->o.progress)
            s->o.progress(s->o.arg, s->sent.bytes, end);
        if (s->unlisted && clock_monotonic_ns() - s->listed_ns > LIST_EVERY &&
            put_list(s, PROGRESS_NAME, err))
            return -1;
    }
    return s->unlisted ? put_list(s, PROGRESS_NAME, err) : 0;
}

/* True if the object is there in its size: 1 is no. */
static int check_segment(struct segments *s, const char *name, uint64_t bytes, struct error *err)
{
    uint64_t found = 0;
    switch (objects_look(s->to, name, &found, err)) {
    case OBJECTS_DONE: return found != bytes;
    case OBJECTS_ABSENT: return 1;
    case OBJECTS_REFUSED: s->result.looked = false; return 0;
    default: return -1;
    }
}

/* All segments are there: a missing one is sent again, once. */
static int check_all_segments(struct segments *s, struct error *err)
{
    char name[SEGMENT_NAME_BYTES];
    s->result.looked = true;
    for (uint64_t i = 0; i < s->sent.count && s->result.looked; i++) {
        const uint64_t bytes = manifest_bytes_of(&s->sent, i);
        manifest_name(i, name);
        int status = check_segment(s, name, bytes, err);
        if (status > 0 && (status = send_one(s, i, bytes, true, err)) == 0)
            status = check_segment(s, name, bytes, err);
        if (status > 0)
            error_set(err, ERROR_UNSUPPORTED,
                      "%.200s%s: the server accepted it, but has no object of its size",
                      objects_url(s->to), name);
        if (status)
            return -1;
    }
    return 0;
}

/* The segments sent while the recording grew are still so: the room for a full disk, in the first
 * segment, may have been used meanwhile. */
static int check_again(struct segments *s, struct error *err)
{
    for (uint64_t i = 0; i < s->sent.count; i++) {
        const uint64_t bytes = manifest_bytes_of(&s->sent, i);
        uint8_t now[SHA256_BYTES];
        if (read_part(s, i * s->sent.segment_bytes, bytes, err))
            return -1;
        sha256(s->bytes, bytes, now);
        if (memcmp(s->sent.sums[i], now, sizeof now) && send_one(s, i, bytes, true, err))
            return -1;
    }
    return 0;
}

int segments_finish(struct segments *s, uint64_t bytes, bool must_look, struct error *err)
{
    if (check_again(s, err))
        return -1;
    if (s->there.bytes > bytes && !s->o.replace)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s has more of this recording than the local file (%llu bytes)",
                         objects_url(s->to), (unsigned long long)s->there.bytes);
    if (segments_send(s, bytes, true, err) || check_all_segments(s, err))
        return -1;
    if (must_look && !s->result.looked)
        return error_set(err, ERROR_UNSUPPORTED,
                         "%.200s: the server does not say whether the segments are there (it "
                         "answers no HEAD)",
                         objects_url(s->to));
    return put_list(s, MANIFEST_NAME, err);
}

void segments_result(const struct segments *s, struct segments_result *r)
{
    *r = s->result;
    r->bytes = s->sent.bytes;
    r->segments = s->sent.count;
}

/* ---- putting together ---- */

static int append_bytes(int fd, const char *data, size_t bytes, struct error *err)
{
    while (bytes) {
        const ssize_t n = write(fd, data, bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return error_system(err, "cannot write the recording");
        data += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* A segment that grew since the list was put begins with what the list says. */
static int pull_one(struct objects *from, int fd, const struct manifest *m, uint64_t segment,
                    struct buffer *part, struct error *err)
{
    const uint64_t bytes = manifest_bytes_of(m, segment);
    char name[SEGMENT_NAME_BYTES];
    uint8_t sum[SHA256_BYTES];
    manifest_name(segment, name);
    buffer_clear(part);
    const enum objects_status status = objects_get(from, name, part, m->segment_bytes, err);
    if (status == OBJECTS_FAILED)
        return -1;
    if (status == OBJECTS_ABSENT)
        return error_set(err, ERROR_FORMAT, "%.200s%s is missing", objects_url(from), name);
    if (part->size_bytes < bytes)
        return error_set(err, ERROR_FORMAT, "%.200s%s is too short: %zu bytes instead of %llu",
                         objects_url(from), name, part->size_bytes, (unsigned long long)bytes);
    sha256(part->data, bytes, sum);
    if (memcmp(sum, m->sums[segment], sizeof sum))
        return error_set(err, ERROR_FORMAT,
                         "%.200s%s changed since it was sent: its checksum differs",
                         objects_url(from), name);
    return append_bytes(fd, part->data, bytes, err);
}

int segments_pull(struct objects *from, int fd, bool partial, const struct segments_options *o,
                  struct segments_result *r, bool *whole, struct error *err)
{
    struct manifest m = {0};
    struct buffer part = {0};
    bool begun = false;
    *r = (struct segments_result){0};
    *whole = false;
    if (read_list(from, MANIFEST_NAME, &m, whole, err) ||
        (!*whole && read_list(from, PROGRESS_NAME, &m, &begun, err)))
        return -1;
    int status = 0;
    if (!*whole && !begun)
        status =
            error_set(err, ERROR_UNSUPPORTED,
                      "%.200s has no recording in segments: no " MANIFEST_NAME, objects_url(from));
    else if (!*whole && !partial)
        status = error_set(
            err, ERROR_UNSUPPORTED,
            "%.200s has only the first %llu bytes of a recording; --partial accepts those",
            objects_url(from), (unsigned long long)m.bytes);
    for (uint64_t i = 0; i < m.count && !status; i++) {
        status = pull_one(from, fd, &m, i, &part, err);
        r->bytes += status ? 0 : manifest_bytes_of(&m, i);
        r->segments += !status;
        if (o->progress)
            o->progress(o->arg, r->bytes, m.bytes);
    }
    buffer_release(&part);
    manifest_release(&m);
    return status;
}
