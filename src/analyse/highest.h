/* highest.h - the most that was live at once in a process's heaps until now.
 *
 * Owns: sums of chunks (usable bytes and their header) now and at their highest: of all blocks in
 * heaps, of large and of small ones, of each stack. Blocks with a mapping of their own do not
 * count. 16 bytes for each stack. One thread. */
#ifndef MALLOW_ANALYSE_HIGHEST_H
#define MALLOW_ANALYSE_HIGHEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From this size on glibc gives a block a mapping of its own unless frees have raised the limit. */
#define HIGHEST_LARGE_BYTES ((uint64_t)128 << 10)

struct highest_sum {
    uint64_t now_bytes, most_bytes;
};

struct highest_stack {
    uint64_t most_bytes;
    uint32_t stack;
};

struct highest {
    uint32_t stack_count;
    struct highest_sum all, large, small;
    struct highest_sum *stacks; /* [stacks + 1] */
};

struct highest *highest_new(uint32_t stacks); /* NULL without memory */
void highest_free(struct highest *h);         /* NULL is fine */

/* Whether the heaps have held a third more than they do: there is room for another block. */
bool highest_passed(const struct highest *h);

/* A block of that stack, which the caller has checked, begins or ends. */
void highest_begin(struct highest *h, uint32_t stack, uint64_t chunk_bytes);
void highest_end(struct highest *h, uint32_t stack, uint64_t chunk_bytes);

/* The `most` stacks that ever held most, in order, of equals the first; stack 0 is none. Returns
 * how many there are. */
size_t highest_rank(const struct highest *h, struct highest_stack *list, size_t most);

#endif
