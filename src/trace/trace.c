#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cursor.h"
#include "raw.h"
#include "recover.h"
#include "seal.h"
#include "store.h"

struct trace {
    int fd;
    struct store store;
    struct trace_open_options options;
    struct cursor *cursor; /* of trace_next */
    uint32_t image;        /* that it is in */
};

struct trace_cursor {
    struct cursor *cursor;
};

/* A file without a name, for what must not be written beside the recording. */
static int unnamed_file(struct error *err)
{
    const char *dirs[] = {getenv("TMPDIR"), "/var/tmp", "/tmp"};
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
        if (!dirs[i] || !*dirs[i])
            continue;
        int fd = open(dirs[i], O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        if (fd >= 0)
            return fd;
        char path[PATH_MAX];
        size_t n = strlen(dirs[i]);
        static const char name[] = "/mallow-XXXXXX";
        if (n + sizeof name > sizeof path)
            continue;
        memcpy(path, dirs[i], n);
        memcpy(path + n, name, sizeof name);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0) {
            unlink(path);
            return fd;
        }
    }
    return error_system(err, "cannot create a temporary file in /var/tmp or /tmp");
}

/* After raw_open: adds what a dead recorder left in shared memory (*recovered is then a descriptor
 * to be closed after raw_close), and finishes the index. 0 or -1. */
static int index_all(struct raw *r, int *recovered, struct error *err)
{
    bool any = false;
    for (size_t i = 0; i < r->image_count; i++)
        any |= r->images[i].session && !r->images[i].ended;
    if (any && (*recovered = unnamed_file(err)) < 0)
        return -1;
    unsigned chunks;
    if (any && (recover_rows(r, *recovered, &chunks, err) || raw_add(r, *recovered, err)))
        return -1;
    return raw_finish(r, err);
}

/* Whether the file at `path` is still the one at `fd`, with the bytes that were indexed: whoever
 * was writing it may have gone on, and `mallow record` or another reader may have sealed it, since.
 */
static bool is_as_indexed(const char *path, int fd, const struct raw *r)
{
    struct stat here, there;
    return !fstat(fd, &here) && !stat(path, &there) && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino && (uint64_t)here.st_size == r->file_bytes;
}

/* Seals the raw recording open at `fd`; returns a descriptor of the sealed one, which replaces the
 * file at `path` when that may be. -1 with *err. */
static int seal_first(const char *path, int fd, const struct trace_open_options *o,
                      struct trace_seal_result *result, struct error *err)
{
    struct raw r;
    if (raw_open(&r, fd, o->progress, o->progress_arg, err))
        return -1;
    int out = -1, recovered = -1;
    /* Asked before the shared memory is read: who was dead by then has nothing more to say. */
    bool over = !raw_is_live(&r);
    if (index_all(&r, &recovered, err))
        goto done;
    /* `mallow record` holds a shared lock on what it writes. */
    if (!o->no_seal_in_place && over && (!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) &&
        is_as_indexed(path, fd, &r)) {
        char *real = realpath(path, NULL); /* the file, not a link to it, is replaced */
        struct error ignored;
        if (real && !seal_beside(&r, real, false, result, o->progress, o->progress_arg, &ignored)) {
            recover_remove(&r);
            out = open(real, O_RDONLY | O_CLOEXEC);
        }
        free(real);
        if (out >= 0)
            goto done;
    }
    out = unnamed_file(err);
    if (out >= 0 && seal_recording(&r, out, false, result, o->progress, o->progress_arg, err)) {
        close(out);
        out = -1;
    }
done:
    if (recovered >= 0)
        close(recovered);
    raw_close(&r);
    return out;
}

