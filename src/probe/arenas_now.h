/* arenas_now.h - what glibc's arenas are in a process that runs already. Private to this directory.
 *
 * Owns: reading the structures of glibc 2.26 to 2.43 out of the process's memory, and not believing
 * them unless they add up. */
#ifndef MALLOW_PROBE_ARENAS_NOW_H
#define MALLOW_PROBE_ARENAS_NOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "probe/arenas.h"

/* library: the file that glibc is; main_arena and limits (mp_): addresses in it; lacks: bytes
 * that its arenas have less in front of their tops than those of 2.27 to 2.42. True when *a knows
 * heaps, arenas, sbrk and thresholds of the process now; else it is as it was. */
bool arenas_now(struct arenas *a, pid_t pid, const char *library, uint64_t main_arena,
                uint64_t limits, uint64_t lacks);

#endif
