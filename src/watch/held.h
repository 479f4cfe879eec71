/* held.h - whether the shared memory of a process is in use, also by one in another pid namespace.
 *
 * A process holds the lock of its segment (flock) as long as it has it mapped, and who reads a
 * session holds that of its directory: the kernel lets go of it at their ends. Process ids mean
 * something only to those in the same pid namespace. Nothing waits; nothing is kept open. Any
 * thread. */
#ifndef MALLOW_WATCH_HELD_H
#define MALLOW_WATCH_HELD_H

#include <stdbool.h>

#include "format/watch.h"

/* True if another process holds the open file or directory. False if that cannot be known. */
bool held_by_other(int fd);
/* As held_by_other, for an entry of a directory that is a regular file or a directory; false for
 * all others. */
bool held_entry(int dir, const char *name);
/* Holds an open directory until its descriptor is closed. Returns false if another process holds
 * it. */
bool held_take(int fd);

/* True if the process ids in a segment are known to be of another pid namespace than ours. */
bool held_elsewhere(const struct mlw_watch *head);
/* True if it is not known which namespace they are of, because there was no /proc where the
 * process ran, or is none here. */
bool held_somewhere(const struct mlw_watch *head);

#endif
