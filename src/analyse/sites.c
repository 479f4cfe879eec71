/* sites.c - Puts stacks that read the same into one site, as paths in a forest of frames, and
 * sorts sites by a figure. A selection with a heap finds the first few without sorting all. */
#include "analyse/sites.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fetch.h"
#include "base/index.h"
#include "base/large.h"

#define LISTED 8u /* callees of a frame that are found one by one */

struct forest {
    struct sites *s;
    struct callee { /* the callees of a caller; by number, as parent[] and frame[] */
        uint32_t frame, next;
    } * callees;
    uint32_t *first;    /* by number of the caller */
    struct index index; /* by (parent, frame): the callees of a caller beyond LISTED */
    size_t room;
};

/* Room for n frames, and the root. */
static bool frame_room(struct forest *f, size_t n)
{
    struct sites *s = f->s;
    size_t parent = f->room, frame = parent, callees = parent, first = parent;
    if (n < f->room)
        return true;
    if (!LARGE_ROOM(s->parent, n + 1, parent) || !LARGE_ROOM(s->frame, n + 1, frame) ||
        !LARGE_ROOM(f->callees, n + 1, callees) || !LARGE_ROOM(f->first, n + 1, first))
        return false;
    memset(f->first + f->room, 0, (first - f->room) * sizeof *f->first);
    f->room = first;
    return true;
}

/* The child `frame` of `parent`, made if it is new; 0 when memory ran out. */
static uint32_t forest_child(struct forest *f, uint32_t parent, uint32_t frame)
{
    struct sites *s = f->s;
    const uint64_t hash = (uint64_t)parent << 32 | frame;
    uint32_t n, listed = 0;
    for (n = f->first[parent]; n; n = f->callees[n].next, listed++)
        if (f->callees[n].frame == frame)
            return n;
    if (listed == LISTED)
        for (size_t at = INDEX_START; (n = index_next(&f->index, hash, &at)) != INDEX_NONE;)
            if (s->parent[n] == parent && s->frame[n] == frame)
                return n;
    n = s->frame_count + 1;
    if (!frame_room(f, n) || (listed == LISTED && !index_add(&f->index, hash, n)))
        return 0;
    if (listed < LISTED) {
        f->callees[n] = (struct callee){frame, f->first[parent]};
        f->first[parent] = n;
    }
    s->parent[n] = parent;
    s->frame[n] = frame;
    s->frame_count = n;
    return n;
}

static void forest_release(struct forest *f)
{
    free(f->callees);
    free(f->first);
    index_release(&f->index);
}

/* Tip of the frames of `node`; known[] remembers nodes that were done. */
static int tip_of(struct forest *f, const struct trace_image *image,
                  const struct frame_source *source, uint32_t *known, uint32_t *path, uint32_t node,
                  uint32_t *tip)
{
    size_t depth = 0;
    for (; node && !known[node]; node = trace_caller(image, node))
        path[depth++] = node;
    uint32_t t = node ? known[node] : 0;
    while (depth) {
        const uint32_t *ids;
        size_t n = source->frames(source->arg, path[--depth], &ids);
        for (size_t i = n; i-- > 0;) {
            const bool last =
                !depth && !i; /* one frame is kept of a stack that would read as none */
            if (source->hidden && source->hidden(source->arg, ids[i]) && (t || !last))
                continue;
            t = forest_child(f, t, ids[i]);
            if (!t)
                return -1;
        }
        known[path[depth]] = t;
    }
    *tip = t;
    return 0;
}

#define STACKS_AHEAD 8u /* for which memory is asked, in three steps */

/* The memory of the stacks behind i: their figures, the sites of their callers, and the
 * callees of these. */
