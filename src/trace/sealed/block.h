/* block.h - the columns of a block of events.
 *
 * Owns: what each stream of a BLOCK section means; see docs/format.md for the words. An event is
 * one code (kind and operation); columns hold values only for the events that have them:
 *   size, stack    by operation (MLW_F_SIZE, MLW_F_STACK of op.h; code 0 operations have none)
 *   reference      FREE, FREE_INFERRED and FREE_TEMP written out
 *   address        ALLOC: a code of predict.h, with differences aside; others by MLW_F_ADDR, as
 *                  varints, except releases of a known slot, whose address the slot knows
 * The predictor starts afresh in each block; a release of a slot that was allocated before the last
 * block with address_epoch set is not shown to it, so that a damaged block harms addresses only up
 * to the next such block. */
#ifndef MALLOW_TRACE_SEALED_BLOCK_H
#define MALLOW_TRACE_SEALED_BLOCK_H

#include "format/op.h"
#include "predict.h"
#include "sealed.h"
#include "trace/trace.h"

enum seal_column {
    SEAL_COL_CODE = 1,      /* u8 an event: kind << 5 | op */
    SEAL_COL_THREADS = 2,   /* varints: the threads of the block, in order of appearance */
    SEAL_COL_THREAD = 3,    /* numbers, an event: index into the above; absent when there is one */
    SEAL_COL_REFERENCE = 4, /* numbers: enum seal_reference */
    SEAL_COL_SIZE = 5,      /* numbers */
    SEAL_COL_STACK = 6,     /* numbers: dense ids */
    SEAL_COL_TIME = 7,      /* numbers, an event: ticks since the event before */
    SEAL_COL_ADDRESS = 8,   /* u8 an ALLOC: code of predict.h */
    SEAL_COL_FAR = 9,       /* varints: differences of PREDICT_NONE, in order */
    SEAL_COL_OTHER = 10,    /* varints: addresses of other events: 0 none, else 1 + zigzag of the
                               difference to the last such address that was not 0, both rotated
                               right by 4 */
    SEAL_COL_USABLE = 11,   /* numbers, an ALLOC: 0 the usual, else 1 + zigzag(usable - usual) */
    SEAL_COL_PATH = 12,     /* u8 an event */
    SEAL_COL_ARGUMENT = 13, /* varints: events in between, value that is not 0 */
    SEAL_COL_RESYNC = 14,   /* numbers: what the block before left on the stack of free slots: how
                               many entries at its bottom that block did not touch, then those above
                               them, up to the top */
    SEAL_COL_BEGUN = 15,    /* varints: slots of the allocations of the block before that are still
                               live after it, in their order, zigzag of the difference to the last */
    SEAL_COL_ROUTE = 19     /* u8 an event */
};

/* Kinds in a code: those of enum trace_kind, where FREE_TEMP has no reference (it is the last block
 * that this thread allocated, in this block of events), and this one, which has. */
#define SEAL_KIND_TEMP_WRITTEN 6u

enum seal_reference {
    SEAL_REFERENCE_SLOT = 0,    /* the slot */
    SEAL_REFERENCE_DISTANCE = 1 /* a block allocated in this block of events: twice how many
                                   allocations in it came after; else 1 + twice the slot */
};

#define SEAL_EPOCH_BLOCKS 64u

/* A usable size in its column: 0 for the usual one, else the difference to it. One difference has
 * no code; a block with it is not to be written. */
static inline uint64_t seal_usable_code(uint64_t size, uint64_t usable)
{
    const uint64_t usual = mlw_usual_usable(size);
    return usable == usual ? 0 : 1 + mlw_zigzag(usable - usual);
}
static inline uint64_t seal_usable_of(uint64_t size, uint64_t code)
{
    return mlw_usual_usable(size) + (code ? mlw_unzigzag(code - 1) : 0);
}

/* True if an event of this operation has the column; op 0 (inferred) has none. */
static inline bool seal_has_size(unsigned op) { return mlw_op_fields(op) & MLW_F_SIZE; }
static inline bool seal_has_stack(unsigned op) { return mlw_op_fields(op) & MLW_F_STACK; }

#endif
