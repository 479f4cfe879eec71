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
/* Starts to read at the cursor's position; the cursor's last batch becomes invalid. The cursor
 * stays the caller's, who must not use it before decoder_close. Returns NULL without a thread or
 * memory; then the caller reads itself. */
struct decoder *decoder_open(struct cursor *c);
/* As cursor_next. */
int decoder_next(struct decoder *d, struct trace_batch *batch, struct error *err);
/* Ends the thread at any time. NULL is fine. */
void decoder_close(struct decoder *d);

#endif
