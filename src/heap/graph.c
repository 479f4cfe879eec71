/* graph.c - the numbering, predecessors and retained sizes; see graph.h. */
#include "heap/graph_impl.h"

#include "base/invariant.h"

#include <stdlib.h>
#include <string.h>

#include "heap/spill.h"

enum { FAR = 16, NEAR = 6 }; /* how many nodes ahead memory is asked for */

static uint32_t give_number(struct making *m, uint32_t node, uint32_t from)
{
    struct graph *g = m->g;
    uint32_t n = g->count++;
    m->spot[node].number = n;
    g->order[n] = node;
    m->parent[n] = from;
    m->out_first[n] = m->outs;
    return n;
}

static bool is_weak(const struct making *m, uint32_t out)
{
    return m->out_weak && making_bit(m->out_weak, out);
}

/* Numbers a block, and notes its references. */
static int visit(struct making *m, uint32_t block, uint32_t from)
{
    const struct graph_input *in = m->in;
    const uint32_t first = m->spot[block].first, count = m->spot[block + 1].first - first;
    const uint32_t n = give_number(m, block, from), at = m->outs;
    for (uint32_t k = 0; k < count; k++) {
        m->out[at + k] = in->target[first + k];
        if (k < NEAR)
            __builtin_prefetch(&m->spot[in->target[first + k]]);
        if (in->weak && making_bit(in->weak, first + k))
            m->out_weak[(at + k) / 64] |= (uint64_t)1 << (at + k) % 64;
    }
    m->outs += count;
    if (!count)
        return 0;
    if (!SPILL_ROOM(m->stack, m->depth + 1, m->room))
        return -1;
    m->stack[m->depth++] = (struct graph_waiting){at, at + count, n};
    return 0;
}

/* Numbers a block that has none, and all that it reaches and that has none. */
static int search(struct making *m, uint32_t start, uint32_t from)
{
    if (m->spot[start].number)
        return 0;
    if (visit(m, start, from))
        return -1;
    while (m->depth) {
        struct graph_waiting *w = &m->stack[m->depth - 1];
        const uint32_t k = w->at++, target = m->out[k], n = w->from;
        if (k + FAR < w->end) {
            __builtin_prefetch(&m->spot[m->out[k + FAR]]);
            __builtin_prefetch(&m->in->target[m->spot[m->out[k + NEAR]].first]);
        }
        if (w->at == w->end)
            m->depth--;
        if (m->spot[target].number || (!m->weakly && is_weak(m, k)))
            continue;
        if (visit(m, target, n))
            return -1;
    }
    return 0;
}

static int search_roots(struct making *m)
{
    const struct graph_input *in = m->in;
    unsigned kind = 0;
    m->g->count = 1;
    for (uint32_t r = 0; r < in->roots; r++) {
        while (kind < in->root_kind[r])
            m->g->end[kind++] = m->g->count;
        uint32_t n = give_number(m, in->blocks + r, 0);
        for (uint32_t k = in->root_first[r]; k < in->root_first[r + 1]; k++)
            m->out[m->outs++] = in->root_target[k];
        for (uint32_t k = in->root_first[r]; k < in->root_first[r + 1]; k++)
            if (search(m, in->root_target[k], n))
                return -1;
    }
    while (kind < GRAPH_KINDS)
        m->g->end[kind++] = m->g->count;
    m->g->held = m->g->count;
    return 0;
}

/* Searches the blocks that only weak references lead to, and those behind them. Nothing that is
 * held holds them. */
static int search_weak(struct making *m)
{
    struct graph *g = m->g;
    m->weakly = true;
    m->out_first[g->held] = m->outs;
    for (uint32_t n = 1; m->out_weak && n < g->held; n++)
        for (uint32_t k = m->out_first[n]; k < m->out_first[n + 1]; k++)
            if (is_weak(m, k) && search(m, m->out[k], 0))
                return -1;
    g->end[GRAPH_KINDS - 1] = g->reached = g->count;
    return 0;
}

static int by_bytes(const void *a, const void *b)
{
    const struct graph_leak *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes > y->bytes ? -1 : 1;
    return x->block < y->block ? -1 : x->block > y->block;
}

