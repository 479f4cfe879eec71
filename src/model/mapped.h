/* mapped.h - the anonymous mappings that a program made by its own calls of mmap, and who made
 * them.
 *
 * Owns: the set of live mappings as intervals, cut as munmap, mremap and MAP_FIXED cut them, and
 * the sums by stack. Mapped bytes are address space: how much is resident is unknown here. Memory:
 * a node of 40 bytes a mapping, and some 70 bytes for each stack that mapped something. One thread.
 */
#ifndef MALLOW_MODEL_MAPPED_H
#define MALLOW_MODEL_MAPPED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapped_stack {
    uint64_t calls, bytes; /* all its mappings, ever */
    uint64_t live_bytes;   /* now */
    uint64_t peak_bytes;   /* when all that was mapped was most; after mapped_finish */
    uint64_t version;      /* the version of the peak that peak_bytes was saved for */
    uint32_t stack;
};

struct mapped; /* NULL where nothing was mapped yet */

/* A mapping begins: older ones in its place end. *m is made at the first one; stacks: how many ids
 * there are, from 1. file: it is not anonymous, and only ends older ones. False without memory. */
bool mapped_add(struct mapped **m, uint32_t stacks, uint64_t start, uint64_t bytes, uint32_t stack,
                bool file, uint64_t time_ns);
/* [start, start + bytes) is not mapped any more. The bytes of known mappings that were there;
 * UINT64_MAX without memory (a mapping that is cut in two is two), when nothing
 * is known any more. */
uint64_t mapped_cut(struct mapped *m, uint64_t start, uint64_t bytes);
/* After the last call: peak_bytes of the stacks holds, and they are in order. */
void mapped_finish(struct mapped *m);
uint64_t mapped_live_bytes(const struct mapped *m); /* all of these take NULL */
uint64_t mapped_peak_bytes(const struct mapped *m);
uint64_t mapped_peak_time_ns(const struct mapped *m);
/* The stacks that mapped something; after mapped_finish by number. */
const struct mapped_stack *mapped_stacks(const struct mapped *m, size_t *count);
void mapped_free(struct mapped *m);

/* One that was finished before, with these sums. NULL without memory. */
struct mapped *mapped_restore(uint32_t stacks, uint64_t live_bytes, uint64_t peak_bytes,
                              uint64_t peak_time_ns);
/* Its next stack, by number, to be filled. NULL without memory, or when there is none. */
struct mapped_stack *mapped_restored(struct mapped *m, uint32_t stack);

#endif
