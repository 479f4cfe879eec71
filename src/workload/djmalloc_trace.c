/* djmalloc_trace.c - reading raw traces of dj/malloc; see djmalloc.h.
 *
 * A record's place in the file was taken before the call for some calls and after it for others,
 * and another thread may have come in between. So an allocation may stand before the free that made
 * its address free, and a free before the allocation of its block. A record that cannot act yet is
 * held back, with all that its thread did after it, until the other thread's record has come. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "workload/djmalloc_order.h"
#include "workload/djmalloc_read.h"

#define THREADS_MAX (1u << 16)
#define WAITING_MAX 1024u      /* threads that hold records back at once; the same */
#define HELD_MAX    (1u << 16) /* records held back at once; beyond, the oldest is forced */

struct thread {
    int32_t id;
    uint32_t number;
    struct djmalloc_record *held; /* its records since it is held back, oldest first */
    size_t first, count, cap;
    uint64_t skip_malloc, skip_free; /* parts of a realloc that was taken whole */
};

struct block { /* a place in an open hash of addresses; address 0: empty, 1: deleted */
    uint64_t address;
    uint32_t slot;
};

struct reader {
    const struct djmalloc_sink *sink;
    struct djmalloc_result *result;
    struct thread *threads;
    size_t thread_count, thread_cap, last_thread;
    struct index thread_index;     /* by id */
    uint32_t waiting[WAITING_MAX]; /* the threads that hold something back, in order */
    size_t waiting_count;
    struct block *blocks;
    size_t used, cap; /* used: deleted ones included */
    size_t live, held;
};

static size_t hash_address(const struct reader *r, uint64_t address)
{
    return (size_t)(address * 0x9e3779b97f4a7c15u >> 20) & (r->cap - 1);
}

static struct block *find_block(const struct reader *r, uint64_t address)
{
    for (size_t i = r->cap ? hash_address(r, address) : 0; r->cap; i = (i + 1) & (r->cap - 1)) {
        if (r->blocks[i].address == address)
            return &r->blocks[i];
        if (!r->blocks[i].address)
            return NULL;
    }
    return NULL;
}

static bool put_block_at(struct reader *r, uint64_t address, uint32_t slot)
{
    if (2 * r->used + 2 > r->cap) {
        size_t cap = 1024;
        while (cap < 4 * r->live + 4)
            cap *= 2;
        struct block *old = r->blocks, *fresh = calloc(cap, sizeof *fresh);
        if (!fresh)
            return false;
        size_t n = r->cap;
        r->blocks = fresh;
        r->cap = cap;
        r->used = r->live = 0;
        for (size_t i = 0; i < n; i++)
            if (old[i].address > 1)
                put_block_at(r, old[i].address, old[i].slot);
        free(old);
    }
    size_t i = hash_address(r, address);
    while (r->blocks[i].address > 1)
        i = (i + 1) & (r->cap - 1);
    r->used += !r->blocks[i].address;
    r->live++;
    r->blocks[i] = (struct block){address, slot};
    return true;
}

static uint32_t take_traced_block(struct reader *r, struct block *b)
{
    b->address = 1;
    r->live--;
    return b->slot;
}

/* NULL with *err set. */
static struct thread *find_trace_thread(struct reader *r, int32_t id, struct error *err)
{
    const uint64_t hash = (uint32_t)id * 0x9e3779b97f4a7c15u;
    size_t at = INDEX_START;
    if (r->last_thread < r->thread_count && r->threads[r->last_thread].id == id)
        return &r->threads[r->last_thread];
    for (uint32_t i; (i = index_next(&r->thread_index, hash, &at)) != INDEX_NONE;)
        if (r->threads[i].id == id) {
            r->last_thread = i;
            return &r->threads[i];
        }
    if (r->thread_count >= THREADS_MAX) {
        error_set(err, ERROR_FORMAT, "the trace has more than %u threads", THREADS_MAX);
        return NULL;
    }
    if (!ARRAY_ROOM(r->threads, r->thread_count + 1, r->thread_cap) ||
        !index_add(&r->thread_index, hash, (uint32_t)r->thread_count)) {
        error_memory_for(err, "the threads of the trace");
        return NULL;
    }
    struct thread *t = &r->threads[r->thread_count];
    memset(t, 0, sizeof *t);
    t->id = id;
    /* the first record is the process's first thread's */
    t->number = r->sink->thread(r->sink->arg, id, !r->thread_count);
    r->thread_count++;
    return t;
}

