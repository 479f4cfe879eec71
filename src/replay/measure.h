/* measure.h - what the replay costs the process: resident size, faults, and both over time.
 *
 * Owns: the descriptors kept open on /proc/self, and the thread that reads them at intervals, which
 * never allocates. Figures are raw: the engine's own memory is still in them. */
#ifndef MALLOW_REPLAY_MEASURE_H
#define MALLOW_REPLAY_MEASURE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define MEASURE_POINTS 512u /* when full, every second point goes and the interval doubles */

struct measure_point {
    uint64_t time_ns, rss_bytes, vmsize_bytes, ideal_bytes;
};

struct measure {
    int statm, status;
    bool peak_is_exact; /* the kernel's high-water mark could be reset at the start */
    uint64_t start_ns, interval_ns, trim_every_ns, trims;
    struct measure_point start, end, peak;                   /* peak: each field's largest */
    uint64_t minor_faults, major_faults, user_ns, system_ns; /* from start to end */
    uint64_t helper_ns;                                      /* CPU time of the thread itself */
    uint32_t points;
    struct measure_point point[MEASURE_POINTS];
    const _Atomic int64_t *ideal;
    _Atomic uint32_t stop;
    pthread_t helper;
    int (*trim)(size_t pad);
    uint8_t stack[128 << 10] __attribute__((aligned(64)));
};

/* The struct must be mapped and zeroed by the caller; this touches it. `ideal`: live bytes. `trim`
 * is called every trim_every_ns, when that is not 0. -1 with *err. */
int measure_init(struct measure *m, const _Atomic int64_t *ideal, int (*trim)(size_t pad),
                 uint64_t trim_every_ns, struct error *err);

/* From here on it counts. */
int measure_start(struct measure *m, struct error *err);

/* Until here. */
void measure_stop(struct measure *m);

uint64_t measure_now_ns(void);

#endif
