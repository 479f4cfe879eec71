#include "analyse/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"

struct forest {
    struct sites *s;
    struct index index; /* of (parent, frame) */
    size_t parent_room, frame_room;
};

/* The child `frame` of `parent`, made if it is new; 0 when memory ran out. */
static uint32_t child(struct forest *f, uint32_t parent, uint32_t frame)
{
    struct sites *s = f->s;
    const uint64_t hash = (uint64_t)parent << 32 | frame;
    uint32_t n;
    for (size_t at = INDEX_START; (n = index_next(&f->index, hash, &at)) != INDEX_NONE;)
        if (s->parent[n] == parent && s->frame[n] == frame)
            return n;
    n = (uint32_t)s->frame_count + 1;
    if (!ARRAY_ROOM(s->parent, (size_t)n + 1, f->parent_room) ||
        !ARRAY_ROOM(s->frame, (size_t)n + 1, f->frame_room) || !index_add(&f->index, hash, n))
        return 0;
    s->parent[n] = parent;
    s->frame[n] = frame;
    s->frame_count = n;
    return n;
}

/* Tip of the frames of `node`; known[] remembers nodes that were done. */
static int tip_of(struct forest *f, const struct trace_image *image,
                  const struct frame_source *source, uint32_t *known, uint32_t *path, uint32_t node,
                  uint32_t *tip)
{
    size_t depth = 0;
    while (node && !known[node] && depth < image->stacks) {
        path[depth++] = node;
        node = image->nodes[node].parent <= image->stacks ? image->nodes[node].parent : 0;
    }
    uint32_t t = node ? known[node] : 0;
    while (depth) {
        const uint32_t *ids;
        size_t n = source->frames(source->arg, path[--depth], &ids);
        for (size_t i = n; i-- > 0;) {
            const bool last = !depth && !i; /* of what reads as no frame at all, one is kept */
            if (source->hidden && source->hidden(source->arg, ids[i]) && (t || !last))
                continue;
            t = child(f, t, ids[i]);
            if (!t)
                return -1;
        }
        known[path[depth]] = t;
    }
    *tip = t;
    return 0;
}

static int by_order(const void *a, const void *b, void *arg)
{
    const enum metric order = *(const enum metric *)arg;
    const struct site *x = a, *y = b;
    static const enum metric then[] = {BY_PEAK, BY_ALLOCATED, BY_CALLS};
    uint64_t u = figures_metric(&x->figures, order), v = figures_metric(&y->figures, order);
    for (size_t i = 0; u == v && i < sizeof then / sizeof *then; i++) {
        u = figures_metric(&x->figures, then[i]);
        v = figures_metric(&y->figures, then[i]);
    }
    if (u == v) {
        u = y->tip;
        v = x->tip;
    }
    return u < v ? 1 : u > v ? -1 : 0;
}

int sites_build(struct sites *s, const struct model *m, const struct frame_source *source,
                enum metric by, struct error *err)
{
    const struct trace_image *image = model_image(m);
    const struct model_stack *stacks = model_stacks(m);
    struct forest f = {.s = s};
    memset(s, 0, sizeof *s);
    uint32_t *known = calloc((size_t)image->stacks + 1, sizeof *known);
    uint32_t *path = malloc(((size_t)image->stacks + 1) * sizeof *path);
    uint32_t *site_of = NULL; /* by tip */
    size_t site_of_room = 0;
    s->items = malloc((model_distinct_stacks(m) + 1) * sizeof *s->items);
    if (!known || !path || !s->items)
        goto no_memory;
    for (uint32_t i = 0; i <= image->stacks; i++) {
        if (!stacks[i].calls && !stacks[i].peak_blocks && !stacks[i].live_blocks &&
            !stacks[i].temporary)
            continue;
        uint32_t tip;
        if (tip_of(&f, image, source, known, path, i, &tip))
            goto no_memory;
        const size_t had = site_of_room;
        if (!ARRAY_ROOM(site_of, (size_t)tip + 1, site_of_room))
            goto no_memory;
        memset(site_of + had, 0, (site_of_room - had) * sizeof *site_of);
        if (!site_of[tip]) {
            s->items[s->count++] = (struct site){.tip = tip};
            site_of[tip] = (uint32_t)s->count;
        }
        figures_add(&s->items[site_of[tip] - 1].figures, &stacks[i]);
    }
    s->tip_of = known;
    free(path);
    free(site_of);
    index_release(&f.index);
    qsort_r(s->items, s->count, sizeof *s->items, by_order, &by);
    return 0;
no_memory:
    free(known);
    free(path);
    free(site_of);
    index_release(&f.index);
    sites_release(s);
    return error_memory_for(err, "the call sites of process %u", image->pid);
}

void sites_release(struct sites *s)
{
    free(s->items);
    free(s->parent);
    free(s->frame);
    free(s->tip_of);
    memset(s, 0, sizeof *s);
}
