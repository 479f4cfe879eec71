/* drain.h - parts that the caller fills and a thread of its own empties behind it: the reverse of a
 * ring.
 *
 * Owns: the thread, and the order in which a fixed number of parts changes hands. What a part is,
 * and its memory, are the caller's: a part is the number of one, below `parts`. All functions are
 * for one thread, the caller's. */
#ifndef MALLOW_BASE_DRAIN_H
#define MALLOW_BASE_DRAIN_H

/* Empties the part, on the drain's thread, which alone may touch it. */
typedef void drain_take(void *arg, unsigned part);

struct drain;
/* `parts`: at least 2. `arg` must outlive the drain. NULL when there is no thread or memory to be
 * had. */
struct drain *drain_open(unsigned parts, drain_take *take, void *arg);
/* An empty part, to be filled; it is the caller's until the next call, which gives it to the
 * thread. Parts are emptied in the order in which they were given. Waits when all are full. */
unsigned drain_next(struct drain *d);
/* Gives the last part, waits until all are empty, and ends the thread. NULL does nothing. */
void drain_close(struct drain *d);

#endif
