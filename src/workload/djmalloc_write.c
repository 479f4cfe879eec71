/* djmalloc_write.c - writing dj/malloc's two formats from a workload; see djmalloc.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "trust/file.h"
#include "trust/place.h"
#include "workload/check.h"
#include "workload/djmalloc.h"
#include "workload/djmalloc_read.h"
#include "workload/djmalloc_record.h"

#define NONE UINT32_MAX

/* Operations that neither format has a word for. */
static bool is_changed(const struct workload_event *e)
{
    return e->code == MLW_OP_ALIGNED_ALLOC || e->code == MLW_OP_REALLOCARRAY ||
           workload_release_sized(e->code) || e->code == WORKLOAD_PRESENT ||
           e->code == WORKLOAD_VANISH;
}

static bool is_zero(const struct workload_event *e)
{
    return e->variant == WORKLOAD_ZERO || e->variant == WORKLOAD_ZERO_HANDED;
}

/* --- a .wl --- */

struct writer {
    struct buffer *threads;
    uint64_t syncs, changed, page_bytes;
    uint32_t moved_from,
        moved_to; /* the block's slots before and after a MOVE, until its realloc */
};

static void put_field(struct buffer *b, uint64_t v)
{
    uint8_t bytes[10];
    unsigned n = sizeof bytes;
    bytes[--n] = v & 127;
    while (v >>= 7)
        bytes[--n] = (uint8_t)((v & 127) | 128);
    buffer_append(b, bytes + n, sizeof bytes - n);
}

static void put_code(struct buffer *b, unsigned code) { buffer_append_char(b, (char)code); }

/* The thread hands over what it did so far to the other. */
static void sync_threads(struct writer *w, uint32_t from, uint32_t to)
{
    if (from == to)
        return;
    w->syncs++;
    put_code(&w->threads[from], WL_SYNC_W);
    put_field(&w->threads[from], w->syncs);
    put_code(&w->threads[to], WL_SYNC_R);
    put_field(&w->threads[to], w->syncs);
}