static unsigned op_of(unsigned type)
{
    static const uint8_t ops[] = {0,
                                  MLW_OP_MALLOC,
                                  MLW_OP_CALLOC,
                                  MLW_OP_FREE,
                                  MLW_OP_REALLOC,
                                  MLW_OP_MEMALIGN,
                                  MLW_OP_VALLOC,
                                  MLW_OP_PVALLOC,
                                  MLW_OP_POSIX_MEMALIGN};
    return type < sizeof ops ? ops[type] : 0;
}

bool djmalloc_failed(const struct djmalloc_record *k)
{
    return !k->ptr2 || ((k->type_path & 255) == DJ_POSIX_MEMALIGN && k->ptr1);
}

/* True if a record can act now. */
static bool ready(const struct reader *r, const struct djmalloc_record *k)
{
    unsigned type = k->type_path & 255;
    if (type == DJ_FREE)
        return !k->ptr1 || find_block(r, k->ptr1);
    if (type == DJ_REALLOC && k->ptr1 && !find_block(r, k->ptr1))
        return false;
    if (djmalloc_failed(k) || (type == DJ_REALLOC && k->ptr2 == k->ptr1))
        return true;
    return !find_block(r, k->ptr2);
}

/* Executes a record; what cannot be is made so (forced). False without memory. */
static bool act(struct reader *r, struct thread *t, const struct djmalloc_record *k)
{
    const unsigned type = k->type_path & 255;
    const bool releases = type == DJ_FREE || type == DJ_REALLOC;
    const bool failed = type != DJ_FREE && djmalloc_failed(k);
    struct block *old = releases && k->ptr1 ? find_block(r, k->ptr1) : NULL;
    uint32_t slot = old ? old->slot : DJ_NO_SLOT, vanished = DJ_NO_SLOT;
    r->result->records++;
    if (old && (!failed || !k->size)) /* a realloc that fails leaves its block */
        take_traced_block(r, old);
    if (type == DJ_FREE || failed) {
        r->sink->call(r->sink->arg, t->number, k, slot, DJ_NO_SLOT);
        return true;
    }
    if ((old = find_block(r, k->ptr2))) { /* its free never came */
        r->result->forced++;
        vanished = take_traced_block(r, old);
    }
    return put_block_at(r, k->ptr2, r->sink->call(r->sink->arg, t->number, k, slot, vanished));
}

/* The thread at this place of `waiting` holds nothing back any more. */
static void stop_waiting(struct reader *r, size_t at)
{
    r->threads[r->waiting[at]].first = 0;
    r->waiting_count--;
    memmove(r->waiting + at, r->waiting + at + 1, (r->waiting_count - at) * sizeof *r->waiting);
}

/* Lets every thread whose first held record has become possible go on. */
static bool wake_held_threads(struct reader *r)
{
    for (bool again = r->held > 0; again;) {
        again = false;
        for (size_t i = 0; i < r->waiting_count;) {
            struct thread *t = &r->threads[r->waiting[i]];
            while (t->count && ready(r, &t->held[t->first])) {
                if (!act(r, t, &t->held[t->first]))
                    return false;
                t->first++;
                t->count--;
                r->held--;
                again = true;
            }
            if (t->count)
                i++;
            else
                stop_waiting(r, i);
        }
    }
    return true;
}

/* The thread held back with the most records goes on, possible or not. */
static bool force(struct reader *r)
{
    size_t at = 0;
    for (size_t i = 1; i < r->waiting_count; i++)
        if (r->threads[r->waiting[i]].count > r->threads[r->waiting[at]].count)
            at = i;
    struct thread *most = &r->threads[r->waiting[at]];
    if (!act(r, most, &most->held[most->first]))
        return false;
    most->first++;
    most->count--;
    r->held--;
    if (!most->count)
        stop_waiting(r, at);
    return wake_held_threads(r);
}

static bool hold_record(struct reader *r, struct thread *t, const struct djmalloc_record *k)
{
    if (t->first + t->count == t->cap) {
        if (t->first) {
            memmove(t->held, t->held + t->first, t->count * sizeof *t->held);
            t->first = 0;
        } else {
            size_t cap = t->cap ? 2 * t->cap : 64;
            struct djmalloc_record *h = realloc(t->held, cap * sizeof *h);
            if (!h)
                return false;
            t->held = h;
            t->cap = cap;
        }
    }
    if (!t->count) {
        const uint32_t number = (uint32_t)(t - r->threads);
        size_t at = r->waiting_count++;
        for (; at && r->waiting[at - 1] > number; at--)
            r->waiting[at] = r->waiting[at - 1];
        r->waiting[at] = number;
    }
    t->held[t->first + t->count++] = *k;
    r->held++;
    return true;
}

