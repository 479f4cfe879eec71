/* graph.h - who reaches whom, and who alone keeps whom.
 *
 * Owns: one numbering of all that is reached, in the order of a depth-first search from the roots,
 * the strongest kind of root first; blocks that nothing reaches come last, each group of them from
 * the block that leads to the rest. In that numbering: predecessors, the dominator tree (Semi-NCA:
 * Georgiadis, Tarjan, Werneck, "Finding Dominators in Practice", 2006) and what each retains.
 * About 50 bytes a block at the most. Called by one thread. */
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
    const uint32_t *target;
    const uint64_t *weak; /* a bit for each of target: a reference that keeps nothing alive that
                             others reach, as the links of a list of all objects; NULL: none */
    uint64_t (*bytes_of)(const void *arg, uint32_t block);
    uint32_t unit;                                   /* bytes_of is a multiple of this */
    void (*expect)(const void *arg, uint32_t block); /* announces that bytes_of will be asked for
                                                        this block soon; may be NULL */
    bool (*counts)(const void *arg, uint32_t block); /* true if it takes part at all */
    const void *arg;
    void (*done)(void *done_arg); /* called when first, target and weak are not needed any more, so
                                     that they can be freed early; may be NULL */
    void *done_arg;
    unsigned threads; /* threads to use at once */
    uint32_t roots;
    const uint32_t *root_first;  /* roots + 1 */
    const uint32_t *root_target; /* blocks */
    const uint8_t *root_kind;    /* ascending, below GRAPH_KINDS. A block belongs to the strongest
                                    (lowest) kind that reaches it. References to it from roots or
                                    blocks of a weaker kind keep nothing alive */
};

/* An unreachable group: a strongly connected component that no other unreachable block refers to,
 * and the blocks reached from it first. */
struct graph_leak {
    uint32_t block; /* the lowest block of the component */
    uint32_t blocks;
    uint64_t bytes;
    uint32_t from, to; /* numbers in the order: [from, to) */
};

struct graph {
    uint32_t count; /* numbers of the order, 0 (everything's root) included */
    uint32_t blocks, roots;
    uint64_t (*bytes_of)(const void *arg, uint32_t block); /* as of the input */
    const void *arg;
    uint32_t unit;
    uint32_t *order;     /* node of a number: a block, or blocks + root; order[0] means nothing */
    uint32_t *number;    /* the number of a block or (blocks + root); 0: none */
    uint32_t *dominator; /* number of a number; of 0: 0 */
    uint32_t *before_first,
        *before;        /* the numbers that refer to a number; before_first has count + 1 entries */
    uint32_t *own;      /* bytes of a number, in units of graph_input.unit (graph_own) */
    uint64_t *retained; /* bytes by number, its own included */
    uint32_t *by_place; /* numbers in a walk of the dominator tree: what a number retains stands
                           directly behind it, span[number] with itself */
    uint32_t *span;
    uint32_t held;    /* numbers from here on are reached through weak references only */
    uint32_t reached; /* numbers from here on are unreachable */
    /* the end of the numbers of a kind of root and of the blocks that belong to it */
    uint32_t end[GRAPH_KINDS];
    struct graph_leak *leaks; /* largest first */
    uint32_t leak_count;
    uint64_t unreachable_bytes;
    uint32_t unreachable_blocks;
};

/* Returns the end of the numbers that are at least as strong as n. Predecessors from there
 * on do not keep n alive. */
static inline uint32_t graph_end(const struct graph *g, uint32_t n)
{
    for (unsigned kind = 0; kind < GRAPH_KINDS; kind++)
        if (n < g->end[kind])
            return g->end[kind];
    return g->count;
}

/* Returns how many blocks would be freed if the node of this number went away. */
static inline uint32_t graph_retained_blocks(const struct graph *g, uint32_t n)
{
    return n && g->order[n] < g->blocks ? g->span[n] : n ? g->span[n] - 1 : g->count - 1 - g->roots;
}

/* Returns the node's own bytes; 0 for a root. */
static inline uint64_t graph_own(const struct graph *g, uint32_t n)
{
    return g->own[n] < UINT32_MAX ? (uint64_t)g->own[n] * g->unit
                                  : g->bytes_of(g->arg, g->order[n]);
}

/* Computes the graph. Returns 0, or -1 with *err without memory. */
int graph_make(struct graph *g, const struct graph_input *in, struct error *err);
void graph_release(struct graph *g);

#endif
