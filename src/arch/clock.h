/* clock.h - the counter that a program may read for a few cycles, and a pause of a few. Any thread,
 * any signal handler.
 */
#ifndef MALLOW_ARCH_CLOCK_H
#define MALLOW_ARCH_CLOCK_H

#if defined __x86_64__
#include "arch/x86_64/clock.h"
#else
#error "src/arch has no clock.h for this processor"
#endif

#endif
