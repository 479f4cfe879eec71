/* unwind.h - from a function's frame on a stack of a target to its caller's.
 *
 * Owns: the rules of unwindrows.h, applied to what the target has in memory, which is hostile:
 * whether frames rise and stay in the stack is the caller's to check. No state; the thread of the
 * target (target_peek). */
#ifndef MALLOW_REMOTE_UNWIND_H
#define MALLOW_REMOTE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "remote/target.h"
#include "symbol/unwindrows.h"

/* The last row that begins at or before the offset in the file; NULL: none. */
const struct unwind_row *unwind_row_at(const struct unwind_row *rows, size_t count,
                                       uint64_t offset);

struct unwind_place {
    uint64_t pc, sp, bp;
};

/* Goes to the caller, whose stack pointer is where the frame ends. False, and nothing is changed:
 * it has none, or it cannot be found. */
bool unwind_step(struct target *t, const struct unwind_row *row, struct unwind_place *p);

#endif