/* The records of malloc and free that a realloc made have been taken with it. */
static bool record_is_part(struct thread *t, const struct djmalloc_record *k)
{
    unsigned type = k->type_path & 255;
    if (type == DJ_MALLOC && t->skip_malloc && k->ptr2 == t->skip_malloc) {
        t->skip_malloc = 0;
        return true;
    }
    if (type == DJ_FREE && t->skip_free && k->ptr1 == t->skip_free) {
        t->skip_free = 0;
        return true;
    }
    t->skip_malloc = t->skip_free = 0;
    if (type == DJ_REALLOC && k->type_path & DJ_PATH_IS_PARTS && k->ptr1 && k->ptr2) {
        t->skip_malloc = k->ptr2;
        t->skip_free = k->ptr1;
    }
    return false;
}

static int convert_records(struct reader *r, const struct djmalloc_record *k, size_t n,
                           struct error *err)
{
    for (size_t i = 0; i < n; i++) {
        unsigned type = k[i].type_path & 255;
        if (type == DJ_UNUSED || type == DJ_MAGIC)
            continue;
        if (!op_of(type))
            return error_set(err, ERROR_FORMAT, "record %zu has the type %u, which does not exist",
                             i, type);
        struct thread *t = find_trace_thread(r, k[i].thread, err);
        if (!t)
            return -1;
        bool fine = true;
        if (record_is_part(t, &k[i]))
            continue;
        if (t->count || !ready(r, &k[i])) {
            r->result->reordered += !t->count;
            fine = hold_record(r, t, &k[i]);
            while (fine && (r->held > HELD_MAX || r->waiting_count == WAITING_MAX))
                fine = force(r);
        } else {
            fine = act(r, t, &k[i]) && wake_held_threads(r);
        }
        if (!fine)
            return error_memory_for(err, "the live blocks");
    }
    while (r->held)
        if (!force(r))
            return error_memory_for(err, "the live blocks");
    return 0;
}

int djmalloc_read_records(const uint8_t *data, size_t bytes, const struct djmalloc_sink *sink,
                          struct djmalloc_result *result, struct error *err)
{
    struct reader r = {.sink = sink, .result = result};
    int bad = convert_records(&r, (const struct djmalloc_record *)(const void *)data,
                              bytes / sizeof(struct djmalloc_record), err);
    for (size_t i = 0; i < r.thread_count; i++)
        free(r.threads[i].held);
    free(r.threads);
    index_release(&r.thread_index);
    free(r.blocks);
    return bad;
}

/* --- into a workload --- */

static uint32_t workload_thread(void *arg, int32_t id, bool first)
{
    (void)id;
    return workload_writer_thread(arg, first, false, UINT64_MAX);
}

static uint32_t workload_call(void *arg, uint32_t thread, const struct djmalloc_record *k,
                              uint32_t slot, uint32_t vanished)
{
    struct workload_writer *w = arg;
    const unsigned type = k->type_path & 255, op = op_of(type);
    if ((type == DJ_FREE || type == DJ_REALLOC) && k->ptr1 && slot == DJ_NO_SLOT)
        workload_writer_count(w, WORKLOAD_FACT_UNKNOWN_FREES, 1);
    if (type == DJ_FREE) {
        if (!k->ptr1)
            workload_writer_null(w, thread, op, 0, 0, 0);
        else if (slot != DJ_NO_SLOT)
            workload_writer_release(w, thread, op, slot, 0, 0, 0);
        return DJ_NO_SLOT;
    }
    if (djmalloc_failed(k)) {
        if (slot != DJ_NO_SLOT && !k->size)
            workload_writer_reallocate_zero(w, thread, op, slot, 0);
        else
            workload_writer_failed(w, thread, op, k->size, k->size2, 0);
        return DJ_NO_SLOT;
    }
    if (vanished != DJ_NO_SLOT)
        workload_writer_release(w, thread, WORKLOAD_VANISH, vanished, 0, 0, 0);
    if (slot != DJ_NO_SLOT)
        return workload_writer_reallocate(w, thread, op, slot, k->size, 0);
    return workload_writer_allocate(w, thread, op, k->size, k->size2, 0);
}

int djmalloc_read_trace(const uint8_t *data, size_t bytes, struct workload_writer *w,
                        struct djmalloc_result *result, struct error *err)
{
    const struct djmalloc_sink sink = {w, workload_thread, workload_call};
    return djmalloc_read_records(data, bytes, &sink, result, err);
}
