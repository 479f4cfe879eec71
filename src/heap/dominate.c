/* dominate.c - the dominator tree, by Semi-NCA; see graph.h. */
#include <stdlib.h>

#include "heap/graph_impl.h"
#include "heap/spill.h"

struct forest { /* the nodes linked so far, with their paths compressed */
    uint32_t *ancestor, *label, *semi;
    uint32_t *stack;
    size_t room;
    bool failed;
};

static bool push(struct forest *f, size_t *depth, uint32_t v)
{
    if (!SPILL_ROOM(f->stack, *depth + 1, f->room)) {
        f->failed = true;
        return false;
    }
    f->stack[(*depth)++] = v;
    return true;
}

/* The number with the least semidominator on the way from v up to, without it, the root of its
 * linked tree. Numbers from `linked` on are linked. */
static uint32_t evaluate(struct forest *f, uint32_t v, uint32_t linked)
{
    size_t depth = 0;
    if (f->ancestor[v] < linked)
        return f->label[v];
    do {
        if (!push(f, &depth, v))
            return v;
        v = f->ancestor[v];
    } while (f->ancestor[v] >= linked);
    uint32_t above = v, best = f->label[above];
    while (depth) {
        v = f->stack[--depth];
        f->ancestor[v] = f->ancestor[above];
        if (f->semi[best] < f->semi[f->label[v]])
            f->label[v] = best;
        else
            best = f->label[v];
        above = v;
    }
    return f->label[v];
}

int graph_dominate(struct graph *g, uint32_t *parent, uint32_t *pair)
{
    const uint32_t n = g->count;
    struct forest f = {.ancestor = parent, .label = pair, .semi = pair + n};
    g->dominator = spill_zeros(n, sizeof *g->dominator);
    if (!g->dominator)
        f.failed = true;
    for (uint32_t i = 0; !f.failed && i < n; i++) {
        f.label[i] = f.semi[i] = i;
        g->dominator[i] = parent[i];
    }
    for (uint32_t w = n; !f.failed && w-- > 1;) {
        uint32_t semi = parent[w], end = graph_end(g, w);
        const uint32_t least = w >= g->held && w < g->reached ? g->held : 0;
        for (uint32_t k = g->before_first[w]; k < g->before_first[w + 1]; k++) {
            uint32_t v = g->before[k];
            if (v == w || v >= end)
                continue;
            uint32_t s = v < least ? 0 : v < w ? v : f.semi[evaluate(&f, v, w + 1)];
            if (s < semi)
                semi = s;
        }
        f.semi[w] = semi;
    }
    for (uint32_t w = 1; !f.failed && w < n; w++) {
        uint32_t d = g->dominator[w];
        while (d > f.semi[w])
            d = g->dominator[d];
        g->dominator[w] = d;
    }
    spill_free(f.stack);
    return f.failed ? -1 : 0;
}
