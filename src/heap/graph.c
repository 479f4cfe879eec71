/* graph.c - the numbering, predecessors and retained sizes; see graph.h. */
#include "heap/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/large.h"

struct waiting { /* a node that was referred to, and by which number */
    uint32_t node, from;
};

struct making {
    struct graph *g;
    const struct graph_input *in;
    uint32_t *parent; /* by number */
    struct waiting *stack;
    size_t depth, room;
    bool weakly; /* weak references count now */
};

static bool is_weak(const struct graph_input *in, uint32_t k)
{
    return in->weak && in->weak[k / 64] >> k % 64 & 1;
}

static void *array(size_t n, size_t each)
{
    void *p = large_grow(NULL, 0, n * each + each);
    return p;
}

static void *zeros(size_t n, size_t each)
{
    void *p = array(n, each);
    if (p)
        memset(p, 0, n * each + each);
    return p;
}

static int push(struct making *m, uint32_t node, uint32_t from)
{
    if (!LARGE_ROOM(m->stack, m->depth + 1, m->room))
        return -1;
    m->stack[m->depth++] = (struct waiting){node, from};
    __builtin_prefetch(&m->g->number[node]);
    return 0;
}

static uint32_t give_number(struct making *m, uint32_t node, uint32_t from)
{
    struct graph *g = m->g;
    uint32_t n = g->count++;
    g->number[node] = n;
    g->order[n] = node;
    m->parent[n] = from;
    return n;
}

/* Numbers a block and all that it reaches and that has no number yet. */
static int search(struct making *m, uint32_t start, uint32_t from)
{
    const struct graph_input *in = m->in;
    if (push(m, start, from))
        return -1;
    while (m->depth) {
        struct waiting w = m->stack[--m->depth];
        if (m->g->number[w.node])
            continue;
        uint32_t n = give_number(m, w.node, w.from);
        for (uint32_t k = in->first[w.node + 1]; k-- > in->first[w.node];) {
            uint32_t target = in->target[k];
            if (!m->weakly && is_weak(in, k))
                continue;
            __builtin_prefetch(&in->first[target]);
            if (push(m, target, n))
                return -1;
        }
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
            if (search(m, in->root_target[k], n))
                return -1;
    }
    while (kind < GRAPH_KINDS)
        m->g->end[kind++] = m->g->count;
    m->g->held = m->g->count;
    return 0;
}

