/* trace.c - Opens a recording in any state: seals or recovers it first if needed, then hands out
 * cursors over its images. It decides whether the index may be written, and shares a bounded
 * number of threads among cursors. The number of free threads is atomic, because several threads
 * may read with a cursor each. */
#include "trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/thread.h"
#include "trace/raw/raw.h"
#include "trace/raw/recover.h"
#include "trace/seal/draft.h"
#include "trace/seal/fold.h"
#include "trace/seal/seal.h"
#include "trace/sealed/cursor.h"
#include "trace/sealed/decoder.h"
#include "trace/sealed/kept.h"
#include "trace/sealed/store.h"
#include "trust/file.h"
#include "trust/place.h"

struct trace {
    int fd;
    struct store store;
    struct trace_open_options options;
    unsigned threads;          /* as many may work beside the caller's; atomic */
    bool in_place;             /* the file at the path is read, and may be changed */
    struct trace_kept **keeps; /* [keep_count] parts of the index that are to be written */
    size_t keep_count, keep_cap;
};

/* For a part of the index: it is read, or made. */
struct trace_kept {
    struct kept_reading reading;
    struct kept_making making;
};

/* Recordings, and images, of fewer events are read as fast as an index. */
#define INDEX_EVENTS       (4u << 20)
#define INDEX_IMAGE_EVENTS (64u << 10)

/* So few events are decoded before a thread for them has begun. A caller that asks for threads gets
 * them. */
#define ALONE_EVENTS 65536u

/* More of them find nothing to do: the model is slower than they are. */
#define READERS_MOST 8u

struct trace_cursor {
    struct trace *trace;
    struct cursor *cursor;
    struct decoder *decoder; /* NULL: the caller's thread decodes */
    unsigned threads;        /* beside the caller's */
    bool late;               /* there was none to be had yet */
};

/* How many threads may work beside the caller's. */
static unsigned threads_beside(unsigned wanted)
{
    if (!wanted)
        wanted = thread_processors();
    return wanted > 1 ? wanted - 1 : 0;
}

/* The same for sealing, which has work for two threads more. They wait for each other a part of the
 * time: three are faster than two on two processors. */
static unsigned threads_sealing(unsigned wanted)
{
    const unsigned beside = threads_beside(wanted);
    return !wanted && beside ? 2 : beside;
}

/* After raw_open: adds what a dead recorder left in shared memory (*recovered is then a descriptor
 * to be closed after raw_close), and finishes the index. 0 or -1. */
static int index_all(struct raw *r, int *recovered, struct error *err)
{
    bool any = false;
    for (size_t i = 0; i < r->image_count; i++)
        any |= r->images[i].session && !r->images[i].ended;
    if (any && (*recovered = trust_unnamed(err)) < 0)
        return -1;
    unsigned chunks;
    if (any && (recover_rows(r, *recovered, &chunks, err) || raw_add(r, *recovered, err)))
        return -1;
    return raw_finish(r, err);
}

/* The place where the file at fd may be changed or replaced. Only of a file that is the caller's
 * own: another user's is left as it is, whatever the caller might do to it, and so is what another
 * user's link leads to. */
static int place_of_own(struct trust_place *place, const char *path, int fd)
{
    struct error ignored;
    return trust_place_of_own(place, path, fd, &ignored);
}

/* The same for the sealed file of a raw one. Only the bytes that were indexed: the writer may have
 * gone on, and another reader may have sealed it. */
static int place_to_seal(struct trust_place *place, const char *path, int fd, const struct raw *r)
{
    struct stat st;
    if (place_of_own(place, path, fd))
        return -1;
    if ((!flock(fd, LOCK_EX | LOCK_NB) || errno != EWOULDBLOCK) && !fstat(fd, &st) &&
        (uint64_t)st.st_size == r->file_bytes)
        return 0;
    trust_place_close(place);
    return -1;
}

/* True if an index may be put into the sealed file. */
static bool may_take_index(const char *path, int fd)
{
    struct trust_place place;
    if (place_of_own(&place, path, fd))
        return false;
    trust_place_close(&place);
    return true;
}

/* Seals the raw recording open at `fd`; returns a descriptor of the sealed one, which replaces the
 * file at `path` when that may be. -1 with *err. */