FETCHES sites_look_ahead(const struct forest *f, const struct trace_image *image,
                         struct model_stacks stacks, const uint32_t *known, uint32_t i)
{
    if (image->stacks - i < 3 * STACKS_AHEAD)
        return;
    __builtin_prefetch(&known[trace_caller(image, i + 3 * STACKS_AHEAD)]);
    __builtin_prefetch(model_stack_of(stacks, i + 3 * STACKS_AHEAD));
    __builtin_prefetch(&f->first[known[trace_caller(image, i + 2 * STACKS_AHEAD)]]);
    __builtin_prefetch(&f->callees[f->first[known[trace_caller(image, i + STACKS_AHEAD)]]]);
}

static int compare_site_order(const void *a, const void *b, void *arg)
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

bool sites_before(const struct site *a, const struct site *b, enum metric by)
{
    return compare_site_order(a, b, &by) < 0;
}

static void exchange_sites(struct site *a, struct site *b)
{
    const struct site was = *a;
    *a = *b;
    *b = was;
}

/* Lets the one at `at` sink to its place: in a heap, those below a site come before it. */
static void sink(struct site *heap, size_t n, size_t at, enum metric by)
{
    for (size_t below; (below = 2 * at + 1) < n; at = below) {
        below += below + 1 < n && compare_site_order(&heap[below], &heap[below + 1], &by) < 0;
        if (compare_site_order(&heap[at], &heap[below], &by) >= 0)
            return;
        exchange_sites(&heap[at], &heap[below]);
    }
}

/* Puts the first `top` to the front and in order. A heap of them has the last on top. */
static void order_sites(struct sites *s, uint64_t top, enum metric by)
{
    size_t n = s->count;
    if (top < n / 8) {
        n = (size_t)top;
        for (size_t i = n / 2; i-- > 0;)
            sink(s->items, n, i, by);
        for (size_t i = n; n && i < s->count; i++)
            if (compare_site_order(&s->items[i], &s->items[0], &by) < 0) {
                exchange_sites(&s->items[i], &s->items[0]);
                sink(s->items, n, 0, by);
            }
    }
    qsort_r(s->items, n, sizeof *s->items, compare_site_order, &by);
}

int sites_build(struct sites *s, const struct model *m, const struct frame_source *source,
                enum metric by, struct error *err)
{
    return sites_build_top(s, m, source, by, UINT64_MAX, err);
}

int sites_build_top(struct sites *s, const struct model *m, const struct frame_source *source,
                    enum metric by, uint64_t top, struct error *err)
{
    const struct trace_image *image = model_image(m);
    const struct model_stacks stacks = model_stacks(m);
    struct forest f = {.s = s};
    memset(s, 0, sizeof *s);
    uint32_t *known = large_zeroed(((size_t)image->stacks + 1) * sizeof *known);
    uint32_t *path = malloc(((size_t)image->stacks + 1) * sizeof *path);
    uint32_t *site_of = NULL; /* by tip */
    size_t site_of_room = 0;
    s->items = large_grow(NULL, 0, (model_distinct_stacks(m) + 1) * sizeof *s->items);
    if (!known || !path || !s->items || !frame_room(&f, image->stacks))
        goto no_memory;
    for (uint32_t i = 0; i <= image->stacks; i++) {
        const struct model_stack *of = model_stack_of(stacks, i);
        sites_look_ahead(&f, image, stacks, known, i);
        if (!model_stack_counts(of))
            continue;
        uint32_t tip;
        if (tip_of(&f, image, source, known, path, i, &tip))
            goto no_memory;
        const size_t had = site_of_room;
        if (!LARGE_ROOM(site_of, (size_t)(tip > f.room ? tip : f.room) + 1, site_of_room))
            goto no_memory;
        memset(site_of + had, 0, (site_of_room - had) * sizeof *site_of);
        if (!site_of[tip]) {
            s->items[s->count++] = (struct site){.tip = tip};
            site_of[tip] = (uint32_t)s->count;
        }
        figures_add(&s->items[site_of[tip] - 1].figures, of);
    }
    s->tip_of = known;
    free(path);
    free(site_of);
    forest_release(&f);
    order_sites(s, top, by);
    return 0;
no_memory:
    free(known);
    free(path);
    free(site_of);
    forest_release(&f);
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
