/* cold.h - which memory of a process was not written, or not touched, since a moment.
 *
 * Owns: what the kernel has for that, tried in this order. Idle page tracking (idle.h), which sees
 * reads as well. userfaultfd: the pages are
 * write-protected through a descriptor that the process is made to open once, and that only we
 * keep; the kernel itself takes the protection away at the first write (Linux 6.7). It ends with
 * our descriptor, however we end. soft-dirty: bits of all pages that are cleared through
 * /proc/PID/clear_refs; who else uses them (CRIU) loses what they said. All
 * know whole pages only.
 *
 * All of it is of one process, which `struct cold` holds by a pidfd. One thread; times in ns. */
#ifndef MALLOW_HEAP_COLD_H
#define MALLOW_HEAP_COLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "remote/target.h"

struct cold;

/* Begins to watch the memory of t, whose process must be stopped (TARGET_STOPPED). root: as in
 * idle_open. SIGINT is blocked from here on and ends cold_wait. If no method works it returns
 * NULL with *err, which names the reason for each, and has changed nothing in the process. */
struct cold *cold_begin(struct target *t, const char *root, struct error *err);
void cold_end(struct cold *c); /* NULL is fine */

/* "idle", "userfaultfd" or "soft-dirty". */
const char *cold_source(const struct cold *c);
bool cold_sees_reads(const struct cold *c);

/* Returns the method that would be used for a process without a seccomp filter; NULL with the
 * reason if there is none. */
const char *cold_way(char *reason, size_t room);

/* Waits while the process runs, for at most `ns`. SIGINT ends the wait early, unless it is
 * ignored, and has no other effect. *waited_ns: the time waited. tick: called at times; may be
 * NULL. Returns -1 with *err if the process ends. The caller must have one thread only. */
int cold_wait(struct cold *c, uint64_t ns, uint64_t *waited_ns,
              void (*tick)(void *arg, uint64_t done, uint64_t total), void *arg, struct error *err);

/* Asks the kernel which pages were written. The process must be stopped, and not copied yet.
 * Returns 0, or -1 with *err. */
int cold_look(struct cold *c, const struct target *t, struct error *err);

/* True if a page of [start, end) was written, or became present, before the last cold_look. */
bool cold_touched(const struct cold *c, uint64_t start, uint64_t end);

#endif