/* The size that pvalloc makes of it; one that cannot be made stays so. */
static uint64_t pages_of_pvalloc(uint64_t bytes, uint64_t page_bytes)
{
    return bytes > UINT64_MAX - page_bytes ? bytes
                                           : (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

static void put_operation(void *arg, const struct workload_event *e)
{
    struct writer *w = arg;
    struct buffer *b = &w->threads[e->thread];
    uint64_t slot = e->has_slot ? (uint64_t)e->slot + 1 : 0;
    if (e->waits)
        sync_threads(w, e->toucher, e->thread);
    static const uint8_t codes[] = {
        [MLW_OP_MALLOC] = WL_MALLOC,
        [MLW_OP_CALLOC] = WL_CALLOC,
        [MLW_OP_ALIGNED_ALLOC] = WL_MEMALIGN,
        [MLW_OP_MEMALIGN] = WL_MEMALIGN,
        [WORKLOAD_PRESENT] = WL_MALLOC,
        /* trace_run ends at those that the format has for them */
        [MLW_OP_POSIX_MEMALIGN] = WL_MEMALIGN,
        [MLW_OP_VALLOC] = WL_MEMALIGN,
        [MLW_OP_PVALLOC] = WL_MEMALIGN,
    };
    const bool pages = e->code == MLW_OP_VALLOC || e->code == MLW_OP_PVALLOC;
    w->changed += is_changed(e) || pages || e->code == MLW_OP_POSIX_MEMALIGN;
    if (e->code == WORKLOAD_START) {
        sync_threads(w, e->thread, (uint32_t)e->size_bytes);
    } else if (workload_releases(e->code)) {
        put_code(b, WL_FREE);
        put_field(b, slot);
    } else if (workload_reallocates(e->code)) {
        uint64_t from = e->slot == w->moved_to ? (uint64_t)w->moved_from + 1 : slot;
        put_code(b, WL_REALLOC);
        put_field(b, is_zero(e) ? 0 : slot);
        put_field(b, e->variant >= WORKLOAD_LOCAL ? from : 0);
        put_field(b, e->size_bytes);
        w->moved_to = NONE;
    } else if (e->code == WORKLOAD_MOVE) {
        w->moved_from = (uint32_t)e->size_bytes;
        w->moved_to = e->slot;
    } else if (workload_allocates(e->code)) {
        put_code(b, codes[e->code]);
        put_field(b, slot);
        if (workload_aligned(e->code) || pages)
            put_field(b, pages ? w->page_bytes : e->alignment);
        put_field(b, e->code == MLW_OP_PVALLOC ? pages_of_pvalloc(e->size_bytes, w->page_bytes)
                                               : e->size_bytes);
    }
}

static void put_beginning(struct buffer *b, const struct workload *w, const struct writer *out,
                          uint64_t offset)
{
    buffer_clear(b);
    put_code(b, WL_ALLOC_PTRS);
    put_field(b, w->facts[WORKLOAD_FACT_SLOTS] + 1);
    put_code(b, WL_ALLOC_SYNCS);
    put_field(b, out->syncs + 1);
    put_code(b, WL_NTHREADS);
    put_field(b, w->thread_count);
    for (uint32_t i = 0; i < w->thread_count; i++) {
        put_code(b, WL_START_THREAD);
        put_field(b, offset);
        offset += out->threads[i].size_bytes;
    }
    put_code(b, WL_DONE);
}

static int write_djmalloc_file(const char *path, const struct workload *w, struct writer *out,
                               struct error *err)
{
    struct buffer beginning = {0};
    bool failed = false;
    for (uint32_t i = 0; i < w->thread_count; i++) {
        put_code(&out->threads[i], WL_DONE);
        failed |= buffer_failed(&out->threads[i]);
    }
    /* the beginning's length depends on the offsets in it */
    for (size_t n = 0;;) {
        put_beginning(&beginning, w, out, n);
        if (beginning.size_bytes == n || buffer_failed(&beginning))
            break;
        n = beginning.size_bytes;
    }
    if (failed || buffer_failed(&beginning)) {
        buffer_release(&beginning);
        return error_memory_for(err, "while writing %s", path);
    }
    struct trust_whole whole;
    if (trust_whole_open(&whole, path, err)) {
        buffer_release(&beginning);
        return trust_unreachable(err, "cannot write", path);
    }
    bool fine = true;
    for (uint32_t i = 0; i <= w->thread_count && fine; i++) {
        const struct buffer *b = i ? &out->threads[i - 1] : &beginning;
        for (size_t at = 0; at < b->size_bytes && fine;) {
            ssize_t n = write(whole.draft.fd, b->data + at, b->size_bytes - at);
            fine = n >= 0 || errno == EINTR;
            at += n > 0 ? (size_t)n : 0;
        }
    }
    buffer_release(&beginning);
    if (!fine)
        error_system(err, "cannot write %s", path);
    return trust_whole_close(&whole, fine, err) || !fine ? -1 : 0;
}

static int write_workload(const struct workload *w, const char *out, uint64_t *changed,
                          struct error *err)
{
    struct writer writer = {.threads = calloc((size_t)w->thread_count + 1, sizeof(struct buffer)),
                            .page_bytes = (uint64_t)sysconf(_SC_PAGESIZE),
                            .moved_to = NONE};
    if (!writer.threads)
        return error_memory_for(err, "%u threads", w->thread_count);
    int bad = workload_visit(w, put_operation, &writer, err);
    if (!bad)
        bad = write_djmalloc_file(out, w, &writer, err);
    for (uint32_t i = 0; i < w->thread_count; i++)
        buffer_release(&writer.threads[i]);
    free(writer.threads);
    *changed = writer.changed;
    return bad;
}

/* --- a raw trace --- */

enum { RECORDS = 1024 };

struct tracer {
    FILE *out;
    uint64_t changed;
    uint32_t moved_from, moved_to;
    size_t used;
    struct djmalloc_record records[RECORDS];
};

static void flush_tracer(struct tracer *t)
{
    fwrite(t->records, sizeof *t->records, t->used, t->out);
    t->used = 0;
}

/* Blocks have distinct addresses for a trace's reader: a page for each slot. */
static uint64_t slot_address(uint32_t slot) { return ((uint64_t)slot + 16) << 12; }

static void put_record(void *arg, const struct workload_event *e)
{
    static const uint8_t types[WORKLOAD_CODES] = {
        [MLW_OP_MALLOC] = DJ_MALLOC,
        [MLW_OP_CALLOC] = DJ_CALLOC,
        [MLW_OP_REALLOC] = DJ_REALLOC,
        [MLW_OP_REALLOCARRAY] = DJ_REALLOC,
        [MLW_OP_POSIX_MEMALIGN] = DJ_POSIX_MEMALIGN,
        [MLW_OP_ALIGNED_ALLOC] = DJ_MEMALIGN,
        [MLW_OP_MEMALIGN] = DJ_MEMALIGN,
        [MLW_OP_VALLOC] = DJ_VALLOC,
        [MLW_OP_PVALLOC] = DJ_PVALLOC,
        [MLW_OP_FREE] = DJ_FREE,
        [MLW_OP_FREE_SIZED] = DJ_FREE,
        [MLW_OP_FREE_ALIGNED_SIZED] = DJ_FREE,
        [WORKLOAD_PRESENT] = DJ_MALLOC,
        [WORKLOAD_VANISH] = DJ_FREE,
    };
    struct tracer *t = arg;
    if (e->code == WORKLOAD_MOVE) {
        t->moved_from = (uint32_t)e->size_bytes;
        t->moved_to = e->slot;
    }
    if (!types[e->code])
        return;
    t->changed += is_changed(e);
    if (t->used == RECORDS)
        flush_tracer(t);
    struct djmalloc_record *r = &t->records[t->used++];
    memset(r, 0, sizeof *r);
    r->thread = (int32_t)e->thread + 1;
    r->type_path = types[e->code];
    uint64_t address = e->has_slot ? slot_address(e->slot) : 0;
    if (workload_releases(e->code)) {
        r->ptr1 = address;
        return;
    }
    r->size = e->size_bytes;
    r->ptr2 = is_zero(e) ? 0 : address;
    if (r->type_path == DJ_REALLOC && e->variant >= WORKLOAD_LOCAL) {
        r->ptr1 = e->slot == t->moved_to ? slot_address(t->moved_from) : address;
        t->moved_to = NONE;
    }
    if (workload_aligned(e->code))
        r->size2 = e->alignment;
    if (r->type_path == DJ_POSIX_MEMALIGN && !address)
        r->ptr1 = ENOMEM;
}

static int write_trace(const struct workload *w, const char *out, uint64_t *changed,
                       struct error *err)
{
    struct tracer *t = calloc(1, sizeof *t);
    if (!t)
        return error_memory(err);
    struct trust_whole whole;
    if (trust_whole_open(&whole, out, err)) {
        free(t);
        return trust_unreachable(err, "cannot create", out);
    }
    if (!(t->out = trust_whole_stream(&whole))) {
        error_system(err, "cannot write %s", out);
        (void)trust_whole_close(&whole, false, err);
        free(t);
        return -1;
    }
    t->moved_to = NONE;
    t->records[t->used++] = (struct djmalloc_record){
        .thread = 1, .type_path = DJ_MAGIC, .ptr1 = DJ_MAGIC_POINTER, .size = sizeof(void *)};
    int bad = workload_visit(w, put_record, t, err);
    flush_tracer(t);
    bool fine = !ferror(t->out);
    fine = !fclose(t->out) && fine;
    *changed = t->changed;
    free(t);
    if (!bad && !fine)
        bad = error_system(err, "cannot write %s", out);
    return trust_whole_close(&whole, !bad, err) ? -1 : bad;
}

int djmalloc_write(const char *path, enum djmalloc_kind kind, const char *out, uint64_t *changed,
                   struct error *err)
{
    struct workload w;
    int fd = trust_open_any(path, err);
    if (fd < 0 || (fd = trust_stable(fd, TRUST_COPY_BYTES_MAX, err)) < 0)
        return -1;
    int bad = workload_open(fd, &w, err);
    close(fd);
    if (bad)
        return -1;
    bad = kind == DJMALLOC_TRACE ? write_trace(&w, out, changed, err)
                                 : write_workload(&w, out, changed, err);
    workload_close(&w);
    return bad;
}
