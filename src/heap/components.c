/* components.c - the groups of unreachable blocks: strongly connected components (Tarjan's
 * algorithm with an explicit stack) that no other such block refers to; see graph.h. */
#include <stdlib.h>
#include <string.h>

#include "heap/graph_impl.h"
#include "heap/spill.h"

struct visit {
    uint32_t block, next; /* next: of its references */
};

struct tarjan {
    const struct graph_input *in;
    const struct graph_spot *spot;
    uint32_t *index; /* by local number, from 1; 0: not yet seen */
    uint32_t *low, *component;
    uint32_t *local;   /* a block's local number + 1; shares nothing with others */
    uint32_t *blocks;  /* the blocks of a local number */
    uint32_t *pending; /* local numbers whose component is not yet known */
    struct visit *path;
    uint32_t count, pendings, seen, components;
};

static bool takes_part(const struct tarjan *t, uint32_t block)
{
    return !t->spot[block].number && t->in->counts(t->in->arg, block);
}

static void begin(struct tarjan *t, uint32_t local, size_t *depth)
{
    t->index[local] = t->low[local] = ++t->seen;
    t->pending[t->pendings++] = local;
    t->path[(*depth)++] = (struct visit){local, t->in->first[t->blocks[local]]};
}

static void finish(struct tarjan *t, uint32_t local)
{
    if (t->low[local] != t->index[local])
        return;
    uint32_t member;
    t->components++;
    do {
        member = t->pending[--t->pendings];
        t->component[member] = t->components;
    } while (member != local);
}

static void visit_from(struct tarjan *t, uint32_t start)
{
    size_t depth = 0;
    begin(t, start, &depth);
    while (depth) {
        struct visit *v = &t->path[depth - 1];
        uint32_t local = v->block, block = t->blocks[local];
        if (v->next == t->in->first[block + 1]) {
            depth--;
            finish(t, local);
            if (depth) {
                uint32_t above = t->path[depth - 1].block;
                if (t->low[local] < t->low[above])
                    t->low[above] = t->low[local];
            }
            continue;
        }
        uint32_t target = t->in->target[v->next++], other = t->local[target];
        if (!other--)
            continue;
        if (!t->index[other])
            begin(t, other, &depth);
        else if (!t->component[other] && t->index[other] < t->low[local])
            t->low[local] = t->index[other];
    }
}

/* Picks the lowest block of each component that nothing outside of it refers to. */
static int pick_sources(struct tarjan *t, uint32_t **sources, uint32_t *count)
{
    uint8_t *referred = spill_zeros((size_t)t->components + 1, 1);
    *sources = spill_zeros((size_t)t->components + 1, sizeof **sources);
    *count = 0;
    if (!referred || !*sources) {
        spill_free(referred);
        spill_free(*sources);
        *sources = NULL;
        return -1;
    }
    for (uint32_t i = 0; i < t->count; i++)
        for (uint32_t k = t->in->first[t->blocks[i]]; k < t->in->first[t->blocks[i] + 1]; k++) {
            uint32_t other = t->local[t->in->target[k]];
            if (other && t->component[other - 1] != t->component[i])
                referred[t->component[other - 1]] = 1;
        }
    for (uint32_t i = 0; i < t->count; i++) /* blocks rise: the first seen is the lowest */
        if (!referred[t->component[i]]) {
            referred[t->component[i]] = 1;
            (*sources)[(*count)++] = t->blocks[i];
        }
    spill_free(referred);
    return 0;
}

int graph_sources(const struct graph_input *in, const struct graph_spot *spot, uint32_t **sources,
                  uint32_t *count)
{
    struct tarjan t = {.in = in, .spot = spot};
    int status = -1;
    *sources = NULL;
    *count = 0;
    for (uint32_t i = 0; i < in->blocks; i++)
        t.count += takes_part(&t, i);
    if (!t.count)
        return 0;
    size_t n = t.count;
    t.local = spill_zeros(in->blocks, sizeof *t.local);
    t.index = spill_zeros(n, sizeof *t.index);
    t.low = spill_zeros(n, sizeof *t.low);
    t.component = spill_zeros(n, sizeof *t.component);
    t.blocks = spill_zeros(n, sizeof *t.blocks);
    t.pending = spill_zeros(n, sizeof *t.pending);
    t.path = spill_zeros(n, sizeof *t.path);
    if (t.local && t.index && t.low && t.component && t.blocks && t.pending && t.path) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < in->blocks; i++)
            if (takes_part(&t, i)) {
                t.blocks[k] = i;
                t.local[i] = ++k;
            }
        for (uint32_t i = 0; i < t.count; i++)
            if (!t.index[i])
                visit_from(&t, i);
        status = pick_sources(&t, sources, count);
    }
    spill_free(t.local);
    spill_free(t.index);
    spill_free(t.low);
    spill_free(t.component);
    spill_free(t.blocks);
    spill_free(t.pending);
    spill_free(t.path);
    return status;
}
