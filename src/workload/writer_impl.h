/* writer_impl.h - what the writer of a workload remembers: per slot, per thread, in all. For
 * writer.c alone. */
#ifndef MALLOW_WORKLOAD_WRITER_IMPL_H
#define MALLOW_WORKLOAD_WRITER_IMPL_H

#include "workload/writer.h"

struct slot { /* 16 bytes: with many live blocks each event takes one from far away */
    union {
        uint64_t size_bytes; /* while its block lives */
        uint32_t next;       /* in a list of free slots */
    };
    uint32_t generation;
    uint32_t toucher; /* thread that acted on it last */
};

struct stream {
    uint8_t *ops, *runs, *pace; /* WORKLOAD_PAYLOAD_MAX each, NULL before the first record */
    uint32_t ops_bytes, runs_bytes, pace_bytes;
    uint32_t ops_room; /* from so many bytes on, make_ready is to look; 0 at first */
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
    int fd;
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
    uint64_t next_end_ns; /* of the thread that ends next, or earlier */
    uint32_t last_thread;
    uint32_t until_reclaim;
    uint64_t place, offset, live_bytes, live_blocks;
    uint64_t facts[WORKLOAD_FACT_COUNT];
    uint64_t calls[WORKLOAD_CODES];
    uint64_t ops_bytes, order_bytes, pace_bytes;
    uint64_t base_ns, last_ns;
    uint8_t out[sizeof(struct workload_chunk) + WORKLOAD_PAYLOAD_MAX];
};

#endif
