/* pieces.h - work in numbered pieces, done by several threads and handed over in order.
 *
 * Owns: the threads, and which piece goes into which place. A piece must not depend on any other.
 * What it is and its memory are the caller's: `places` results stand at a time, begun or done, and
 * not given back. Who takes the results in order is one thread, which does a piece itself when none
 * is ready; others may help. So what comes out does not depend on how many threads there are. */
#ifndef MALLOW_BASE_PIECES_H
#define MALLOW_BASE_PIECES_H

#include <stdbool.h>
#include <stdint.h>

/* Does the piece of that number, which counts from 0, in that place. No other thread touches the
 * place meanwhile. */
typedef void pieces_work(void *arg, uint64_t number, unsigned place);

struct pieces;
/* `helpers` threads begin at once, fewer where there are not so many to be had. `arg` must outlive
 * them. NULL without memory. */
struct pieces *pieces_open(unsigned places, unsigned helpers, uint64_t count, pieces_work *work,
                           void *arg);
/* Gives the piece of before back, and waits for the next one in order: its place. Not to be called
 * behind the last. For one thread. */
unsigned pieces_next(struct pieces *p);
/* Does one piece that no thread has begun, if there is one, and a place for it: whether there was.
 * Any thread. */
bool pieces_help(struct pieces *p);
/* Ends the threads, each behind the piece that it does. NULL does nothing. */
void pieces_close(struct pieces *p);

#endif
