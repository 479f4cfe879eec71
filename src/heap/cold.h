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

/* From now on; the process of t stands still (TARGET_STOPPED). root: as of idle_open. NULL with
 * *err, which says why for each way, when there is none: then nothing of the process was changed.
 * SIGINT is held back from here to cold_wait, which it ends. */
struct cold *cold_begin(struct target *t, const char *root, struct error *err);
void cold_end(struct cold *c); /* NULL is fine */

/* "idle", "userfaultfd" or "soft-dirty". */
const char *cold_source(const struct cold *c);
bool cold_sees_reads(const struct cold *c);

/* Which of these would be taken of a process without a seccomp filter; NULL with why none. */
const char *cold_way(char *reason, size_t room);

/* Waits while the process runs, at most `ns`; SIGINT ends it early (if it is not ignored), and has
 * no other effect meanwhile. *waited_ns: how long it was. -1 with *err when the process ends. tick
 * may be NULL: called now and then. The caller has one thread. */
int cold_wait(struct cold *c, uint64_t ns, uint64_t *waited_ns,
              void (*tick)(void *arg, uint64_t done, uint64_t total), void *arg, struct error *err);

/* Asks which pages were written; the process stands still, and is not yet copied. -1 with *err. */
int cold_look(struct cold *c, const struct target *t, struct error *err);

/* True if a page of [start, end) was written, or came to be, as of the last cold_look. */
bool cold_touched(const struct cold *c, uint64_t start, uint64_t end);

#endif
