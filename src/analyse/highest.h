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
    struct highest_sum all, sized[2]; /* sized: of small blocks, of large ones */
    struct highest_sum *stacks;       /* [stacks + 1] */
};

struct highest *highest_new(uint32_t stacks); /* NULL without memory */
void highest_free(struct highest *h);         /* NULL is fine */

/* True if the heaps have held a third more than they do: there is room for another block. */
static inline bool highest_passed(const struct highest *h)
{
    return h->all.now_bytes < h->all.most_bytes / 4 * 3;
}

static inline void highest_rise(struct highest_sum *s, uint64_t bytes)
{
    s->now_bytes += bytes;
    if (s->now_bytes > s->most_bytes)
        s->most_bytes = s->now_bytes;
}

/* A block of that stack, which the caller has checked, begins or ends. Inline: for each event. */
static inline void highest_begin(struct highest *h, uint32_t stack, uint64_t chunk_bytes)
{
    highest_rise(&h->all, chunk_bytes);
    highest_rise(&h->sized[chunk_bytes >= HIGHEST_LARGE_BYTES], chunk_bytes);
    highest_rise(&h->stacks[stack], chunk_bytes);
}

static inline void highest_end(struct highest *h, uint32_t stack, uint64_t chunk_bytes)
{
    h->all.now_bytes -= chunk_bytes;
    h->sized[chunk_bytes >= HIGHEST_LARGE_BYTES].now_bytes -= chunk_bytes;
    h->stacks[stack].now_bytes -= chunk_bytes;
}

/* The `most` stacks that ever held most, in order, of equals the first; stack 0 is none. Returns
 * how many there are. */
size_t highest_rank(const struct highest *h, struct highest_stack *list, size_t most);

#endif