static int seal_first(const char *path, int fd, const struct trace_open_options *o,
                      struct trace_seal_result *result, bool *in_place, struct error *err)
{
    struct raw r;
    if (raw_open(&r, fd, o->progress, o->progress_arg, err))
        return -1;
    int out = -1, recovered = -1;
    const struct seal_how how = {
        .threads = threads_sealing(o->threads), .progress = o->progress, .arg = o->progress_arg};
    struct trust_place place;
    struct error ignored;
    /* Checked before the shared memory is read: a process that was dead by then writes no more. */
    raw_note_living(&r);
    if (index_all(&r, &recovered, err))
        goto done;
    /* `mallow record` holds a shared lock on what it writes. */
    if (!o->no_seal_in_place && !raw_is_live(&r) && !place_to_seal(&place, path, fd, &r)) {
        out = seal_beside(&r, &place, &how, result, &ignored);
        trust_place_close(&place);
        if (out >= 0) {
            recover_remove(&r);
            *in_place = true;
            goto done;
        }
    }
    out = trust_unnamed(err);
    if (out >= 0 && seal_recording(&r, out, &how, result, err)) {
        close(out);
        out = -1;
    }
done:
    if (recovered >= 0)
        close(recovered);
    raw_close(&r);
    return out;
}

/* True if a file begins as a recording does: then it is damaged, not of another kind. */
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
        error_memory_for(err, "opening %s", path);
        return NULL;
    }
    if (options)
        t->options = *options;
    t->threads = threads_beside(t->options.threads);
    /* A file of any user may be read: nothing in it is trusted. */
    const struct trust_rule rule = {.owners = TRUST_ANYBODY, .follow = true};
    struct stat st;
    t->fd = trust_open(AT_FDCWD, path, TRUST_READ, &rule, err);
    if (t->fd < 0)
        goto bad;
    if (fstat(t->fd, &st)) {
        error_system(err, "cannot open %s", path);
        goto bad;
    }
    int raw = raw_probe(t->fd, err);
    if (raw < 0)
        goto prefix;
    struct trace_seal_result result = {0};
    t->in_place = !raw && !t->options.no_seal_in_place && may_take_index(path, t->fd);
    if (raw) {
        int sealed = seal_first(path, t->fd, &t->options, &result, &t->in_place, err);
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

/* ---- the index ---- */

/* Figures are checked by their reader; text that would be shown as it stands cannot be: it is read
 * of the caller's own recordings alone. */
static bool may_read(const struct trace *t, enum trace_kept_kind kind)
{
    const struct trust_rule own = {.owners = TRUST_CALLER};
    struct error ignored;
    return t->options.index != TRACE_INDEX_NONE &&
           (kind == TRACE_KEPT_MODEL || kind == TRACE_KEPT_PINNED ||
            !trust_check(t->store.fd, &own, &ignored));
}

struct trace_kept *trace_kept_find(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                   uint64_t key)
{
    struct trace_kept *k = may_read(t, kind) ? calloc(1, sizeof *k) : NULL;
    if (k && kept_open(&k->reading, &t->store, image, kind, key))
        return k;
    free(k);
    return NULL;
}

uint64_t trace_kept_count(const struct trace_kept *k, unsigned column)
{
    return kept_count(&k->reading, column);
}

bool trace_kept_numbers(struct trace_kept *k, unsigned column, uint64_t *to, size_t n)
{
    return kept_numbers(&k->reading, column, to, n);
}

bool trace_kept_table(struct trace_kept *k, unsigned first, unsigned columns, size_t n,
                      trace_kept_take *take, void *arg)
{
    return kept_table(&k->reading, first, columns, n, take, arg);
}

const uint8_t *trace_kept_bytes(struct trace_kept *k, unsigned column)
{
    return kept_bytes(&k->reading, column);
}

void trace_kept_close(struct trace_kept *k)
{
    if (!k)
        return;
    kept_close(&k->reading);
    free(k);
}

bool trace_keeps(const struct trace *t)
{
    const struct trace_info *info = &t->store.info;
    uint64_t events = 0;
    for (uint32_t i = 0; i < info->image_count; i++)
        events += info->images[i].events;
    return t->in_place && t->store.may_keep && !info->damaged_bytes && !info->damaged_runs &&
           (t->options.index == TRACE_INDEX_ALWAYS ||
            (t->options.index == TRACE_INDEX_WRITE && events >= INDEX_EVENTS));
}

struct trace_kept *trace_kept_new(struct trace *t, uint32_t image, enum trace_kept_kind kind,
                                  uint64_t key)
{
    const bool large = t->options.index == TRACE_INDEX_ALWAYS ||
                       t->store.images[image].events >= INDEX_IMAGE_EVENTS;
    struct trace_kept *k = large && trace_keeps(t) ? calloc(1, sizeof *k) : NULL;
    if (k && kept_begin(&k->making, &t->store, image, kind, key))
        return k;
    free(k);
    return NULL;
}

void trace_kept_put_numbers(struct trace_kept *k, unsigned column, const uint64_t *v, size_t n)
{
    kept_put_numbers(&k->making, column, v, n);
}

void trace_kept_put_bytes(struct trace_kept *k, unsigned column, const void *data, size_t n)
{
    kept_put_bytes(&k->making, column, data, n);
}

void trace_kept_keep(struct trace *t, struct trace_kept *k)
{
    if (kept_end(&k->making) && ARRAY_ROOM(t->keeps, t->keep_count + 1, t->keep_cap))
        t->keeps[t->keep_count++] = k;
    else
        trace_kept_drop(k);
}

void trace_kept_drop(struct trace_kept *k)
{
    if (!k)
        return;
    kept_drop(&k->making);
    free(k);
}

/* Damage that was only found while reading: nothing is kept. */
static void write_index(struct trace *t)
{
    struct kept_making **parts = t->keep_count ? calloc(t->keep_count, sizeof *parts) : NULL;
    for (size_t i = 0; parts && i < t->keep_count; i++)
        parts[i] = &t->keeps[i]->making;
    if (parts && trace_keeps(t))
        kept_write(&t->store, parts, t->keep_count);
    free(parts);
    for (size_t i = 0; i < t->keep_count; i++)
        trace_kept_drop(t->keeps[i]);
    free(t->keeps);
}

void trace_close(struct trace *t)
{
    if (!t)
        return;
    write_index(t);
    store_close(&t->store);
    close(t->fd);
    free(t);
}

const struct trace_info *trace_info(const struct trace *t) { return &t->store.info; }

/* How many threads beside the caller's read an image: as large a part of those that there are as it
 * has of all events, since others may be read at the same time. */
static unsigned threads_for(const struct trace *t, uint32_t image)
{
    const uint64_t events = t->store.images[image].events;
    uint64_t all = 0;
    if (!t->options.threads && events <= ALONE_EVENTS)
        return 0;
    for (uint32_t i = 0; i < t->store.info.image_count; i++)
        all += t->store.images[i].events;
    const unsigned beside = threads_beside(t->options.threads);
    unsigned part = (unsigned)((double)beside * ((double)events / ((double)all + 1))) + 1;
    return part < READERS_MOST ? part : READERS_MOST;
}

bool trace_wants_threads(const struct trace *t, uint32_t image) { return threads_for(t, image); }

unsigned trace_take_threads(struct trace *t, unsigned most)
{
    unsigned left = __atomic_load_n(&t->threads, __ATOMIC_RELAXED), n;
    do
        n = most < left ? most : left;
    while (n && !__atomic_compare_exchange_n(&t->threads, &left, left - n, false, __ATOMIC_RELAXED,
                                             __ATOMIC_RELAXED));
    return n;
}

void trace_give_threads(struct trace *t, unsigned n)
{
    __atomic_fetch_add(&t->threads, n, __ATOMIC_RELAXED);
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
        error_memory_for(err, "reading the recording");
        return NULL;
    }
    c->trace = t;
    const unsigned most = threads_for(t, image);
    c->threads = trace_take_threads(t, most);
    c->late = most && !c->threads && threads_beside(t->options.threads);
    c->cursor =
        cursor_open(&t->store, image, columns, t->options.to_ns, c->threads + c->late + 1, err);
    if (!c->cursor) {
        trace_give_threads(t, c->threads);
        free(c);
        return NULL;
    }
    if (c->threads)
        c->decoder = decoder_open(c->cursor);
    return c;
}

