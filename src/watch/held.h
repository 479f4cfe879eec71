/* held.h - whether the shared memory of a process is in use, also by one in another pid namespace.
 *
 * A process holds the lock of its segment (flock) as long as it has it mapped, and who reads a
 * session holds that of its directory: the kernel lets go of it at their ends. Process ids mean
 * something only to those in the same pid namespace. Nothing waits; nothing is kept open but by
 * held_take. Any thread. */
#ifndef MALLOW_WATCH_HELD_H
#define MALLOW_WATCH_HELD_H

#include <stdbool.h>

#include "format/watch.h"

/* Whether somebody holds the file or directory. False when it cannot be asked. */
bool held_is(const char *path);
/* Holds a directory until the descriptor that is returned is closed; -1: not to be had. */
int held_take(const char *directory);

/* Whether the process ids in a segment are known to be of another pid namespace than ours. */
bool held_elsewhere(const struct mlw_watch *head);

#endif
