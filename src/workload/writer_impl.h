/* writer_impl.h - what the writer of a workload remembers: per slot, per thread, in all. For
 * writer.c and writer_calls.c alone. */
#ifndef MALLOW_WORKLOAD_WRITER_IMPL_H
#define MALLOW_WORKLOAD_WRITER_IMPL_H

#include "trust/place.h"
#include "workload/writer.h"

#define NONE UINT32_MAX

/* Times closer than this share one entry of the pace. */
#define PACE_STEP_NS 1000u

struct slot { /* 16 bytes: with many live blocks each event takes one from far away */
    union {
        uint64_t size_bytes; /* while its block lives */
        uint32_t next;       /* in a list of free slots */
    };
    uint32_t generation;
    uint32_t toucher; /* thread that acted on it last */
};

/* The toucher above the generation. */
static inline uint64_t slot_state(const struct slot *b)
{
    return (uint64_t)b->toucher << 32 | b->generation;
}

struct stream {
    uint8_t *ops, *runs, *pace; /* WORKLOAD_PAYLOAD_MAX each, NULL before the first record */
    uint32_t ops_bytes, runs_bytes, pace_bytes;
    uint32_t ops_room; /* from so many bytes on, writer_make_ready is to look; 0 at first */
    uint32_t records, run, since_pace;
    uint64_t first_place, run_end, gap;
    uint64_t first_ns, pace_ns;
    uint32_t last_slot, last_generation;
    uint32_t own, own_count; /* stack of free slots */
    uint32_t seat, flags;
    uint64_t end_ns, total_records;
    uint64_t *offsets;
    size_t offset_count, offset_cap;
    bool started, ended, end_written;
};

struct workload_writer {
    struct trust_whole whole;
    char *path;
    struct error error;
    bool failed;
    struct slot *slots;
    uint32_t slot_count, slot_cap;
    uint32_t shared_head, shared_tail, shared_count; /* donated slots, oldest first */
    struct stream *streams;
    uint32_t stream_count, stream_cap;
    uint32_t *seats; /* the thread that sits there */
    uint32_t seat_count, seat_cap;
    uint32_t active;      /* threads that started and have not ended */
    uint32_t begun;       /* threads that have a record */
    uint64_t next_end_ns; /* the next end in ns of the thread that ends next, or earlier */
    uint32_t last_thread;
    uint32_t until_reclaim;
    uint64_t place, offset, live_bytes, live_blocks;
    uint64_t facts[WORKLOAD_FACT_COUNT];
    uint64_t calls[WORKLOAD_CODES];
    uint64_t ops_bytes, order_bytes, pace_bytes;
    uint64_t base_ns, last_ns;
    uint8_t out[sizeof(struct workload_chunk) + WORKLOAD_PAYLOAD_MAX];
};

/* A thread keeps so many free slots, while there are others, and donates more. */
static inline uint32_t writer_own_most(const struct workload_writer *w)
{
    return 64 + w->slot_count / (4 * w->active);
}

/* --- of writer.c --- */

/* Rare work before a record: threads that ended, a thread's first record, a chunk that is full or
 * begins. False after a failure. */
bool writer_make_ready(struct workload_writer *w, uint32_t thread, uint64_t time_ns);
/* Others had the places since this thread's last record. */
void writer_skip_places(const struct workload_writer *w, struct stream *s);
void writer_put_pace(struct stream *s, uint64_t ns);

/* A slot for a block, and the beginning of its record at *at. NONE after a failure. */
uint32_t writer_take_slot(struct workload_writer *w, struct stream *s, uint8_t **at, unsigned code,
                          uint64_t time_ns);
/* The record of a release, but for its sizes; its place is taken. Returns the place behind it. */
uint8_t *writer_put_release(struct workload_writer *w, struct stream *s, uint8_t *p,
                            uint32_t thread, unsigned code, uint32_t slot);
/* A slot that is free again goes to other threads, unless it has had all its lives. */
void writer_donate(struct workload_writer *w, uint32_t slot);

/* --- records --- */

/* Since the first record; never back, whatever two threads' clocks say. */
static inline uint64_t ns_of(const struct workload_writer *w, uint64_t time_ns)
{
    uint64_t ns = time_ns > w->base_ns ? time_ns - w->base_ns : 0;
    return ns > w->last_ns ? ns : w->last_ns;
}

static inline void take_room(struct stream *s, uint32_t bytes)
{
    s->ops_room -= bytes < s->ops_room ? bytes : s->ops_room;
}

/* So many records behind the entry before comes one so many ns later. */
static inline void writer_put_pace_entry(struct stream *s, uint32_t records, uint64_t ns)
{
    uint8_t *at = s->pace + s->pace_bytes;
    const uint8_t *end = workload_put_short(workload_put_short(at, records), ns);
    take_room(s, (uint32_t)(end - at));
    s->pace_bytes += (uint32_t)(end - at);
}

/* Takes the next place for a record of this thread: brings runs and pace up to it. Returns where
 * its bytes go, NULL after a failure. */
static inline __attribute__((always_inline)) uint8_t *begin(struct workload_writer *w,
                                                            uint32_t thread, uint64_t time_ns)
{
    struct stream *s = &w->streams[thread];
    if (__builtin_expect(w->failed | (time_ns > w->next_end_ns) | (s->ops_bytes >= s->ops_room),
                         0)) {
        if (!writer_make_ready(w, thread, time_ns))
            return NULL;
        s = &w->streams[thread];
    }
    const uint64_t ns = w->last_ns = ns_of(w, time_ns);
    if (__builtin_expect(s->run_end != w->place, 0))
        writer_skip_places(w, s);
    s->since_pace++;
    if (__builtin_expect(ns - s->pace_ns >= PACE_STEP_NS, 0))
        writer_put_pace(s, ns);
    s->run++;
    s->records++;
    s->run_end = ++w->place;
    w->last_thread = thread;
    return s->ops + s->ops_bytes;
}

static inline void end(struct workload_writer *w, uint32_t thread, unsigned code, const uint8_t *p)
{
    struct stream *s = &w->streams[thread];
    s->ops_bytes = (uint32_t)(p - s->ops);
    w->calls[code]++;
}

static inline uint8_t *put_slot(struct stream *s, uint8_t *p, uint32_t slot)
{
    uint32_t d = slot - s->last_slot;
    p = workload_put_short(p, (uint32_t)(d << 1) ^ (uint32_t)((int32_t)d >> 31));
    s->last_slot = slot;
    return p;
}

static inline uint8_t *put_generation(struct stream *s, uint8_t *p, uint32_t generation)
{
    p = workload_put_difference(p, generation, s->last_generation);
    s->last_generation = generation;
    return p;
}

static inline void comes_alive(struct workload_writer *w, uint64_t size_bytes)
{
    w->live_bytes += size_bytes;
    w->live_blocks++;
    if (w->live_bytes > w->facts[WORKLOAD_FACT_PEAK_BYTES])
        w->facts[WORKLOAD_FACT_PEAK_BYTES] = w->live_bytes;
    if (w->live_blocks > w->facts[WORKLOAD_FACT_PEAK_BLOCKS])
        w->facts[WORKLOAD_FACT_PEAK_BLOCKS] = w->live_blocks;
}

static inline void begin_life(struct workload_writer *w, uint32_t slot, uint32_t thread,
                              uint64_t size_bytes)
{
    struct slot *b = &w->slots[slot];
    b->generation++;
    b->toucher = thread;
    b->size_bytes = size_bytes;
    comes_alive(w, size_bytes);
}

#endif
