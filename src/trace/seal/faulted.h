/* faulted.h - which block or mapping a page fault hit, found while an image is sealed.
 *
 * Owns: the live blocks on pages that are still to fault, and the mappings that the program made. A
 * fault belongs to the block that holds its address, with the 16 bytes in front of it where
 * allocators keep notes; if there is none, to the next block that its thread allocates, when the
 * address is in that one: malloc touches a block before it returns it. Else to a mapping. Memory
 * and time grow with faults to come, not with calls: blocks on pages that will not fault are
 * skipped. One thread. */
#ifndef MALLOW_TRACE_SEAL_FAULTED_H
#define MALLOW_TRACE_SEAL_FAULTED_H

#include <stdbool.h>

#include "trace/raw/kernel.h"

struct faulted;

/* faults: those of one image, by clock; they must outlive the result. NULL without memory. */
struct faulted *faulted_new(const struct kernel_fault *faults, size_t n);
void faulted_free(struct faulted *f); /* NULL is fine, as in all that follow */

/* Resolves the faults before `clock`. Call it before each change at that clock. */
void faulted_until(struct faulted *f, uint64_t clock);
/* Adds a block, made by a call of thread `tid` (0: inherited). stack: for the result. */
void faulted_begin(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack,
                   uint32_t tid);
void faulted_end(struct faulted *f, uint64_t address, uint64_t bytes);
/* Adds or removes a mapping that the program makes itself. */
void faulted_map(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack);
void faulted_unmap(struct faulted *f, uint64_t address, uint64_t bytes);
/* Forgets all blocks and mappings. */
void faulted_forget(struct faulted *f);

/* Returns the place of fault i and the stack of the call that made the block or mapping. Call it
 * after faulted_until(UINT64_MAX). */
void faulted_result(const struct faulted *f, size_t i, uint32_t *stack, uint8_t *place);
/* True if memory ran out: then some faults are without a stack. */
bool faulted_failed(const struct faulted *f);

#endif
