/* stacks.h - where the stacks of threads lie in a process that is recorded, in glibc's own words.
 *
 * Owns: the way from the thread pointers that are known to the bounds of all stacks, also of
 * threads that make no call, and of stacks that wait for a new thread. Since glibc 2.43 stacks have
 * no mappings of their own. A descriptor is one that points to itself, its neighbors in the ring of
 * threads point back, and its stack has it inside; memory that is not there is not read. Everything
 * read is hostile: it is bounded, and decides only what memory is called. One thread. */
#ifndef MALLOW_RECORD_STACKS_H
#define MALLOW_RECORD_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct handle;
struct present;

/* Calls `found` with [start, end) of each stack, for many of them twice. in_block: the stack is
 * a part of a block with a mapping of its own. first (0: not known) and pointers [n]: thread
 * pointers. The walk of the rings begins at the first of them that is one of glibc's. */
void stacks_find(const struct handle *handle, const struct present *present, uint64_t first,
                 const uint64_t *pointers, size_t n,
                 void (*found)(void *arg, uint64_t start, uint64_t end, bool in_block), void *arg);

#endif
