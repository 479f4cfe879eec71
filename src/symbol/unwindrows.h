/* unwindrows.h - what .eh_frame of a file amounts to, as rows: from this offset on, so the caller's
 * frame is found.
 *
 * Owns: reading call frame information, reduced to the rules that compilers write
 * for x86-64: the frame's address from the stack pointer or rbp, and where rbp was saved. What does
 * not fit is a row that says so. Not thread-safe per file. */
#ifndef MALLOW_SYMBOL_UNWINDROWS_H
#define MALLOW_SYMBOL_UNWINDROWS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "symbol/unwindrow.h"

/* The rows of the file at `path`, sorted by offset; the caller frees *rows. A file without tables
 * gives none. Returns 0; -1 with *err when it cannot be read as an x86-64 ELF file. */
int unwind_rows_read(const char *path, struct unwind_row **rows, size_t *count, struct error *err);

#endif
