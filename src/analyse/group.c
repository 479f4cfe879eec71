/* group.c - Groups stacks by frame, one level of callers at a time. Cursors are sorted by
 * counting where frames are dense numbers, and by comparison otherwise. Ties keep the order of
 * the stacks. */
#include "analyse/group.h"

#include <stdlib.h>
#include <string.h>

long group_start(const struct model *m, struct group_cursor **cursors, struct error *err)
{
    const struct model_stacks stacks = model_stacks(m);
    const struct trace_image *image = model_image(m);
    size_t n = 0;
    *cursors = malloc((model_distinct_stacks(m) + 1) * sizeof **cursors);
    if (!*cursors)
        return error_memory_for(err, "the call sites of process %u", image->pid);
    for (uint32_t i = 0; i <= image->stacks; i++) {
        const struct model_stack *s = model_stack_of(stacks, i);
        if (model_stack_counts(s))
            (*cursors)[n++] = (struct group_cursor){.stack = i, .node = i, .frame = NO_FRAME};
    }
    return (long)n;
}

static void step_one(const struct trace_image *image, const struct frame_source *source,
                     struct group_cursor *c)
{
    const uint32_t *ids;
    if (!c->node)
        return;
    if (++c->position >= source->frames(source->arg, c->node, &ids)) {
        c->node = trace_caller(image, c->node);
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

/* Fills in the frame, too. */
static void step_cursor(const struct trace_image *image, const struct frame_source *source,
                        struct group_cursor *c)
{
    uint32_t frame;
    do {
        step_one(image, source, c);
        frame = frame_at(source, c);
    } while (frame != NO_FRAME && source->hidden && source->hidden(source->arg, frame));
    c->frame = frame;
}

#define NODES_AHEAD 16u /* cursors whose nodes are asked for: they lie all over a large table */

void group_step(const struct model *m, const struct frame_source *source,
                struct group_cursor *cursors, size_t count)
{
    const struct trace_image *const image = model_image(m);
    for (size_t i = 0; i < count; i++) {
        if (i + NODES_AHEAD < count)
            __builtin_prefetch(trace_node(image, cursors[i + NODES_AHEAD].node));
        step_cursor(image, source, &cursors[i]);
    }
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
#define AHEAD       8u  /* stacks whose figures are asked for */

static int compare_cursor_frames(const void *a, const void *b)
{
    const struct group_cursor *x = a, *y = b;
    if (x->frame != y->frame)
        return x->frame < y->frame ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Frames are small numbers, and cursors come in the order of their stacks: so they are put where
 * they belong, in one pass for all frames. False when that is not so, or there is no memory: the
 * cursors are as they were. */
static bool distribute_cursors(struct group_cursor *cursors, size_t count)
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
static void sort_cursors(struct group_cursor *cursors, size_t count)
{
    if (count < FEW_CURSORS || !distribute_cursors(cursors, count))
        qsort(cursors, count, sizeof *cursors, compare_cursor_frames);
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

static void find_cursor_frames(const struct frame_source *source, struct group_cursor *cursors,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        cursors[i].frame = frame_at(source, &cursors[i]);
}

/* Puts the cursors, which know their frames, in groups, in the order of frames. -1 without memory.
 */
static long gather_groups(const struct model *m, struct group_cursor *cursors, size_t count,
                          struct group **groups, struct error *err)
{
    const struct model_stacks stacks = model_stacks(m);
    size_t n = 0;
    sort_cursors(cursors, count);
    for (size_t i = 0; i < count; i++)
        n += i == 0 || cursors[i].frame != cursors[i - 1].frame;
    *groups = calloc(n + 1, sizeof **groups);
    if (!*groups)
        return error_memory_for(err, "%zu groups of stacks", n);
    struct group *g = *groups, *end = g;
    for (size_t i = 0; i < count; i++) {
        if (i == 0 || cursors[i].frame != cursors[i - 1].frame) {
            g = end++;
            *g = (struct group){.frame = cursors[i].frame, .first = i};
        }
        if (i + AHEAD < count)
            __builtin_prefetch(model_stack_of(stacks, cursors[i + AHEAD].stack));
        g->count++;
        figures_add(&g->figures, model_stack_of(stacks, cursors[i].stack));
    }
    return (long)n;
}

/* Largest first, without those that have nothing of the metric. Returns how many there are. */
static long order(struct group *groups, long n, enum metric by)
{
    if (n > 0)
        qsort_r(groups, (size_t)n, sizeof *groups, by_metric, &by);
    while (n > 0 && !figures_metric(&groups[n - 1].figures, by))
        n--;
    return n;
}

long group_frames(const struct model *m, const struct frame_source *source, enum metric by,
                  struct group_cursor *cursors, size_t count, struct group **groups,
                  struct error *err)
{
    find_cursor_frames(source, cursors, count);
    const long n = gather_groups(m, cursors, count, groups, err);
    return n < 0 ? -1 : order(*groups, n, by);
}

long group_callers(const struct model *m, const struct frame_source *source, enum metric by,
                   struct group_cursor *cursors, size_t count, struct group **groups,
                   struct error *err)
{
    group_step(m, source, cursors, count);
    const long n = gather_groups(m, cursors, count, groups, err);
    return n < 0 ? -1 : order(*groups, n, by);
}

/* ---- for every metric ---- */

int group_sites_make(struct group_sites *s, const struct model *m,
                     const struct frame_source *source, struct error *err)
{
    const struct model_stacks stacks = model_stacks(m);
    if (s->made)
        return 0;
    const long n = group_start(m, &s->cursors, err);
    if (n < 0)
        return -1;
    for (long i = 0; i < n; i++) {
        struct figures f = {0};
        figures_add(&f, model_stack_of(stacks, s->cursors[i].stack));
        figures_join(&s->whole, &f);
        for (enum metric by = 0; by < METRICS; by++)
            s->stacks[by] += figures_metric(&f, by) != 0;
    }
    group_to_sites(source, s->cursors, (size_t)n);
    find_cursor_frames(source, s->cursors, (size_t)n);
    const long groups = gather_groups(m, s->cursors, (size_t)n, &s->groups, err);
    s->count = groups < 0 ? 0 : (size_t)groups;
    s->made = groups >= 0;
    return groups < 0 ? -1 : 0;
}

long group_sites_by(const struct group_sites *s, enum metric by, struct group **groups,
                    struct error *err)
{
    *groups = calloc(s->count + 1, sizeof **groups);
    if (!*groups)
        return error_memory_for(err, "%zu groups of stacks", s->count);
    if (s->count)
        memcpy(*groups, s->groups, s->count * sizeof **groups);
    return order(*groups, (long)s->count, by);
}

void group_sites_release(struct group_sites *s)
{
    free(s->cursors);
    free(s->groups);
    memset(s, 0, sizeof *s);
}
