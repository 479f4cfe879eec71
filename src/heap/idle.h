/* idle.h - the kernel's idle page tracking: which pages of a process were not touched.
 *
 * Owns: /sys/kernel/mm/page_idle/bitmap, a bit for each page of the machine's memory, and the way
 * from a process's addresses to it. It sees reads as well as writes. Of a large page it knows only
 * whether any part was touched. It is the machine's own, so it takes root, and who else marks the
 * same pages (another process that shares them, a tool of the same kind) changes what it says. One
 * thread. */
#ifndef MALLOW_HEAP_IDLE_H
#define MALLOW_HEAP_IDLE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct idle;

/* root: "", or, in tests, a directory with sys and proc of another machine. Returns NULL with
 * the reason. */
struct idle *idle_open(pid_t pid, const char *root, char *reason, size_t room);
void idle_close(struct idle *i); /* NULL is fine */

/* Marks the resident pages of [start, end) as idle. Returns -1 with errno. */
int idle_mark(struct idle *i, uint64_t start, uint64_t end);

/* Calls `touched` for each resident page of [start, end) that was touched since idle_mark, by
 * address. Returns -1 with errno, or the first result of the callback that is not 0. */
int idle_touched(struct idle *i, uint64_t start, uint64_t end,
                 int (*touched)(void *arg, uint64_t start, uint64_t end), void *arg);

#endif
