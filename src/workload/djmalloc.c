/* djmalloc.c - see djmalloc.h.
 *
 * A .wl is one run of bytes. Numbers are written 7 bits a byte, most significant group first, the
 * high bit of each byte but the last set. The beginning says how many pointers, locks and threads
 * there are and at which offset each thread's own run begins; each run ends with DONE. Pointer 0 is
 * none. A thread writes a lock when it is done with a pointer, another waits for it. */
#include "workload/djmalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "trust/file.h"
#include "workload/check.h"
#include "workload/djmalloc_read.h"

#define NONE UINT32_MAX

struct file {
    uint8_t *data;
    size_t bytes;
};

static int open_djmalloc_file(const char *path, struct file *f, struct error *err)
{
    f->data = trust_map(path, &f->bytes, err);
    return f->data ? 0 : -1;
}

enum djmalloc_kind djmalloc_kind(const char *path)
{
    uint8_t head[64];
    struct error ignored;
    int fd = trust_open_any(path, &ignored);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof head);
    if (fd >= 0)
        close(fd);
    uint64_t pointer = 0, size = 0;
    if (n == 64) {
        memcpy(&pointer, head + 8, 8);
        memcpy(&size, head + 24, 8);
        /* the first record says whose trace this is: type 255, pointer 0x1234, a pointer's size */
        if (head[4] == 255 && pointer == 0x1234 && size == 8)
            return DJMALLOC_TRACE;
    }
    return n > 4 && head[0] == WL_ALLOC_PTRS ? DJMALLOC_WORKLOAD : DJMALLOC_NEITHER;
}

/* --- reading a .wl --- */

struct line {
    const uint8_t *p;
    uint32_t thread;
    uint64_t waits; /* for this lock, 0 for none */
    bool done;
};

struct reader {
    const uint8_t *end;
    bool bad;
    uint32_t *slots; /* by pointer */
    uint8_t *locks;  /* written */
    uint64_t pointers, lock_count;
};

static uint64_t read_field(struct reader *r, const uint8_t **p)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < 10 && *p < r->end; i++) {
        uint8_t c = *(*p)++;
        v = v << 7 | (c & 127);
        if (c < 128)
            return v;
    }
    r->bad = true;
    return 0;
}

static uint64_t pointer(struct reader *r, const uint8_t **p)
{
    uint64_t v = read_field(r, p);
    if (v > r->pointers)
        r->bad = true;
    return r->bad ? 0 : v;
}

/* A block begins at a pointer; one that is still there stays live for ever, out of reach. */
static void write_allocation(struct reader *r, struct workload_writer *w, uint32_t thread,
                             unsigned op, uint64_t to, uint64_t alignment, uint64_t size)
{
    if (to)
        r->slots[to] = workload_writer_allocate(w, thread, op, size, alignment, 0);
    else
        workload_writer_failed(w, thread, op, size, alignment, 0);
}

static void reallocate(struct reader *r, struct workload_writer *w, uint32_t thread, uint64_t to,
                       uint64_t from, uint64_t size)
{
    uint32_t slot = from ? r->slots[from] : NONE;
    if (from && slot == NONE)
        workload_writer_count(w, WORKLOAD_FACT_UNKNOWN_FREES, 1);
    if (slot == NONE) {
        write_allocation(r, w, thread, MLW_OP_REALLOC, to, 0, size);
    } else if (to) {
        r->slots[from] = NONE;
        r->slots[to] = workload_writer_reallocate(w, thread, MLW_OP_REALLOC, slot, size, 0);
    } else if (size) {
        workload_writer_failed(w, thread, MLW_OP_REALLOC, size, 0, 0);
    } else {
        r->slots[from] = NONE;
        workload_writer_reallocate_zero(w, thread, MLW_OP_REALLOC, slot, 0);
    }
}

