/* clock.h - the time that passes, for tools, in nanoseconds. Any thread. */
#ifndef MALLOW_BASE_CLOCK_H
#define MALLOW_BASE_CLOCK_H

#include <stdint.h>

uint64_t clock_monotonic_ns(void);
uint64_t clock_thread_ns(void); /* that the calling thread has run */

#endif