static int search_unreachable(struct making *m)
{
    struct graph *g = m->g;
    uint32_t *sources, count;
    if (graph_sources(m->in, m->spot, &sources, &count))
        return -1;
    g->leaks = spill_zeros((size_t)count + 1, sizeof *g->leaks);
    int status = g->leaks ? 0 : -1;
    for (uint32_t i = 0; !status && i < count; i++) {
        struct graph_leak leak = {.block = sources[i], .from = g->count};
        status = search(m, sources[i], 0);
        leak.to = g->count;
        leak.blocks = leak.to - leak.from;
        for (uint32_t n = leak.from; n < leak.to; n++)
            leak.bytes += m->in->bytes_of(m->in->arg, g->order[n]);
        g->unreachable_bytes += leak.bytes;
        g->unreachable_blocks += leak.blocks;
        g->leaks[g->leak_count++] = leak;
    }
    spill_free(sources);
    return status;
}

static void search_all(void *arg)
{
    struct making *m = arg;
    m->failed = search_roots(m) || search_weak(m) || search_unreachable(m);
}

/* The memory that graph_dominate needs, touched while another thread searches. */
static void touch_pair(void *arg)
{
    const struct making *m = arg;
    memset(m->pair, 0, 2 * making_nodes(m) * sizeof *m->pair);
}

/* --- retained bytes --- */

static void start_range(void *arg, size_t from, size_t to)
{
    const struct making *m = arg;
    const struct graph_input *in = m->in;
    struct graph *g = m->g;
    for (size_t n = from; n < to; n++) {
        if (in->expect && n + FAR < to && g->order[n + FAR] < in->blocks)
            in->expect(in->arg, g->order[n + FAR]);
        const bool block = n && g->order[n] < in->blocks;
        const uint64_t bytes = block ? in->bytes_of(in->arg, g->order[n]) : 0;
        g->own[n] = bytes / in->unit < UINT32_MAX ? (uint32_t)(bytes / in->unit) : UINT32_MAX;
        g->retained[n] = bytes;
        g->span[n] = 1;
    }
}

/* A dominator's number is lower than those of what it dominates, so one pass downwards adds up,
 * and one upwards gives each its place. next: memory that nothing else needs any more. */
static int add_up(struct making *m, uint32_t *next)
{
    struct graph *g = m->g;
    g->retained = spill_zeros(g->count, sizeof *g->retained);
    g->own = spill_zeros(g->count, sizeof *g->own);
    g->span = spill_zeros(g->count, sizeof *g->span);
    g->by_place = spill_zeros(g->count, sizeof *g->by_place);
    if (!g->retained || !g->own || !g->span || !g->by_place)
        return -1;
    parallel_ranges(m->in->threads, g->count, start_range, m);
    for (uint32_t n = g->count; n-- > 1;) {
        uint32_t d = g->dominator[n];
        g->retained[d] += g->retained[n];
        g->span[d] += g->span[n];
    }
    next[0] = 1;
    for (uint32_t n = 1; n < g->count; n++) {
        uint32_t place = next[g->dominator[n]];
        next[g->dominator[n]] += g->span[n];
        next[n] = place + 1;
        g->by_place[place] = n;
    }
    return 0;
}

/* Numbers stand apart from then on. */
static void keep_numbers(struct making *m)
{
    const size_t nodes = making_nodes(m);
    uint32_t *number = (uint32_t *)m->spot;
    for (size_t i = 0; i < nodes; i++) { /* an entry was read before it is overwritten */
        const uint32_t n = m->spot[i].number;
        number[i] = n;
    }
    m->g->number = spill_grow(number, nodes * sizeof *m->spot, nodes * sizeof *number);
    if (!m->g->number)
        m->g->number = number;
    m->spot = NULL;
}

/* Also touches what the search will write, on all processors. */
static void spot_range(void *arg, size_t from, size_t to)
{
    const struct making *m = arg;
    for (size_t i = from; i < to; i++) {
        m->spot[i].first = i <= m->in->blocks ? m->in->first[i] : 0;
        m->g->order[i] = m->parent[i] = m->out_first[i] = 0;
    }
}

