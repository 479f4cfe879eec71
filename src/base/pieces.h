/* pieces.h - work in numbered pieces, done by several threads and handed over in order.
 *
 * Owns: the threads, and which piece goes into which place. A piece must not depend on any other.
 * Its kind and its memory are the caller's. At most `places` pieces are begun or done and not yet
 * given back. One thread takes the results in order, and does a piece itself when none is ready;
 * other threads may help. So the results do not depend on the number of threads. */
#ifndef MALLOW_BASE_PIECES_H
#define MALLOW_BASE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

/* Does the piece of that number, which counts from 0, in that place. No other thread touches the
 * place meanwhile. */
typedef void pieces_work(void *arg, uint64_t number, unsigned place);

struct pieces;
/* Starts `helpers` threads, or as many as can be started. `arg` must outlive
 * them. NULL without memory. */
struct pieces *pieces_open(unsigned places, unsigned helpers, uint64_t count, pieces_work *work,
                           void *arg);
/* Gives the last piece back, waits for the next one in order, and returns its place. Not to be
 * called after the final piece. For one thread. */
unsigned pieces_next(struct pieces *p);
/* Does one piece that no thread has begun. False when there is none, or no place for it. Any
 * thread. */
bool pieces_help(struct pieces *p);
/* Ends the threads, each behind the piece that it does. NULL does nothing. */
void pieces_close(struct pieces *p);

#endif
