/* callframes.h - call frame instructions of .eh_frame, each function's in one pass.
 *
 * Owns: the formats of CIE and FDE and the instructions, as far as rows of unwindrow.h need them:
 * the CFA, the return address, rbp. The bytes are hostile: every loop consumes input, and all that
 * is done with one file is bounded by a multiple of its bytes. Pure, but for the sink. */
#ifndef MALLOW_SYMBOL_CALLFRAMES_H
#define MALLOW_SYMBOL_CALLFRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/unwindrow.h"

struct callframes_cie {
    size_t at; /* in the bytes */
    bool understood, augmented, is_signal;
    uint8_t pointers; /* encoding of addresses */
    uint64_t code_align;
    int64_t data_align;
    size_t program, end;
};

struct callframes {
    const uint8_t *bytes; /* the bytes of .eh_frame, or from somewhere in it on; the caller's */
    size_t count;
    uint64_t address;          /* the address of the first byte */
    uint64_t effort;           /* bytes of instructions that may be looked at still */
    struct callframes_cie cie; /* the last; at: SIZE_MAX at first */
};

/* Begins with so many bytes at an address. */
void callframes_begin(struct callframes *c, const uint8_t *bytes, size_t count, uint64_t address);

/* From this address on the rule is so. row->offset is not set. */
typedef void callframes_row(void *arg, uint64_t address, const struct unwind_row *row);

/* The rows of the function at `start` whose FDE is at the address `fde`, below `next`, where
 * another begins. A part that is not understood is a row that says so. */
void callframes_function(struct callframes *c, uint64_t start, uint64_t fde, uint64_t next,
                         callframes_row *sink, void *arg);

/* Goes through the entries from the byte *at on; false at their end. *fde: the address of the next
 * FDE, whose function begins at *start. */
bool callframes_next(struct callframes *c, size_t *at, uint64_t *start, uint64_t *fde);

#endif
