/* engine.h - executes a workload with real threads against the malloc of this process.
 *
 * Owns: the slots, the seats (a thread's stack, buffer and counts), the waiting, the timing of
 * calls. All its memory comes from mmap and is touched before the first call; it never calls the
 * allocator but for the workload. The workload must have passed workload_check. */
#ifndef MALLOW_REPLAY_ENGINE_H
#define MALLOW_REPLAY_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "arch/clock.h"
#include "replay/measure.h"
#include "replay/park.h"
#include "replay/stages.h"
#include "workload/check.h"

enum engine_order { ENGINE_DEPENDENT, ENGINE_RECORDED };
enum engine_touch { ENGINE_TOUCH_NONE, ENGINE_TOUCH_PAGES, ENGINE_TOUCH_BYTES };
enum engine_timing { ENGINE_TIMING_ALL, ENGINE_TIMING_SAMPLE, ENGINE_TIMING_NONE };

struct engine_options {
    int order, touch, timing;
    double pace; /* 0: as fast as possible; 1: as recorded; 2: twice as fast */
    bool dry;    /* account, but do not allocate */
    bool verify; /* die when two threads use one slot at once; times nothing */
    /* Bits 1 << (pool - 1): blocks that get memory of their own, and blocks that are not made.
     * Without `verify`; times nothing. */
    unsigned pooled, left_out;
};

/* 16 bytes a block. The word is the block's address >> 3 in the low 44 bits (0: empty) and the
 * slot's generation above; it is stored with release after everything else, and loaded with
 * acquire. An empty slot on a thread's stack keeps the next one in size. */
struct engine_slot {
    _Atomic uint64_t word;
    uint64_t size_bytes;
};

/* Cycles of calls: below 32 exactly, above in 16 steps an octave. */
#define ENGINE_BUCKETS 640u
#define ENGINE_SLOWEST 8u
#define ENGINE_CODES   13u /* calls are 1..12 */

/* The reason for which a thread sleeps: a block or slot, the end of a stage, its turn in recorded
 * order, a thread that begins or ends. */
enum engine_sleep {
    ENGINE_SLEEP_BLOCK,
    ENGINE_SLEEP_STAGE,
    ENGINE_SLEEP_TURN,
    ENGINE_SLEEP_THREAD,
    ENGINE_SLEEPS
};

struct engine_slow {
    uint64_t cycles, size_bytes;
    uint32_t code;
};

struct engine_times { /* the times of one function */
    uint64_t count, failed, timed, cycles, max_cycles;
    uint64_t preempted; /* timed, but switched out meanwhile: not in timed, cycles, buckets */
    uint32_t buckets[ENGINE_BUCKETS];
};

struct engine;

struct engine_seat {
    struct engine *engine;
    struct workload_chunk chunk;
    uint8_t *buffer; /* WORKLOAD_PAYLOAD_MAX + 64 */
    const uint8_t *ops, *runs, *pace;
    void *stack;
    pthread_t pthread;
    bool used;
    _Atomic uint32_t occupant; /* the thread that sits here or sat here last, + 1; 0: none yet */
    uint32_t thread, last_slot, last_generation, own;
    unsigned pool; /* the pool of its next block; 0: none */
    uint64_t records_left, next_chunk;
    const uint8_t *record;            /* that is under way, in the chunk; NULL: none */
    uint64_t records_before;          /* the thread's records in chunks before this one */
    uint64_t place, run_left, undone; /* the place of its next record; records left in the run;
                                         records done and not reported */
    /* counting of live bytes: exact (peak) when one thread runs at a time, else in steps */
    int64_t live, high, low; /* live: in dependent order the bytes not in engine.live yet */
    volatile uint64_t
        *rseq_cs; /* the rseq cs of its thread; NULL when the kernel or libc has none */
    long waits;   /* voluntary switches of its thread when last looked */
    uint64_t sleeps[ENGINE_SLEEPS];
    uint64_t random;
    uint32_t countdown;
    uint64_t unexpected; /* calls that failed in the recording and did not here, or the reverse */
    uint64_t slow_from;  /* cycles of the fastest of the slowest */
    struct engine_slow slowest[ENGINE_SLOWEST];
    struct engine_times times[ENGINE_CODES];
} __attribute__((aligned(64)));

struct engine {
    const struct workload *workload;
    struct engine_options options;
    int fd;
    struct pools *pools;         /* when some are asked for */
    bool many;                   /* threads */
    bool far_away;               /* so many slots of one thread that few of them are in a cache */
    struct measure *measure;     /* the caller's, whose chores the threads do */
    const struct stages *stages; /* the caller's; NULL when no thread has to wait for them */
    uint64_t overhead_cycles, start_tsc;
    double cycles_per_ns;
    struct engine_slot *slots;
    struct engine_seat *seats;
    uint32_t seat_count;
    uint64_t own_bytes, own_mapped_bytes; /* touched; mapped */
    int64_t step;                         /* how far live bytes may go between threads */
    uint8_t nearest[ENGINE_CODES];        /* allocator_nearest of each call */
    _Atomic int64_t live __attribute__((aligned(64)));
    _Atomic int64_t peak;
    _Atomic uint64_t turn __attribute__((aligned(64))); /* place that may act in recorded order */
    _Atomic uint64_t bound
        __attribute__((aligned(64))); /* end of the stage: no place at or behind */
    _Atomic uint64_t done;            /* records, of threads that have reported them */
    uint32_t stage;                   /* the stage that the one who opens the next has reached */
    _Atomic uint32_t begun;           /* threads that have executed a record */
    _Atomic uint32_t go __attribute__((aligned(64)));
    _Atomic uint32_t finished, end;
    struct park park;
};

/* Maps everything. `stages`: of dependent order with several threads, else NULL. -1 with *err. */
int engine_init(struct engine *e, const struct workload *w, const struct stages *stages, int fd,
                const struct engine_options *options, struct error *err);

/* Starts the threads that are there from the beginning; they wait. Ends the replay when one cannot
 * be made. */
void engine_prepare(struct engine *e);

/* Runs to the last record; the calling thread plays the main thread. The threads that stayed are
 * still there afterwards. */
void engine_run(struct engine *e);

/* Lets the threads that stayed end. */
void engine_end(struct engine *e);

/* Live bytes now, of an engine. Any thread; while threads run, within a step for each of them. */
int64_t engine_live(const void *engine);

/* Sums the seats' times of one function into *into (zeroed by the caller). */
void engine_sum(const struct engine *e, unsigned code, struct engine_times *into);

/* The cycles below which a share of the timed calls lie, from the buckets (upper bound). */
uint64_t engine_percentile(const struct engine_times *t, double share);

static inline uint64_t engine_clock(void) { return arch_clock_ordered(); }

#endif
