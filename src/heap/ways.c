/* ways.c - the shortest way to every block at once; see heap.h. */
#include <stdlib.h>

#include "heap/heap_impl.h"
#include "heap/spill.h"

struct heap_ways {
    const struct heap *h;
    uint32_t *from; /* by number: the one before it on its way; 0: none leads there */
};

struct searching {
    const struct graph *g;
    uint32_t *first, *out; /* the references of each number */
    uint32_t *from, *queue;
    uint32_t tail;
};

/* The references of each number, of those that refer to each. */
static void turn_around(struct searching *s)
{
    const struct graph *g = s->g;
    const uint32_t references = g->before_first[g->count];
    for (uint32_t k = 0; k < references; k++)
        s->first[g->before[k] + 2]++;
    for (size_t n = 2; n < (size_t)g->count + 2; n++)
        s->first[n] += s->first[n - 1];
    for (uint32_t n = 1; n < g->count; n++)
        for (uint32_t k = g->before_first[n]; k < g->before_first[n + 1]; k++)
            s->out[s->first[g->before[k] + 1]++] = n;
}

static void reach(struct searching *s, uint32_t n, uint32_t from)
{
    if (s->from[n])
        return;
    s->from[n] = from;
    s->queue[s->tail++] = n;
}

/* Follows the references of all that was reached. */
static void drain(struct searching *s, uint32_t *head)
{
    for (; *head < s->tail; ++*head) {
        const uint32_t n = s->queue[*head];
        for (uint32_t k = s->first[n]; k < s->first[n + 1]; k++)
            reach(s, s->out[k], n);
    }
}

/* Breadth first, from the strongest kind of root to the weakest; then from the first block of each
 * unreachable group. */
static void search(struct searching *s)
{
    const struct graph *g = s->g;
    uint32_t head = 0, n = 1;
    for (unsigned kind = 0; kind < GRAPH_KINDS; kind++) {
        for (; n < g->end[kind]; n++)
            if (g->order[n] >= g->blocks)
                reach(s, n, n);
        drain(s, &head);
    }
    for (; n < g->count; n++)
        if (!s->from[n]) {
            reach(s, n, n);
            drain(s, &head);
        }
}

struct heap_ways *heap_ways_make(const struct heap *h)
{
    const struct graph *g = &h->graph;
    struct heap_ways *w = calloc(1, sizeof *w);
    struct searching s = {.g = g};
    s.first = spill_zeros((size_t)g->count + 2, sizeof *s.first);
    s.out = spill_zeros((size_t)g->before_first[g->count] + 1, sizeof *s.out);
    s.from = spill_zeros(g->count, sizeof *s.from);
    s.queue = spill_zeros(g->count, sizeof *s.queue);
    if (w && s.first && s.out && s.from && s.queue) {
        turn_around(&s);
        search(&s);
        *w = (struct heap_ways){h, s.from};
    } else {
        spill_free(s.from);
        free(w);
        w = NULL;
    }
    spill_free(s.first);
    spill_free(s.out);
    spill_free(s.queue);
    return w;
}

size_t heap_way(const struct heap_ways *w, uint32_t number, struct heap_hop *hops, size_t most)
{
    size_t length = 0, kept = 0;
    for (uint32_t n = number; n && w->from[n]; n = w->from[n]) {
        length++;
        if (w->from[n] == n)
            break;
    }
    uint32_t n = number;
    for (size_t i = 0; i < length; i++, n = w->from[n]) {
        /* The first and the last of a long way. */
        if (i >= most / 2 && length - i > most - most / 2)
            continue;
        struct heap_step step;
        heap_describe(w->h, n, &step);
        hops[kept++] = (struct heap_hop){heap_link_group(w->h, n), n, step.address, step.bytes};
    }
    for (size_t i = 0; i < kept / 2; i++) {
        const struct heap_hop hop = hops[i];
        hops[i] = hops[kept - 1 - i];
        hops[kept - 1 - i] = hop;
    }
    return length;
}

size_t heap_hop_referrers(const struct heap *h, uint32_t number, struct heap_hop *hops, size_t most)
{
    const struct graph *g = &h->graph;
    const uint32_t first = g->before_first[number], count = g->before_first[number + 1] - first;
    for (uint32_t k = 0; k < count && k < most; k++) {
        struct heap_step step;
        heap_describe(h, g->before[first + k], &step);
        hops[k] = (struct heap_hop){heap_link_group(h, g->before[first + k]), g->before[first + k],
                                    step.address, step.bytes};
    }
    return count;
}

void heap_ways_free(struct heap_ways *w)
{
    if (!w)
        return;
    spill_free(w->from);
    free(w);
}

uint32_t *heap_examples(const struct heap *h)
{
    const struct graph *g = &h->graph;
    uint32_t *of = calloc((size_t)h->types.count + 1, sizeof *of);
    for (uint32_t n = 1; of && n < g->count; n++) {
        uint32_t *best = &of[h->type[n]];
        if (g->own[n] && (!*best || g->retained[n] > g->retained[*best]))
            *best = n;
    }
    return of;
}