/* A thread has become free since the cursor was opened. */
static void begin_late(struct trace_cursor *c)
{
    c->threads = trace_take_threads(c->trace, 1);
    c->late = !c->threads;
    if (c->threads)
        c->decoder = decoder_open(c->cursor);
}

int trace_cursor_next(struct trace_cursor *c, struct trace_batch *batch, struct error *err)
{
    if (c->late && __atomic_load_n(&c->trace->threads, __ATOMIC_RELAXED))
        begin_late(c);
    return c->decoder ? decoder_next(c->decoder, batch, err) : cursor_next(c->cursor, batch, err);
}

void trace_cursor_close(struct trace_cursor *c)
{
    if (!c)
        return;
    decoder_close(c->decoder);
    cursor_close(c->cursor);
    trace_give_threads(c->trace, c->threads);
    free(c);
}

int trace_seal(int raw, const struct trust_place *out, unsigned threads,
               const struct trace_namer *namer, struct trace_seal_result *result,
               void (*progress)(void *, uint64_t, uint64_t), void *progress_arg, struct error *err)
{
    struct raw r;
    struct trust_identity id;
    struct trace_seal_result ignored;
    const struct seal_how how = {
        .threads = threads_sealing(threads), .progress = progress, .arg = progress_arg};
    int recovered = -1, sealed = -1;
    if (raw_open(&r, raw, progress, progress_arg, err))
        return error_prefix(err, "%s", out->path);
    r.namer = namer;
    /* sealed in place: the recovered data is needed nowhere else */
    bool in_place = trust_identify(raw, &id) && trust_is(out->dir, out->name, &id);
    if (!index_all(&r, &recovered, err))
        sealed = seal_beside(&r, out, &how, result ? result : &ignored, err);
    if (sealed >= 0 && in_place)
        recover_remove(&r);
    if (recovered >= 0)
        close(recovered);
    raw_close(&r);
    if (sealed < 0)
        return error_prefix(err, "%s", out->path);
    close(sealed);
    return 0;
}