/* One operation. False when the thread must wait. */
static bool step_operation(struct reader *r, struct line *l, struct workload_writer *w,
                           struct djmalloc_result *result)
{
    uint8_t code = *l->p++;
    uint64_t to, from, alignment, n;
    result->records += code >= WL_MALLOC && code <= WL_FREE;
    result->records += code >= WL_MEMALIGN && code <= WL_POSIX_MEMALIGN;
    switch (code) {
    case WL_NOP: break;
    case WL_DONE: l->done = true; return false;
    case WL_MALLOC:
    case WL_CALLOC:
    case WL_VALLOC:
    case WL_PVALLOC:
        to = pointer(r, &l->p);
        n = read_field(r, &l->p);
        if (!r->bad)
            write_allocation(r, w, l->thread,
                             code == WL_MALLOC   ? MLW_OP_MALLOC
                             : code == WL_CALLOC ? MLW_OP_CALLOC
                             : code == WL_VALLOC ? MLW_OP_VALLOC
                                                 : MLW_OP_PVALLOC,
                             to, 0, n);
        break;
    case WL_MEMALIGN:
    case WL_POSIX_MEMALIGN:
        to = pointer(r, &l->p);
        alignment = read_field(r, &l->p);
        n = read_field(r, &l->p);
        if (!r->bad)
            write_allocation(r, w, l->thread,
                             code == WL_MEMALIGN ? MLW_OP_MEMALIGN : MLW_OP_POSIX_MEMALIGN, to,
                             alignment, n);
        break;
    case WL_REALLOC:
        to = pointer(r, &l->p);
        from = pointer(r, &l->p);
        n = read_field(r, &l->p);
        if (!r->bad)
            reallocate(r, w, l->thread, to, from, n);
        break;
    case WL_FREE:
        from = pointer(r, &l->p);
        if (r->bad)
            break;
        if (!from) {
            workload_writer_null(w, l->thread, MLW_OP_FREE, 0, 0, 0);
        } else if (r->slots[from] == NONE) {
            workload_writer_count(w, WORKLOAD_FACT_UNKNOWN_FREES, 1);
        } else {
            workload_writer_release(w, l->thread, MLW_OP_FREE, r->slots[from], 0, 0, 0);
            r->slots[from] = NONE;
        }
        break;
    case WL_SYNC_W:
        n = read_field(r, &l->p);
        if (n > r->lock_count)
            r->bad = true;
        if (!r->bad)
            r->locks[n] = 1;
        break;
    case WL_SYNC_R:
        n = read_field(r, &l->p);
        if (n > r->lock_count)
            r->bad = true;
        l->waits = n;
        break;
    default: r->bad = true;
    }
    return !r->bad;
}

/* Runs each thread as far as it can go, in turn, until all are done. */
static int run_lines(struct reader *r, struct line *lines, uint64_t n, struct workload_writer *w,
                     struct djmalloc_result *result, struct error *err)
{
    for (;;) {
        bool moved = false, waiting = false;
        for (uint64_t i = 0; i < n; i++) {
            struct line *l = &lines[i];
            while (!l->done) {
                if (l->waits && !r->locks[l->waits]) {
                    waiting = true;
                    break;
                }
                l->waits = 0;
                if (l->p >= r->end)
                    return error_set(err, ERROR_FORMAT, "the workload ends in a thread's middle");
                moved = true;
                if (!step_operation(r, l, w, result) && r->bad)
                    return error_set(err, ERROR_FORMAT,
                                     "the workload has an operation that cannot be");
            }
        }
        if (!waiting)
            return 0;
        if (!moved)
            return error_set(err, ERROR_FORMAT,
                             "the workload's threads wait for each other for ever");
    }
}

static int read_workload(const struct file *f, struct workload_writer *w,
                         struct djmalloc_result *result, struct error *err)
{
    struct reader r = {.end = f->data + f->bytes};
    struct line *lines = NULL;
    uint64_t threads = 0, started = 0;
    const uint8_t *p = f->data;
    int bad = 0;
    while (p < r.end && *p != WL_DONE && !r.bad && !bad) {
        uint8_t code = *p++;
        uint64_t n = read_field(&r, &p);
        if (code == WL_ALLOC_PTRS)
            r.pointers = n;
        else if (code == WL_ALLOC_SYNCS)
            r.lock_count = n;
        else if (code == WL_NTHREADS && !lines && n <= f->bytes)
            lines = calloc((threads = n) + 1, sizeof *lines);
        else if (code == WL_START_THREAD && lines && started < threads && n < f->bytes)
            lines[started++].p = f->data + n;
        else
            bad = error_set(err, ERROR_FORMAT, "the workload's beginning is damaged");
    }
    /* A pointer or lock that exists is named in the file. */
    if (!bad &&
        (r.bad || !lines || started != threads || r.pointers > f->bytes || r.lock_count > f->bytes))
        bad = error_set(err, ERROR_FORMAT, "the workload's beginning is damaged");
    if (!bad) {
        r.slots = malloc((r.pointers + 1) * sizeof *r.slots);
        r.locks = calloc(r.lock_count + 1, 1);
        if (r.slots && r.locks) {
            memset(r.slots, 0xff, (r.pointers + 1) * sizeof *r.slots);
            for (uint64_t i = 0; i < threads; i++)
                lines[i].thread = workload_writer_thread(w, i == 0, false, UINT64_MAX);
            bad = run_lines(&r, lines, threads, w, result, err);
        } else
            bad = error_memory_for(err, "the pointers");
    }
    free(lines);
    free(r.slots);
    free(r.locks);
    return bad;
}

int djmalloc_convert(const char *path, enum djmalloc_kind kind, const char *out,
                     struct workload_written *written, struct djmalloc_result *result,
                     struct error *err)
{
    struct file f;
    memset(result, 0, sizeof *result);
    if (open_djmalloc_file(path, &f, err))
        return -1;
    struct workload_writer *w = workload_writer_new(out, err);
    int bad = w ? 0 : -1;
    if (w) {
        bad = kind == DJMALLOC_TRACE ? djmalloc_read_trace(f.data, f.bytes, w, result, err)
                                     : read_workload(&f, w, result, err);
        if (bad)
            workload_writer_abandon(w);
        else
            bad = workload_writer_finish(w, written, err);
    }
    munmap(f.data, f.bytes);
    return bad;
}
