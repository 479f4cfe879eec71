/* ring.h - parts that a thread of its own fills ahead of the caller.
 *
 * Owns: the thread, and the order in which a fixed number of parts changes hands. What a part is,
 * and its memory, are the caller's: a part is the number of one, below `parts`. All functions are
 * for one thread, the caller's. */
#ifndef MALLOW_BASE_RING_H
#define MALLOW_BASE_RING_H

#include <stdbool.h>

/* Fills the part, on the ring's thread, which alone may touch it and what it is filled from.
 * Whether another one comes behind it (else the thread ends). */
typedef int ring_fill(void *arg, unsigned part);

/* Does a piece of other work, on the caller's thread, which finds no part filled. Whether there was
 * one. */
typedef bool ring_help(void *arg);

struct ring;
/* Starts to fill. help: NULL, the caller waits. `arg` must outlive the ring. NULL when there is no
 * thread or memory to be had. */
struct ring *ring_open(unsigned parts, ring_fill *fill, ring_help *help, void *arg);
/* The next part, once it is filled; it is the caller's until the next call, which gives it back.
 * Not to be called behind the last part. */
unsigned ring_next(struct ring *r);
/* Ends the thread, wherever it is; the parts are the caller's again. NULL does nothing. */
void ring_close(struct ring *r);

#endif
