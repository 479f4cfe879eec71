/* unwindrows.h - what .eh_frame of a file amounts to, as rows: from this offset on, so the caller's
 * frame is found.
 *
 * Owns: reading call frame information through libdw, reduced to the rules that compilers write
 * for x86-64: the frame's address from the stack pointer or rbp, and where rbp was saved. What does
 * not fit is a row that says so. Not thread-safe per file. */
#ifndef MALLOW_SYMBOL_UNWINDROWS_H
#define MALLOW_SYMBOL_UNWINDROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum unwind_rule {
    UNWIND_NONE = 0, /* no rule: code without a table, or a rule that does not fit */
    UNWIND_SP,       /* the frame's address (CFA) is rsp + cfa_offset */
    UNWIND_BP,       /* rbp + cfa_offset */
    UNWIND_PLT,      /* a stub of the procedure linkage table */
    UNWIND_END,      /* the outermost function: it has no caller */
    UNWIND_SIGNAL,   /* the return from a signal handler */
    UNWIND_REALIGNED /* the word at rbp + cfa_offset; rbp was saved at rbp */
};

struct unwind_row {
    uint64_t offset; /* of the first instruction, in the file */
    int32_t cfa_offset;
    int32_t bp_offset; /* bytes from the CFA to the saved rbp; 0: rbp is as the caller had it */
    enum unwind_rule rule;
};

/* The rows of the file at `path`, sorted by offset; the caller frees *rows. A file without tables
 * gives none. Returns 0; -1 with *err when it cannot be read as an x86-64 ELF file. */
int unwind_rows_read(const char *path, struct unwind_row **rows, size_t *count, struct error *err);

#endif
