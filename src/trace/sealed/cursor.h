/* cursor.h - the events of one image of a sealed file, batch by batch.
 *
 * Owns: the mirror of the sealer's slots, the decoding of columns, and what happens after a damaged
 * block: then it remembers which slots are known to be live, so that no event names a block that
 * the caller never saw begin. Memory: the columns of one block for each thread, one batch, 4 bytes
 * a slot (16 more when addresses are asked for). One thread a cursor, beside those that load
 * blocks. */
#ifndef MALLOW_TRACE_SEALED_CURSOR_H
#define MALLOW_TRACE_SEALED_CURSOR_H

#include "store.h"

struct cursor;
/* threads: to read with, the caller's included. The first takes the batches, the second makes
 * them (decoder.h), and further ones load blocks ahead. NULL with *err. */
struct cursor *cursor_open(struct store *s, uint32_t image, unsigned columns, uint64_t to_ns,
                           unsigned threads, struct error *err);
/* Reads the next batch. Returns 1 with *batch set, 0 at the end, or -1 with *err without memory,
 * or if the file cannot be read. Damage is skipped and counted in the store's info. */
int cursor_next(struct cursor *c, struct trace_batch *batch, struct error *err);
/* Loads a block ahead. Returns false if there is no block left, or no place for it. Any thread. */
bool cursor_help(struct cursor *c);
void cursor_close(struct cursor *c);

#endif
