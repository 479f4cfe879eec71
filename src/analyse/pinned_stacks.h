/* pinned_stacks.h - the figures of the stacks that matter at one moment.
 *
 * Owns: which stacks of an image have live blocks or cached chunks at a moment, and their figures,
 * one after the other. A recording may have a million stacks and few of them alive at once: so a
 * stack that has none costs a bit and a half. One thread. */
#ifndef MALLOW_ANALYSE_PINNED_STACKS_H
#define MALLOW_ANALYSE_PINNED_STACKS_H

#include <stdbool.h>
#include <stdint.h>

struct pinned_stack {
    uint32_t stack;
    uint64_t live_blocks, live_bytes; /* usable, in heaps */
    uint64_t pinned_bytes, below_bytes;
    uint64_t all_blocks, all_bytes;       /* requested, wherever they are */
    uint64_t mapped_blocks, mapped_bytes; /* glibc: those of them with mappings of their own */
    uint64_t most_bytes; /* glibc: chunks in heaps at once, at their highest until then */
};

struct pinned_stacks {
    struct pinned_stack *of; /* [count], by number */
    uint32_t count, room;
    uint64_t *has;    /* a bit for each stack of the image: it is in `of` */
    uint32_t *before; /* by word of bits: how many are in `of` before them */
    uint32_t words;
};

/* Empty, for stacks up to `stacks`; memory of before is used again. False without memory. */
bool pinned_stacks_clear(struct pinned_stacks *s, uint32_t stacks);
/* The stack, which the caller has checked, will be in. */
static inline void pinned_stacks_mark(struct pinned_stacks *s, uint32_t stack)
{
    s->has[stack / 64] |= (uint64_t)1 << stack % 64;
}
/* After the last mark: makes all figures, 0 yet. False without memory. */
bool pinned_stacks_make(struct pinned_stacks *s);
void pinned_stacks_release(struct pinned_stacks *s);

/* The figures of a stack of the image that was marked. */
static inline struct pinned_stack *pinned_stacks_at(const struct pinned_stacks *s, uint32_t stack)
{
    const uint64_t below = s->has[stack / 64] & (((uint64_t)1 << stack % 64) - 1);
    return &s->of[s->before[stack / 64] + (uint32_t)__builtin_popcountll(below)];
}

/* The same of any stack of the image; NULL: it has no blocks at the moment. */
const struct pinned_stack *pinned_stacks_find(const struct pinned_stacks *s, uint32_t stack);

#endif
