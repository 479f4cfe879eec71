/* measure.h - what the replay costs the process: resident size, faults, and both over time.
 *
 * Owns: the descriptors kept open on /proc/self, and the helper that reads them at intervals: a
 * process of its own in the same memory, so that a replay of one thread stays a process of one
 * thread (an allocator may take no locks then), and neither its time nor its faults are the
 * replay's. What only the replay's own threads may do (ask the allocator, trim), the helper asks of
 * them through measure.due. Figures are raw: the engine's own memory is still in them. */
#ifndef MALLOW_REPLAY_MEASURE_H
#define MALLOW_REPLAY_MEASURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define MEASURE_POINTS  512u /* when full, every second point goes and the interval doubles */
#define MEASURE_UNKNOWN UINT64_MAX

enum measure_due { MEASURE_DUE_FREE = 1, MEASURE_DUE_TRIM = 2 };

struct measure_point {
    uint64_t time_ns, rss_bytes, vmsize_bytes, ideal_bytes;
    uint64_t free_bytes; /* in the allocator; MEASURE_UNKNOWN when it did not say */
};

struct measure {
    int statm, status;
    bool peak_is_exact; /* the kernel's high-water mark could be reset at the start */
    uint64_t start_ns, interval_ns, trim_every_ns;
    struct measure_point start, end, peak;                   /* peak: each field's largest */
    uint64_t minor_faults, major_faults, user_ns, system_ns; /* from start to end */
    uint64_t peak_before;                                    /* VmSize before the start */
    uint32_t points;
    struct measure_point point[MEASURE_POINTS];
    int64_t (*ideal)(const void *arg); /* live bytes now */
    const void *ideal_arg;
    _Atomic uint32_t due;              /* enum measure_due: what a thread of the replay is to do */
    _Atomic uint64_t answer;           /* free bytes, MEASURE_UNKNOWN until first measured */
    _Atomic uint64_t trims, chores_ns; /* done, and the CPU time that all chores took */
    _Atomic uint64_t next_look_ns;     /* not before, so that looking stays below a hundredth */
    _Atomic uint32_t begun, stop;
    pid_t replay, helper;
    uint8_t stack[64 << 10] __attribute__((aligned(64)));
};

/* The struct must be mapped and zeroed by the caller; this touches it. `ideal` returns the live
 * bytes, to any thread, the helper's process among them. malloc_trim is called every trim_every_ns,
 * when that is not 0. -1 with *err. */
int measure_init(struct measure *m, int64_t (*ideal)(const void *arg), const void *ideal_arg,
                 uint64_t trim_every_ns, struct error *err);

/* From here on it counts. */
int measure_start(struct measure *m, struct error *err);

/* Until here. */
void measure_stop(struct measure *m);

/* Does the due work; for threads of the replay, between calls. Its time is not the replay's. */
void measure_chores(struct measure *m);

uint64_t measure_now_ns(void);

#endif