struct trace_draft {
    struct seal_draft *draft;
};

struct trace_draft *trace_draft_open(int raw, const struct trust_place *out,
                                     const struct trace_namer *namer, struct error *err)
{
    struct trace_draft *d = calloc(1, sizeof *d);
    if (!d)
        error_memory_for(err, "sealing");
    else if ((d->draft = seal_draft_open(raw, out, 0, err))) {
        seal_draft_raw(d->draft)->namer = namer;
        return d;
    }
    free(d);
    return NULL;
}

uint64_t trace_draft_wants(const struct trace_draft *d) { return seal_draft_wants(d->draft); }

int trace_draft_go(struct trace_draft *d, const struct trace_horizon *h, struct error *err)
{
    return seal_draft_go(d->draft, h, err);
}

int trace_draft_end(struct trace_draft *d, unsigned threads, struct trace_seal_result *result,
                    void (*progress)(void *, uint64_t, uint64_t), void *progress_arg,
                    struct error *err)
{
    struct raw *r = seal_draft_raw(d->draft);
    const struct seal_how how = {
        .threads = threads_sealing(threads), .progress = progress, .arg = progress_arg};
    struct stat st;
    int recovered = -1, sealed = -1;
    if (fstat(r->fd, &st))
        return error_system(err, "cannot look at the recording");
    if (!raw_grow(r, (uint64_t)st.st_size, err)) {
        r->odd |= r->file_bytes != (uint64_t)st.st_size;
        if (!index_all(r, &recovered, err))
            sealed = seal_draft_end(d->draft, &how, result, err);
    }
    if (sealed >= 0)
        recover_remove(r);
    if (recovered >= 0)
        close(recovered);
    if (sealed >= 0)
        close(sealed);
    return sealed < 0 ? -1 : 0;
}

void trace_draft_close(struct trace_draft *d)
{
    if (!d)
        return;
    seal_draft_close(d->draft);
    free(d);
}

int trace_fold(int raw, const struct trace_fold_how *how, struct trace_fold_result *result,
               struct error *err)
{
    struct raw r;
    if (raw_open(&r, raw, NULL, NULL, err))
        return -1;
    const int status = raw_finish(&r, err) || fold_recording(&r, how, result, err) ? -1 : 0;
    raw_close(&r);
    return status;
}

unsigned trace_recover(int raw)
{
    struct raw r;
    struct error ignored;
    unsigned chunks = 0;
    if (raw_open(&r, raw, NULL, NULL, &ignored))
        return 0;
    if (!recover_rows(&r, raw, &chunks, &ignored) && chunks)
        recover_remove(&r);
    raw_close(&r);
    return chunks;
}