/* Whether a file begins as a recording does: then it is damaged, not of another kind. */
static bool begins_as_recording(int fd)
{
    uint32_t magic;
    return pread(fd, &magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
           (magic == MLW_CHUNK_MAGIC || magic == SEAL_MAGIC);
}

struct trace *trace_open(const char *path, const struct trace_open_options *options,
                         struct error *err)
{
    struct trace *t = calloc(1, sizeof *t);
    if (!t) {
        error_set(err, ERROR_MEMORY, "out of memory opening %s", path);
        return NULL;
    }
    if (options)
        t->options = *options;
    else
        t->options.only_image = UINT32_MAX;
    t->fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (t->fd < 0 || fstat(t->fd, &st)) {
        error_system(err, "cannot open %s", path);
        goto bad;
    }
    if (!S_ISREG(st.st_mode)) {
        error_set(err, ERROR_USAGE, "%s is not a regular file", path);
        goto bad;
    }
    int raw = raw_probe(t->fd, err);
    if (raw < 0)
        goto prefix;
    struct trace_seal_result result = {0};
    if (raw) {
        int sealed = seal_first(path, t->fd, &t->options, &result, err);
        if (sealed < 0)
            goto prefix;
        close(t->fd);
        t->fd = sealed;
    }
    if (store_open(&t->store, t->fd, err))
        goto prefix;
    if (raw) {
        t->store.info.sealed = false;
        t->store.info.file_bytes = (uint64_t)st.st_size;
    }
    return t;
prefix:
    if (err->kind == ERROR_FORMAT && !begins_as_recording(t->fd))
        error_set(err, ERROR_USAGE,
                  "%s is not a recording; 'mallow record -o FILE -- PROGRAM' makes one", path);
    else
        error_prefix(err, "%s", path);
bad:
    if (t->fd >= 0)
        close(t->fd);
    free(t);
    return NULL;
}

void trace_close(struct trace *t)
{
    if (!t)
        return;
    cursor_close(t->cursor);
    store_close(&t->store);
    close(t->fd);
    free(t);
}

const struct trace_info *trace_info(const struct trace *t) { return &t->store.info; }

int trace_next(struct trace *t, struct trace_batch *batch, struct error *err)
{
    for (;;) {
        if (!t->cursor) {
            while (t->options.only_image != UINT32_MAX && t->image != t->options.only_image &&
                   t->image < t->store.info.image_count)
                t->image++;
            if (t->image >= t->store.info.image_count)
                return 0;
            t->cursor = cursor_open(&t->store, t->image, t->options.columns, t->options.to_ns, err);
            if (!t->cursor)
                return -1;
        }
        int k = cursor_next(t->cursor, batch, err);
        if (k)
            return k;
        cursor_close(t->cursor);
        t->cursor = NULL;
        t->image++;
    }
}

void trace_rewind(struct trace *t)
{
    cursor_close(t->cursor);
    t->cursor = NULL;
    t->image = 0;
}

struct trace_cursor *trace_cursor_open(struct trace *t, uint32_t image, struct error *err)
{
    return trace_cursor_open_columns(t, image, t->options.columns, err);
}

struct trace_cursor *trace_cursor_open_columns(struct trace *t, uint32_t image, unsigned columns,
                                               struct error *err)
{
    if (image >= t->store.info.image_count) {
        error_set(err, ERROR_USAGE, "there is no image %u in the recording", image);
        return NULL;
    }
    struct trace_cursor *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(err, ERROR_MEMORY, "out of memory reading the recording");
        return NULL;
    }
    c->cursor = cursor_open(&t->store, image, columns, t->options.to_ns, err);
    if (!c->cursor) {
        free(c);
        return NULL;
    }
    return c;
}

int trace_cursor_next(struct trace_cursor *c, struct trace_batch *batch, struct error *err)
{
    return cursor_next(c->cursor, batch, err);
}

void trace_cursor_close(struct trace_cursor *c)
{
    if (!c)
        return;
    cursor_close(c->cursor);
    free(c);
}

int trace_seal(const char *raw, const char *out, struct trace_seal_result *result,
               void (*progress)(void *, uint64_t, uint64_t), void *progress_arg, struct error *err)
{
    struct raw r;
    int fd = open(raw, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_system(err, "cannot open %s", raw);
    int status = raw_open(&r, fd, progress, progress_arg, err);
    if (!status) {
        struct trace_seal_result ignored;
        int recovered = -1;
        status = index_all(&r, &recovered, err);
        if (!status)
            status = seal_beside(&r, out, false, result ? result : &ignored, progress, progress_arg,
                                 err);
        struct stat a, b; /* sealed in place: what was recovered is nowhere else needed */
        if (!status && !strcmp(raw, out) && !fstat(fd, &a) &&
            (stat(raw, &b) || a.st_ino != b.st_ino))
            recover_remove(&r);
        if (recovered >= 0)
            close(recovered);
        raw_close(&r);
    }
    close(fd);
    return status ? error_prefix(err, "%s", raw) : 0;
}
