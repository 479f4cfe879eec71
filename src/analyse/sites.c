#include "analyse/sites.h"

#include <stdlib.h>
#include <string.h>

struct forest { /* hash of (parent, frame) to index, by linear probing */
    struct sites *s;
    uint32_t *table;
    size_t table_size, room;
};

static size_t place_of(const struct forest *f, uint32_t parent, uint32_t frame)
{
    uint64_t h = ((uint64_t)parent << 32 | frame) * 0x9e3779b97f4a7c15u;
    h ^= h >> 29;
    size_t i = h & (f->table_size - 1);
    while (f->table[i] &&
           (f->s->parent[f->table[i]] != parent || f->s->frame[f->table[i]] != frame))
        i = (i + 1) & (f->table_size - 1);
    return i;
}

static int grow(struct forest *f)
{
    struct sites *s = f->s;
    size_t room = f->room ? f->room * 2 : 1024;
    uint32_t *parent = realloc(s->parent, room * sizeof *parent);
    if (parent)
        s->parent = parent;
    uint32_t *frame = realloc(s->frame, room * sizeof *frame);
    if (frame)
        s->frame = frame;
    uint32_t *table = calloc(room * 2, sizeof *table);
    if (!parent || !frame || !table) {
        free(table);
        return -1;
    }
    free(f->table);
    f->table = table;
    f->table_size = room * 2;
    f->room = room;
    for (uint32_t i = 1; i <= s->frame_count; i++)
        f->table[place_of(f, s->parent[i], s->frame[i])] = i;
    return 0;
}

/* The child `frame` of `parent`, made if it is new; 0 when memory ran out. */
static uint32_t child(struct forest *f, uint32_t parent, uint32_t frame)
{
    if (f->s->frame_count + 2 >= f->room && grow(f))
        return 0;
    size_t i = place_of(f, parent, frame);
    if (!f->table[i]) {
        uint32_t n = ++f->s->frame_count;
        f->s->parent[n] = parent;
        f->s->frame[n] = frame;
        f->table[i] = n;
    }
    return f->table[i];
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
        if (tip >= site_of_room) {
            size_t room = f.room > (size_t)tip ? f.room : (size_t)tip + 1;
            uint32_t *more = realloc(site_of, room * sizeof *more);
            if (!more)
                goto no_memory;
            memset(more + site_of_room, 0, (room - site_of_room) * sizeof *more);
            site_of = more;
            site_of_room = room;
        }
        if (!site_of[tip]) {
            s->items[s->count++] = (struct site){.tip = tip};
            site_of[tip] = (uint32_t)s->count;
        }
        figures_add(&s->items[site_of[tip] - 1].figures, &stacks[i]);
    }
    s->tip_of = known;
    free(path);
    free(site_of);
    free(f.table);
    qsort_r(s->items, s->count, sizeof *s->items, by_order, &by);
    return 0;
no_memory:
    free(known);
    free(path);
    free(site_of);
    free(f.table);
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
