/* predecessors.c - who refers to each number; see graph.h. */
#include "heap/graph_impl.h"
#include "heap/spill.h"

enum { FAR = 32 }; /* how many references ahead memory is asked for */

/* Makes numbers of the targets; 0 of those that a reference does not keep alive. */
static void number_range(void *arg, size_t from, size_t to)
{
    const struct making *m = arg;
    const struct graph *g = m->g;
    for (size_t k = from; k < to; k++) {
        if (k + FAR < to)
            __builtin_prefetch(&g->number[m->out[k + FAR]]);
        const uint32_t n = g->number[m->out[k]];
        m->out[k] = m->out_weak && making_bit(m->out_weak, k) && n < g->held ? 0 : n;
    }
}

int graph_predecessors(struct making *m)
{
    struct graph *g = m->g;
    uint32_t *first = g->before_first = spill_zeros((size_t)g->count + 2, sizeof *first);
    g->before = spill_zeros((size_t)m->outs + 1, sizeof *g->before);
    if (!first || !g->before)
        return -1;
    parallel_ranges(m->in->threads, m->outs, number_range, m);
    for (uint32_t k = 0; k < m->outs; k++) /* first[n + 2]: how many refer to it */
        first[m->out[k] + 2]++;
    first[2] = 0;
    for (size_t n = 2; n < (size_t)g->count + 2; n++)
        first[n] += first[n - 1];
    /* first[n + 1] is where its next one goes; at the end, where those of the next begin. */
    m->out_first[g->count] = m->outs;
    for (uint32_t n = 1; n < g->count; n++)
        for (uint32_t k = m->out_first[n]; k < m->out_first[n + 1]; k++)
            if (m->out[k])
                g->before[first[m->out[k] + 1]++] = n;
    return 0;
}