static int make_room(struct making *m)
{
    const struct graph_input *in = m->in;
    const size_t nodes = making_nodes(m);
    const uint64_t outs = (uint64_t)in->first[in->blocks] + in->root_first[in->roots];
    if (nodes >= UINT32_MAX - 16 || outs >= UINT32_MAX)
        return -1;
    /* The search goes back and forth in the last two, and through the others in order. */
    m->pair = spill_zeros(2 * nodes, sizeof *m->pair);
    m->g->order = spill_zeros(nodes, sizeof *m->g->order);
    m->parent = spill_zeros(nodes, sizeof *m->parent);
    m->out_first = spill_zeros(nodes + 1, sizeof *m->out_first);
    m->out = spill_zeros((size_t)outs + 1, sizeof *m->out);
    if (in->weak)
        m->out_weak = spill_zeros((size_t)outs / 64 + 1, sizeof *m->out_weak);
    spill_renew(in->target);
    m->spot = spill_zeros(nodes, sizeof *m->spot);
    if (!m->g->order || !m->parent || !m->spot || !m->out_first || !m->out || !m->pair ||
        (in->weak && !m->out_weak))
        return -1;
    parallel_ranges(in->threads, nodes, spot_range, m);
    return 0;
}

static void release(struct making *m)
{
    spill_free(m->stack);
    spill_free(m->spot);
    spill_free(m->out);
    spill_free(m->out_first);
    spill_free(m->out_weak);
    m->stack = NULL;
    m->spot = NULL;
    m->out = m->out_first = NULL;
    m->out_weak = NULL;
}

#ifdef MALLOW_INVARIANTS
/* The order and its numbers are inverse; a dominator comes before what it dominates; the walk of
 * the tree meets each number once; everything's root retains all bytes. */
static void check_graph(const struct graph *g)
{
    uint64_t bytes = 0;
    INVARIANT(g->held <= g->reached && g->reached <= g->count);
    for (uint32_t n = 1; n < g->count; n++) {
        INVARIANT(g->number[g->order[n]] == n);
        INVARIANT(g->dominator[n] < n);
        INVARIANT(g->span[n] <= g->span[g->dominator[n]]);
        INVARIANT(g->by_place[n] && g->by_place[n] < g->count);
        bytes += g->order[n] < g->blocks ? g->bytes_of(g->arg, g->order[n]) : 0;
    }
    INVARIANT(g->span[0] == g->count && g->retained[0] == bytes);
    INVARIANT(g->unreachable_bytes <= bytes);
}
#endif

int graph_make(struct graph *g, const struct graph_input *in, struct error *err)
{
    *g = (struct graph){.blocks = in->blocks,
                        .roots = in->roots,
                        .bytes_of = in->bytes_of,
                        .arg = in->arg,
                        .unit = in->unit};
    struct making m = {.g = g, .in = in};
    int status = make_room(&m);
    if (!status) {
        spill_hold();
        parallel_both(in->threads, touch_pair, &m, search_all, &m);
        spill_release();
        status = m.failed ? -1 : 0;
        keep_numbers(&m);
    }
    if (in->done)
        in->done(in->done_arg);
    if (!status)
        status = graph_predecessors(&m);
    release(&m);
    if (!status)
        status = graph_dominate(g, m.parent, m.pair);
    spill_free(m.pair);
    if (!status)
        status = add_up(&m, m.parent);
#ifdef MALLOW_INVARIANTS
    if (!status)
        check_graph(g);
#endif
    spill_free(m.parent);
    if (status) {
        graph_release(g);
        return error_memory_for(err, "the heap has too many blocks for this machine");
    }
    if (g->leak_count > 1)
        qsort(g->leaks, g->leak_count, sizeof *g->leaks, by_bytes);
    return 0;
}

void graph_release(struct graph *g)
{
    spill_free(g->order);
    spill_free(g->number);
    spill_free(g->dominator);
    spill_free(g->before_first);
    spill_free(g->before);
    spill_free(g->retained);
    spill_free(g->by_place);
    spill_free(g->span);
    spill_free(g->own);
    spill_free(g->leaks);
    *g = (struct graph){0};
}
