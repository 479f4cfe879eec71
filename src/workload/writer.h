/* writer.h - writes a workload file from calls in the order of the recording.
 *
 * Owns: the choice of slots (who may reuse which, so that threads wait for each other only where
 * the program's own hand-overs force it), seats, starts of threads, chunks, the summary. Refuses:
 * to know where the calls come from. Memory: 24 bytes a slot, a chunk a live thread, 8 bytes a
 * chunk written. Not thread-safe.
 *
 * After the first error every function does nothing; workload_writer_finish returns it. */
#ifndef MALLOW_WORKLOAD_WRITER_H
#define MALLOW_WORKLOAD_WRITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "workload/format.h"

struct workload_writer;

/* Begins what becomes the file when it is finished. NULL with *err on failure. */
struct workload_writer *workload_writer_new(const char *path, struct error *err);

/* Registers a thread; numbers count from 0. Its first call starts it. `end_ns` is the time of its
 * last call or its end when that is known (ended), else UINT64_MAX. */
uint32_t workload_writer_thread(struct workload_writer *w, bool is_main, bool ended,
                                uint64_t end_ns);

/* A successful call that makes a block; code as in workload_allocates, or a realloc of NULL.
 * Returns the block's slot. Alignment is 0 where the call has none. */
uint32_t workload_writer_allocate(struct workload_writer *w, uint32_t thread, unsigned code,
                                  uint64_t size_bytes, uint64_t alignment, uint64_t time_ns);
void workload_writer_failed(struct workload_writer *w, uint32_t thread, unsigned code,
                            uint64_t size_bytes, uint64_t alignment, uint64_t time_ns);
void workload_writer_release(struct workload_writer *w, uint32_t thread, unsigned code,
                             uint32_t slot, uint64_t size_bytes, uint64_t alignment,
                             uint64_t time_ns);
void workload_writer_null(struct workload_writer *w, uint32_t thread, unsigned code,
                          uint64_t size_bytes, uint64_t alignment, uint64_t time_ns);

/* The thread's next call makes a block of pool 1 to WORKLOAD_POOLS: of a call site that a replay
 * can serve from memory of its own, or leave out. */
void workload_writer_pool(struct workload_writer *w, uint32_t thread, unsigned pool,
                          uint64_t time_ns);

/* Returns the slot that the block has from now on (nearly always the same). */
uint32_t workload_writer_reallocate(struct workload_writer *w, uint32_t thread, unsigned code,
                                    uint32_t slot, uint64_t size_bytes, uint64_t time_ns);
void workload_writer_reallocate_zero(struct workload_writer *w, uint32_t thread, unsigned code,
                                     uint32_t slot, uint64_t time_ns);

/* Calls of one thread, in their order: malloc and calloc that made a block, free of one. */
struct workload_calls {
    size_t n;
    const uint8_t *code; /* 0 for another call: it is not taken, nor one behind it */
    const uint32_t
        *thread;          /* the caller's numbers: nothing behind the first that differs is taken */
    const uint32_t *slot; /* the caller's numbers of the blocks */
    const uint64_t *size; /* the size of the allocations */
    const uint64_t *time_ns;
    uint32_t *slots; /* by number: the slot of the block that lives, UINT32_MAX for none */
    uint32_t slot_count;
    bool far_away; /* so many slots that no cache holds them */
};

/* The same as allocate and release for each of them, for a third of the time. Returns how many were
 * taken; 0: the first needs more care than this. */
size_t workload_writer_calls(struct workload_writer *w, uint32_t thread,
                             const struct workload_calls *calls);

/* The block in `slot` will soon be released or reallocated: prefetches its entry. Any number; one
 * that is no slot does nothing. */
void workload_writer_expect(const struct workload_writer *w, uint32_t slot);

/* The block in `slot` is in the middle of a realloc of this thread, and other threads act. */
void workload_writer_early(struct workload_writer *w, uint32_t thread, uint32_t slot,
                           uint64_t time_ns);

/* Adds to a fact of the summary: UNKNOWN_FREES, LOST_CALLS, NOT_REPLAYED. */
void workload_writer_count(struct workload_writer *w, enum workload_fact fact, uint64_t n);

struct workload_written {
    uint64_t facts[WORKLOAD_FACT_COUNT]; /* enum workload_fact */
    uint64_t file_bytes, ops_bytes, order_bytes, pace_bytes;
    uint32_t threads;
};

/* Writes the rest and puts the file in its place; frees w. On failure a file that was there stays,
 * -1 with *err. */
int workload_writer_finish(struct workload_writer *w, struct workload_written *written,
                           struct error *err);

/* A file that was there stays; frees w. */
void workload_writer_abandon(struct workload_writer *w);

#endif
