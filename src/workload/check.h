/* check.h - reading a workload file's summary, and proving that the file is sound.
 *
 * Owns: every check of docs/workload.md, so that what passed can be replayed by code that checks
 * nothing: no record waits for ever, no slot is out of range or used twice, no number runs past its
 * chunk. Takes memory from the kernel (mmap), never from malloc: the replayer calls this before the
 * allocator under test has been called at all. One thread. */
#ifndef MALLOW_WORKLOAD_CHECK_H
#define MALLOW_WORKLOAD_CHECK_H

#include "base/error.h"
#include "workload/format.h"

struct workload_thread {
    uint32_t seat, flags; /* enum workload_thread_flags */
    uint64_t records;
    uint64_t first_chunk, chunks; /* in workload.offsets */
};

struct workload {
    const uint8_t *data; /* the file, mapped */
    size_t bytes;
    uint64_t facts[WORKLOAD_FACT_COUNT]; /* enum workload_fact */
    uint64_t calls[WORKLOAD_CODES];
    uint32_t thread_count;
    struct workload_thread *threads; /* one mapping of map_bytes, with offsets behind */
    uint64_t *offsets, offset_count;
    size_t map_bytes;
};

/* Maps the file and reads its summary. -1 with *err when it is no whole workload. */
int workload_open(int fd, struct workload *w, struct error *err);

struct workload_event { /* a record, as it is met in recorded order */
    uint32_t thread;
    uint32_t code;    /* enum workload_code or mlw_op */
    uint32_t variant; /* enum workload_alloc or workload_release */
    uint32_t slot;    /* when has_slot; of MOVE the new one */
    uint32_t toucher; /* thread that acted on the slot before, when waits */
    bool has_slot, waits;
    uint64_t size_bytes; /* the size in allocations and reallocations; in START the thread; in MOVE
                            the slot before */
    uint64_t alignment;
    uint64_t live_bytes; /* the sum of live sizes after it */
};

/* Goes through every record in recorded order, checks it, and shows it to `visit`. -1 with *err
 * naming the first fault; the records before it are sound. */
int workload_visit(const struct workload *w,
                   void (*visit)(void *arg, const struct workload_event *event), void *arg,
                   struct error *err);

/* Goes through every record in recorded order. -1 with *err naming the first fault. */
int workload_check(const struct workload *w, struct error *err);

/* Lets the file's mapping go; the table of threads and offsets stays until workload_close. */
void workload_unmap(struct workload *w);
void workload_close(struct workload *w);

#endif
