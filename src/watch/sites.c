/* sites.c - Sums up the live sampled blocks of a process by stack, and computes growth since the
 * last report. */
#include "watch/sites.h"

#include <stdlib.h>
#include <string.h>

#define LATE_NS 2000000000ull /* a process was not seen from its beginning */

double sites_elsewhere(const struct watch_sums *s)
{
    return s->freed_samples ? (double)s->freed_elsewhere / (double)s->freed_samples : 0;
}

double sites_weight(const struct watch_site *s, enum watch_order order)
{
    switch (order) {
    case WATCH_BY_GROWTH: return s->growth_bytes;
    case WATCH_BY_AGE: return (double)s->oldest_ns;
    case WATCH_BY_TIME: return s->byte_seconds;
    case WATCH_BY_ALLOCATED: return s->sums.allocated_bytes;
    case WATCH_BY_ELSEWHERE: return s->sums.freed_bytes * sites_elsewhere(&s->sums);
    default: return s->chosen.bytes;
    }
}

static enum watch_order sort_order; /* qsort has no argument; one thread */

static int compare(const void *a, const void *b)
{
    const struct watch_site *x = a, *y = b;
    bool from_live = sort_order <= WATCH_BY_AGE;
    if (from_live && !x->chosen.samples != !y->chosen.samples)
        return x->chosen.samples ? -1 : 1;
    double v = sites_weight(x, sort_order), w = sites_weight(y, sort_order);
    if (v == w) {
        v = x->chosen.bytes;
        w = y->chosen.bytes;
    }
    if (v != w)
        return v > w ? -1 : 1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void add_sums(struct watch_sums *sum, const struct watch_sums *s)
{
    sum->samples += s->samples;
    sum->bytes += s->bytes;
    sum->allocated_bytes += s->allocated_bytes;
    sum->allocated_blocks += s->allocated_blocks;
    sum->freed_bytes += s->freed_bytes;
    sum->freed_blocks += s->freed_blocks;
    sum->freed_byte_seconds += s->freed_byte_seconds;
    sum->freed_samples += s->freed_samples;
    sum->freed_elsewhere += s->freed_elsewhere;
}

void sites_merge(struct watch_site *sum, const struct watch_site *s)
{
    if (s->chosen.samples && (!sum->chosen.samples || s->oldest_ns > sum->oldest_ns)) {
        sum->oldest_ns = s->oldest_ns;
        sum->tid = s->tid;
    }
    if (s->chosen.samples && (!sum->chosen.samples || s->youngest_ns < sum->youngest_ns))
        sum->youngest_ns = s->youngest_ns;
    sum->more_tids |= s->more_tids || (s->chosen.samples && s->tid != sum->tid);
    estimate_merge(&sum->chosen, &s->chosen);
    estimate_merge(&sum->live, &s->live);
    sum->growth_bytes += s->growth_bytes;
    sum->byte_seconds += s->byte_seconds;
    add_sums(&sum->sums, &s->sums);
}

static void add_block(struct watch_sites *all, struct watch_site *s, const struct watch_process *p,
                      const struct watch_choice *choice, const struct watch_block *b)
{
    uint64_t age = p->time_ns > b->born_ns ? p->time_ns - b->born_ns : 0;
    estimate_add(&s->live, b->size, b->weight);
    s->byte_seconds += (double)b->weight * (double)age / 1e9;
    if (age < choice->older_than_ns)
        return;
    if (!choice->known_too && b->born_ns < p->known_before_ns) {
        all->known_blocks++;
        return;
    }
    if (!s->chosen.samples || age < s->youngest_ns)
        s->youngest_ns = age;
    if (s->chosen.samples && s->tid != b->tid)
        s->more_tids = true;
    if (!s->chosen.samples || age > s->oldest_ns) {
        s->oldest_ns = age;
        s->tid = b->tid;
    }
    estimate_add(&s->chosen, b->size, b->weight);
}

static double reported_of(const struct watch_reported *t, uint32_t stack)
{
    return stack < t->room ? t->bytes[stack] : 0;
}

int sites_of(struct watch_sites *all, const struct watch_process *p,
             const struct watch_choice *choice, struct error *err)
{
    *all = (struct watch_sites){0};
    uint32_t stacks = p->stacks.image.stacks, *index = calloc((size_t)stacks + 1, sizeof *index);
    all->items = calloc((size_t)stacks + 1, sizeof *all->items); /* at most one a node, and 0 */
    if (!index || !all->items) {
        free(index);
        sites_free(all);
        return error_memory(err);
    }
    for (uint32_t i = 0; i < p->sum_count; i++) {
        const struct watch_sums *s = &p->sums[i];
        if (s->stack > stacks)
            continue;
        if (!index[s->stack]) {
            index[s->stack] = ++all->count;
            all->items[all->count - 1].stack = s->stack;
        }
        struct watch_site *site = &all->items[index[s->stack] - 1];
        add_sums(&site->sums, s);
        site->sums.stack = s->stack;
    }
    for (uint32_t i = 0; i < p->block_count; i++) {
        const struct watch_block *b = &p->blocks[i];
        if (!index[b->stack]) {
            index[b->stack] = ++all->count;
            all->items[all->count - 1].stack = b->stack;
        }
        add_block(all, &all->items[index[b->stack] - 1], p, choice, b);
    }
    const struct watch_reported *reported = &p->reported[choice->reported];
    bool first =
        !reported->time_ns && p->joined_ns > p->start_ns + LATE_NS; /* from when? not known */
    for (uint32_t i = 0; i < all->count; i++) {
        struct watch_site *s = &all->items[i];
        s->byte_seconds += s->sums.freed_byte_seconds;
        s->growth_bytes = first ? 0 : s->chosen.bytes - reported_of(reported, s->stack);
        all->growth_bytes += s->growth_bytes;
        all->chosen += s->chosen.samples != 0;
        estimate_merge(&all->total, &s->chosen);
    }
    sort_order = choice->order;
    qsort(all->items, all->count, sizeof *all->items, compare);
    free(index);
    return 0;
}

int sites_reported(const struct watch_sites *all, struct watch_process *p,
                   const struct watch_choice *choice, struct error *err)
{
    struct watch_reported *t = &p->reported[choice->reported];
    uint32_t room = p->stacks.image.stacks + 1;
    if (room > t->room) {
        double *bytes = realloc(t->bytes, room * sizeof *bytes);
        if (!bytes)
            return error_memory(err);
        t->bytes = bytes;
        t->room = room;
    }
    memset(t->bytes, 0, t->room * sizeof *t->bytes);
    for (uint32_t i = 0; i < all->count; i++)
        t->bytes[all->items[i].stack] = all->items[i].chosen.bytes;
    t->time_ns = p->time_ns;
    return 0;
}

void sites_free(struct watch_sites *s)
{
    free(s->items);
    s->items = NULL;
    s->count = 0;
}