/* What only weak references lead to, and what that leads to. */
static int search_weak(struct making *m)
{
    const struct graph_input *in = m->in;
    struct graph *g = m->g;
    m->weakly = true;
    for (uint32_t n = 1; in->weak && n < g->held; n++) {
        uint32_t node = g->order[n];
        if (node >= in->blocks)
            continue;
        for (uint32_t k = in->first[node]; k < in->first[node + 1]; k++)
            if (is_weak(in, k) && !g->number[in->target[k]] && search(m, in->target[k], n))
                return -1;
    }
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

static uint64_t bytes_of(const struct graph_input *in, uint32_t block)
{
    return in->bytes ? in->bytes[block] : in->bytes_of(in->arg, block);
}

static int search_unreachable(struct making *m)
{
    struct graph *g = m->g;
    uint32_t *sources, count;
    if (graph_sources(m->in, g->number, &sources, &count))
        return -1;
    g->leaks = calloc((size_t)count + 1, sizeof *g->leaks);
    int status = g->leaks ? 0 : -1;
    for (uint32_t i = 0; !status && i < count; i++) {
        struct graph_leak leak = {.block = sources[i], .from = g->count};
        status = search(m, sources[i], 0);
        leak.to = g->count;
        leak.blocks = leak.to - leak.from;
        for (uint32_t n = leak.from; n < leak.to; n++)
            leak.bytes += bytes_of(m->in, g->order[n]);
        g->unreachable_bytes += leak.bytes;
        g->unreachable_blocks += leak.blocks;
        g->leaks[g->leak_count++] = leak;
    }
    free(sources);
    return status;
}

/* --- predecessors --- */

static int make_predecessors(struct making *m)
{
    struct graph *g = m->g;
    const struct graph_input *in = m->in;
    uint32_t *first = g->before_first = zeros((size_t)g->count + 1, sizeof *first);
    if (!first)
        return -1;
    for (uint32_t b = 0; b < in->blocks; b++) {
        if (!g->number[b])
            continue;
        for (uint32_t k = in->first[b]; k < in->first[b + 1]; k++) {
            in->target[k] = g->number[in->target[k]];
            if (in->target[k] < g->held && is_weak(in, k))
                in->target[k] = 0; /* it keeps nothing alive */
            else
                first[in->target[k] + 1]++;
        }
    }
    for (uint32_t r = 0; r < in->roots; r++)
        for (uint32_t k = in->root_first[r]; k < in->root_first[r + 1]; k++)
            first[g->number[in->root_target[k]] + 1]++;
    uint64_t sum = 0;
    for (uint32_t n = 0; n <= g->count; n++) {
        sum += first[n];
        if (sum >= UINT32_MAX)
            return -1;
        first[n] = (uint32_t)sum;
    }
    uint32_t *next = array(g->count, sizeof *next);
    g->before = array(sum, sizeof *g->before);
    if (!next || !g->before) {
        free(next);
        return -1;
    }
    memcpy(next, first, g->count * sizeof *next);
    for (uint32_t r = 0; r < in->roots; r++)
        for (uint32_t k = in->root_first[r]; k < in->root_first[r + 1]; k++)
            g->before[next[g->number[in->root_target[k]]]++] = g->number[in->blocks + r];
    for (uint32_t b = 0; b < in->blocks; b++)
        if (g->number[b])
            for (uint32_t k = in->first[b]; k < in->first[b + 1]; k++)
                if (in->target[k])
                    g->before[next[in->target[k]]++] = g->number[b];
    free(next);
    return 0;
}

/* --- retained bytes --- */

/* A dominator's number is lower than those of what it dominates, so one pass downwards adds up,
 * and one upwards gives each its place. */
static int add_up(struct graph *g, const struct graph_input *in)
{
    g->retained = array(g->count, sizeof *g->retained);
    g->retained_blocks = array(g->count, sizeof *g->retained_blocks);
    g->span = array(g->count, sizeof *g->span);
    g->place = array(g->count, sizeof *g->place);
    uint32_t *next = array(g->count, sizeof *next);
    if (!g->retained || !g->retained_blocks || !g->span || !g->place || !next) {
        free(next);
        return -1;
    }
    for (uint32_t n = 0; n < g->count; n++) {
        bool block = n && g->order[n] < in->blocks;
        g->retained[n] = block ? bytes_of(in, g->order[n]) : 0;
        g->retained_blocks[n] = block;
        g->span[n] = 1;
    }
    for (uint32_t n = g->count; n-- > 1;) {
        uint32_t d = g->dominator[n];
        g->retained[d] += g->retained[n];
        g->retained_blocks[d] += g->retained_blocks[n];
        g->span[d] += g->span[n];
    }
    g->place[0] = 0;
    next[0] = 1;
    for (uint32_t n = 1; n < g->count; n++) {
        uint32_t d = g->dominator[n];
        g->place[n] = next[d];
        next[d] += g->span[n];
        next[n] = g->place[n] + 1;
    }
    free(next);
    return 0;
}

int graph_make(struct graph *g, const struct graph_input *in, struct error *err)
{
    *g = (struct graph){.blocks = in->blocks, .roots = in->roots};
    struct making m = {.g = g, .in = in};
    size_t nodes = (size_t)in->blocks + in->roots + 1;
    int status = -1;
    if (nodes < UINT32_MAX - 16) {
        g->number = zeros(nodes, sizeof *g->number);
        g->order = zeros(nodes, sizeof *g->order);
        m.parent = zeros(nodes, sizeof *m.parent);
        if (g->number && g->order && m.parent)
            status = 0;
    }
    if (!status)
        status = search_roots(&m);
    if (!status)
        status = search_weak(&m);
    if (!status)
        status = search_unreachable(&m);
    free(m.stack);
    if (!status)
        status = make_predecessors(&m);
    if (in->done)
        in->done(in->done_arg);
    if (!status)
        status = graph_dominate(g, m.parent);
    free(m.parent);
    if (!status)
        status = add_up(g, in);
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
    free(g->order);
    free(g->number);
    free(g->dominator);
    free(g->before_first);
    free(g->before);
    free(g->retained);
    free(g->retained_blocks);
    free(g->place);
    free(g->span);
    free(g->leaks);
    *g = (struct graph){0};
}
