/* clock.c - Reads the kernel's monotonic clock and the processor time of the calling thread, in
 * nanoseconds. */
#include "base/clock.h"

#include <time.h>

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t clock_monotonic_ns(void) { return read_clock(CLOCK_MONOTONIC); }
uint64_t clock_thread_ns(void) { return read_clock(CLOCK_THREAD_CPUTIME_ID); }
