#include "analyse/group.h"

#include <stdlib.h>
#include <string.h>

long group_start(const struct model *m, struct group_cursor **cursors, struct error *err)
{
    const struct model_stack *stacks = model_stacks(m);
    const struct trace_image *image = model_image(m);
    size_t n = 0;
    *cursors = malloc((model_distinct_stacks(m) + 1) * sizeof **cursors);
    if (!*cursors)
        return error_memory_for(err, "the call sites of process %u", image->pid);
    for (uint32_t i = 0; i <= image->stacks; i++) {
        if (stacks[i].calls || stacks[i].peak_blocks || stacks[i].live_blocks ||
            stacks[i].temporary)
            (*cursors)[n++] = (struct group_cursor){.stack = i, .node = i, .frame = NO_FRAME};
    }
    return (long)n;
}

static uint32_t parent_of(const struct trace_image *image, uint32_t node)
{
    uint32_t parent = image->nodes[node].parent;
    return parent <= image->stacks ? parent : 0;
}

static void step_one(const struct trace_image *image, const struct frame_source *source,
                     struct group_cursor *c)
{
    const uint32_t *ids;
    if (!c->node)
        return;
    if (++c->position >= source->frames(source->arg, c->node, &ids)) {
        c->node = parent_of(image, c->node);
        c->position = 0;
    }
}

static uint32_t frame_at(const struct frame_source *source, const struct group_cursor *c)
{
    const uint32_t *ids;
    if (!c->node)
        return NO_FRAME;
    size_t n = source->frames(source->arg, c->node, &ids);
    return c->position < n ? ids[c->position] : NO_FRAME;
}

static void step(const struct trace_image *image, const struct frame_source *source,
                 struct group_cursor *c)
{
    uint32_t frame;
    do {
        step_one(image, source, c);
        frame = frame_at(source, c);
    } while (frame != NO_FRAME && source->hidden && source->hidden(source->arg, frame));
}

void group_step(const struct model *m, const struct frame_source *source,
                struct group_cursor *cursors, size_t count)
{
    for (size_t i = 0; i < count; i++)
        step(model_image(m), source, &cursors[i]);
}

void group_to_sites(const struct frame_source *source, struct group_cursor *cursors, size_t count)
{
    for (size_t i = 0; i < count && source->site; i++) {
        uint32_t node, position;
        if (source->site(source->arg, cursors[i].stack, &node, &position)) {
            cursors[i].node = node;
            cursors[i].position = position;
        }
    }
}

#define FEW_CURSORS 64u /* are compared */

static int by_frame(const void *a, const void *b)
{
    const struct group_cursor *x = a, *y = b;
    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Frames are small numbers, and cursors come in the order of their stacks: so they are put where
 * they belong, in one pass for all frames. False when that is not so, or there is no memory: the
 * cursors are as they were. */
static bool distribute(struct group_cursor *cursors, size_t count)
{
    uint32_t most = 0;
    for (size_t i = 0; i < count; i++) {
        if (i && cursors[i].stack < cursors[i - 1].stack)
            return false;
        if (cursors[i].frame != NO_FRAME && cursors[i].frame > most)
            most = cursors[i].frame;
    }
    if (most / 4 > count)
        return false;
    const size_t places = (size_t)most + 2; /* the last is for stacks that have ended */
    size_t *at = calloc(places, sizeof *at);
    struct group_cursor *sorted = at ? malloc(count * sizeof *sorted) : NULL;
    if (sorted) {
        for (size_t i = 0; i < count; i++)
            at[cursors[i].frame == NO_FRAME ? places - 1 : cursors[i].frame]++;
        for (size_t i = 0, sum = 0; i < places; i++) {
            const size_t here = at[i];
            at[i] = sum;
            sum += here;
        }
        for (size_t i = 0; i < count; i++)
            sorted[at[cursors[i].frame == NO_FRAME ? places - 1 : cursors[i].frame]++] = cursors[i];
        memcpy(cursors, sorted, count * sizeof *sorted);
    }
    free(sorted);
    free(at);
    return sorted != NULL;
}

/* By frame, and those of a frame by stack. */
static void sort(struct group_cursor *cursors, size_t count)
{
    if (count < FEW_CURSORS || !distribute(cursors, count))
        qsort(cursors, count, sizeof *cursors, by_frame);
}

static int by_metric(const void *a, const void *b, void *arg)
{
    const enum metric order = *(const enum metric *)arg;
    const struct group *x = a, *y = b;
    uint64_t u = figures_metric(&x->figures, order), v = figures_metric(&y->figures, order);
    if (u == v) {
        u = x->figures.allocated_bytes;
        v = y->figures.allocated_bytes;
    }
    if (u != v)
        return u < v ? 1 : -1;
    return x->first < y->first ? -1 : 1;
}

long group_frames(const struct model *m, const struct frame_source *source, enum metric by,
                  struct group_cursor *cursors, size_t count, struct group **groups,
                  struct error *err)
{
    const struct model_stack *stacks = model_stacks(m);
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        cursors[i].frame = frame_at(source, &cursors[i]);
    sort(cursors, count);
    for (size_t i = 0; i < count; i++)
        n += i == 0 || cursors[i].frame != cursors[i - 1].frame;
    *groups = calloc(n + 1, sizeof **groups);
    if (!*groups)
        return error_memory_for(err, "%zu groups of stacks", n);
    struct group *g = *groups - 1;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || cursors[i].frame != cursors[i - 1].frame)
            *++g = (struct group){.frame = cursors[i].frame, .first = i};
        g->count++;
        figures_add(&g->figures, &stacks[cursors[i].stack]);
    }
    qsort_r(*groups, n, sizeof **groups, by_metric, &by);
    while (n && !figures_metric(&(*groups)[n - 1].figures, by))
        n--;
    return (long)n;
}
