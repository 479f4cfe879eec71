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

/* Faults of one image, by clock; they must outlive it. NULL without memory. */
struct faulted *faulted_new(const struct kernel_fault *faults, size_t n);
void faulted_free(struct faulted *f); /* NULL is fine, as in all that follow */

/* Judges the faults before `clock`: what follows happens then. */
void faulted_until(struct faulted *f, uint64_t clock);
/* A block begins, by a call of thread `tid` (0: it was inherited). stack: for the result. */
void faulted_begin(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack,
                   uint32_t tid);
void faulted_end(struct faulted *f, uint64_t address, uint64_t bytes);
/* The program maps and unmaps memory itself. */
void faulted_map(struct faulted *f, uint64_t address, uint64_t bytes, uint32_t stack);
void faulted_unmap(struct faulted *f, uint64_t address, uint64_t bytes);
/* Everything that lived is forgotten. */
void faulted_forget(struct faulted *f);

/* After faulted_until(UINT64_MAX): where fault i was, and the stack of the call behind it. */
void faulted_result(const struct faulted *f, size_t i, uint32_t *stack, uint8_t *place);
/* True if memory ran out: then some faults are without a stack. */
bool faulted_failed(const struct faulted *f);

#endif
