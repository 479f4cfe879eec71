/* graph.h - who reaches whom, and who alone keeps whom.
 *
 * Owns: one numbering of all that is reached, in the order of a depth-first search from the roots,
 * the strongest kind of root first; blocks that nothing reaches come last, each group of them from
 * the block that leads to the rest. In that numbering: predecessors, the dominator tree (Semi-NCA:
 * Georgiadis, Tarjan, Werneck, "Finding Dominators in Practice", 2006) and what each retains.
 * About 50 bytes a block at the most. One thread. */
#ifndef MALLOW_HEAP_GRAPH_H
#define MALLOW_HEAP_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum { GRAPH_KINDS = 8 }; /* the last: what only weak references reach */

/* The input: plain numbers, so that any graph can be tested. Nodes are blocks 0..blocks-1 and
 * roots. */
struct graph_input {
    uint32_t blocks;
    const uint32_t *first; /* blocks + 1: where a block's references begin */
    uint32_t *target;      /* graph_make overwrites it: numbers of `order` */
    const uint64_t *weak;  /* a bit for each of target: a reference that keeps nothing alive that
                              others reach, as the links of a list of all objects; NULL: none */
    const uint64_t *bytes; /* of a block; NULL: bytes_of */
    uint64_t (*bytes_of)(const void *arg, uint32_t block);
    bool (*counts)(const void *arg, uint32_t block); /* whether it takes part at all */
    const void *arg;
    void (*done)(void *done_arg); /* called when first, target and weak are needed no more: they may
                                     go before the rest is computed; NULL: unused */
    void *done_arg;
    uint32_t roots;
    const uint32_t *root_first;  /* roots + 1 */
    const uint32_t *root_target; /* blocks */
    const uint8_t *root_kind;    /* not falling, below GRAPH_KINDS. A block belongs to the strongest
                                    kind that reaches it; references to it from what belongs to a
                                    weaker one keep nothing alive */
};

/* An unreachable group: a strongly connected component that no other unreachable block refers to,
 * and the blocks reached from it first. */
struct graph_leak {
    uint32_t block; /* of the component: the lowest */
    uint32_t blocks;
    uint64_t bytes;
    uint32_t from, to; /* numbers in the order: [from, to) */
};

struct graph {
    uint32_t count; /* numbers of the order, 0 (everything's root) included */
    uint32_t blocks, roots;
    uint32_t *order;     /* node of a number: a block, or blocks + root; order[0] means nothing */
    uint32_t *number;    /* of a block or (blocks + root); 0: none */
    uint32_t *dominator; /* number of a number; of 0: 0 */
    uint32_t *before_first, *before; /* predecessors of a number: numbers. count + 1; */
    uint64_t *retained;              /* bytes by number, its own included */
    uint32_t *retained_blocks;
    uint32_t *place; /* of a number in a walk of the dominator tree: what a number retains stands
                        directly behind it, span[number] of them */
    uint32_t *span;
    uint32_t held;    /* numbers from here on are reached through weak references only */
    uint32_t reached; /* numbers from here on are unreachable */
    /* where the numbers of a kind of root, and of what belongs to it, end */
    uint32_t end[GRAPH_KINDS];
    struct graph_leak *leaks; /* largest first */
    uint32_t leak_count;
    uint64_t unreachable_bytes;
    uint32_t unreachable_blocks;
};

/* Where the numbers end that are as strong as n: predecessors from there on keep nothing alive. */
static inline uint32_t graph_end(const struct graph *g, uint32_t n)
{
    for (unsigned kind = 0; kind < GRAPH_KINDS; kind++)
        if (n < g->end[kind])
            return g->end[kind];
    return g->count;
}

/* -1 with *err set when out of memory. */
int graph_make(struct graph *g, const struct graph_input *in, struct error *err);
void graph_release(struct graph *g);

/* dominate.c: fills dominator of g from parent (overwritten) and before. -1: out of memory. */
int graph_dominate(struct graph *g, uint32_t *parent);
/* components.c: the groups' first blocks among the blocks that have no number yet, in *sources
 * (the caller frees). -1: out of memory. */
int graph_sources(const struct graph_input *in, const uint32_t *number, uint32_t **sources,
                  uint32_t *count);

#endif
