/* decoder.h - a cursor that is read ahead of its caller by a thread of its own.
 *
 * Owns: the thread, and a ring of decoded batches between it and the caller. What the caller gets
 * is what it would get from the cursor alone, byte for byte: batches in their order, and the damage
 * that reading found no earlier than the batch behind it. Memory is that of a cursor and
 * DECODER_PARTS batches. All functions are for one thread, the caller's. */
#ifndef MALLOW_TRACE_SEALED_DECODER_H
#define MALLOW_TRACE_SEALED_DECODER_H

#include "cursor.h"

#define DECODER_PARTS 8u

struct decoder;
/* Starts to read where the cursor stands, whose last batch no longer holds. The cursor stays the
 * caller's and must not be used until decoder_close. NULL when there is no thread or memory to be
 * had: the caller reads by itself. */
struct decoder *decoder_open(struct cursor *c);
/* As cursor_next. */
int decoder_next(struct decoder *d, struct trace_batch *batch, struct error *err);
/* Ends the thread, wherever it is. NULL does nothing. */
void decoder_close(struct decoder *d);

#endif
