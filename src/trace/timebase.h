/* timebase.h - from ticks of the recorder's clock to nanoseconds since the recording began.
 *
 * Owns: the calibration from pairs of readings, and the resolution of sealed times. */
#ifndef MALLOW_TRACE_TIMEBASE_H
#define MALLOW_TRACE_TIMEBASE_H

#include <stdbool.h>
#include <stdint.h>

struct raw;

struct timebase {
    uint64_t origin;  /* clock at time 0 */
    unsigned shift;   /* a sealed tick is 1 << shift ticks of the clock */
    uint64_t near;    /* ticks of the clock by which processors' clocks may disagree; about 1 us */
    uint64_t tick_ns; /* nanoseconds of a sealed tick, in units of 2^-32 */
};

/* Computes the timebase from the sorted pairs of the recording. *uncertain: the pairs do not
 * suffice for the rate of a TSC, which is then taken as one tick a nanosecond. *settled (may be
 * NULL): the rate is that of the first half second, and later pairs do not change it. */
void timebase_of(const struct raw *r, struct timebase *t, bool *uncertain, bool *settled);

static inline uint64_t timebase_tick(const struct timebase *t, uint64_t clock)
{
    return clock > t->origin ? (clock - t->origin) >> t->shift : 0;
}
/* time_ns of a sealed tick, as every reader computes it: floor(tick * tick_ns / 2^32). */
static inline uint64_t tick_to_ns(uint64_t tick, uint64_t tick_ns)
{
    return (uint64_t)((unsigned __int128)tick * tick_ns >> 32);
}
/* Returns the clock at a time. */
static inline uint64_t timebase_clock(const struct timebase *t, uint64_t ns)
{
    return t->origin + ((uint64_t)(((unsigned __int128)ns << 32) / t->tick_ns) << t->shift);
}
static inline uint64_t timebase_ns(const struct timebase *t, uint64_t clock)
{
    return tick_to_ns(timebase_tick(t, clock), t->tick_ns);
}

#endif
