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
    uint64_t calls, bytes; /* sums of all its mappings since the start */
    uint64_t live_bytes;   /* now */
    uint64_t peak_bytes;   /* at the image's peak of mapped bytes; valid after mapped_finish */
    uint64_t version;      /* the version of the peak that peak_bytes was saved for */
    uint32_t stack;
};

struct mapped; /* NULL where nothing was mapped yet */

/* Adds a mapping and ends the older ones in its place. The first call makes *m. Stack ids are
 * 1..stacks. A file mapping only ends older ones. Returns false without memory. */
bool mapped_add(struct mapped **m, uint32_t stacks, uint64_t start, uint64_t bytes, uint32_t stack,
                bool file, uint64_t time_ns);
/* Ends the mappings in [start, start + bytes), cutting one in two if needed. Returns the bytes
 * of known mappings that were there. Without memory it returns UINT64_MAX, and the set must
 * not be used from then on. */
uint64_t mapped_cut(struct mapped *m, uint64_t start, uint64_t bytes);
/* Call it after the last change: it makes peak_bytes of the stacks valid and sorts them by
 * number. */
void mapped_finish(struct mapped *m);
uint64_t mapped_live_bytes(const struct mapped *m); /* NULL is fine in these three */
uint64_t mapped_peak_bytes(const struct mapped *m);
uint64_t mapped_peak_time_ns(const struct mapped *m);
/* Returns the stacks that mapped something, sorted by number after mapped_finish. */
const struct mapped_stack *mapped_stacks(const struct mapped *m, size_t *count);
void mapped_free(struct mapped *m);

/* Makes a finished set of mappings with these sums, for a model from the index. NULL without
 * memory. */
struct mapped *mapped_restore(uint32_t stacks, uint64_t live_bytes, uint64_t peak_bytes,
                              uint64_t peak_time_ns);
/* Adds the entry of a stack, whose number must be above the last one's; the caller fills it.
 * NULL without memory, or for a number out of order. */
struct mapped_stack *mapped_restored(struct mapped *m, uint32_t stack);

#endif
