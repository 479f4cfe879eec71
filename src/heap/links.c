/* links.c - which groups of blocks refer to which; see heap.h. */
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "heap/heap_impl.h"

struct linking {
    const struct heap *h;
    struct heap_link *at;
    uint32_t *last; /* by link: the number that it was last counted for */
    size_t count, room, last_room;
    struct index index;
    uint32_t seen; /* the link that was found last */
};

uint32_t heap_link_group(const struct heap *h, uint32_t number)
{
    const uint32_t node = h->graph.order[number];
    return node >= h->graph.blocks ? h->types.count + node - h->graph.blocks : h->type[number];
}

static bool is_link(const struct heap_link *l, uint32_t from, uint32_t to)
{
    return l->from == from && l->to == to;
}

/* The link between two groups, made when it is new. NULL when out of memory. */
static struct heap_link *link_of(struct linking *l, uint32_t from, uint32_t to)
{
    if (l->count && is_link(&l->at[l->seen], from, to))
        return &l->at[l->seen];
    const uint64_t hash = ((uint64_t)from << 32 | to) * 0x9e3779b97f4a7c15u;
    for (size_t at = INDEX_START; (l->seen = index_next(&l->index, hash, &at)) != INDEX_NONE;)
        if (is_link(&l->at[l->seen], from, to))
            return &l->at[l->seen];
    l->seen = 0;
    if (l->count >= INDEX_NONE || !ARRAY_ROOM(l->at, l->count + 1, l->room) ||
        !ARRAY_ROOM(l->last, l->count + 1, l->last_room) ||
        !index_add(&l->index, hash, (uint32_t)l->count))
        return NULL;
    l->seen = (uint32_t)l->count;
    l->at[l->count] = (struct heap_link){.from = from, .to = to};
    l->last[l->count++] = 0;
    return &l->at[l->seen];
}

static int by_target(const void *a, const void *b)
{
    const struct heap_link *x = a, *y = b;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    if (x->references != y->references)
        return x->references > y->references ? -1 : 1;
    return x->from < y->from ? -1 : x->from > y->from;
}

int heap_links(const struct heap *h, struct heap_link **links, size_t *count)
{
    const struct graph *g = &h->graph;
    struct linking l = {.h = h};
    int status = 0;
    for (uint32_t n = 1; !status && n < g->count; n++) {
        if (!g->own[n])
            continue;
        for (uint32_t k = g->before_first[n]; !status && k < g->before_first[n + 1]; k++) {
            struct heap_link *link = link_of(&l, heap_link_group(h, g->before[k]), h->type[n]);
            if (!link) {
                status = -1;
                continue;
            }
            link->references++;
            if (l.last[l.seen] != n)
                link->blocks++;
            l.last[l.seen] = n;
        }
    }
    index_release(&l.index);
    free(l.last);
    if (status) {
        free(l.at);
        return -1;
    }
    if (l.count > 1)
        qsort(l.at, l.count, sizeof *l.at, by_target);
    *links = l.at;
    *count = l.count;
    return 0;
}
