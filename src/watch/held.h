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

/* True if another holds the open file or directory. False when it cannot be asked. */
bool held_by_other(int fd);
/* The same of an entry of a directory: a regular file or a directory; of others it is false. */
bool held_entry(int dir, const char *name);
/* Holds an open directory until its descriptor is closed. False: another holds it. */
bool held_take(int fd);

/* True if the process ids in a segment are known to be of another pid namespace than ours. */
bool held_elsewhere(const struct mlw_watch *head);
/* True if that is not known: there was no /proc where it ran, or is none here. */
bool held_somewhere(const struct mlw_watch *head);

#endif
