/* graph_impl.h - what the steps of graph_make share. Private to src/heap. */
#ifndef MALLOW_HEAP_GRAPH_IMPL_H
#define MALLOW_HEAP_GRAPH_IMPL_H

#include "heap/graph.h"
#include "heap/parallel.h"

struct graph_waiting { /* references of a node in `out` that were not followed yet: [at, end) */
    uint32_t at, end;
    uint32_t from; /* the node's number */
};

struct graph_spot { /* the facts of a node that a search asks at once */
    uint32_t first; /* where its references begin; the next one's: where they end */
    uint32_t number;
};

struct making {
    struct graph *g;
    const struct graph_input *in;
    struct graph_spot *spot;
    uint32_t *parent; /* by number */
    /* The references of each number, in the order of numbers: nodes, and then numbers. */
    uint32_t *out_first, *out;
    uint64_t *out_weak; /* a bit for each of out; NULL: none is */
    uint32_t outs;
    uint32_t *pair; /* two by number: for graph_dominate */
    struct graph_waiting *stack;
    size_t depth, room;
    bool weakly; /* weak references count now */
    bool failed; /* there was no memory for the search */
};

static inline size_t making_nodes(const struct making *m)
{
    return (size_t)m->in->blocks + m->in->roots + 1;
}

static inline bool making_bit(const uint64_t *bits, size_t k) { return bits[k / 64] >> k % 64 & 1; }

/* predecessors.c: -1: out of memory. */
int graph_predecessors(struct making *m);

/* dominate.c: fills dominator of g from parent (overwritten) and before. pair: room for two of each
 * number. -1: out of memory. */
int graph_dominate(struct graph *g, uint32_t *parent, uint32_t *pair);

/* components.c: the groups' first blocks among the blocks that have no number yet, in *sources
 * (spill_free). -1: out of memory. */
int graph_sources(const struct graph_input *in, const struct graph_spot *spot, uint32_t **sources,
                  uint32_t *count);

#endif
