/* images.c - Numbers the words in the modules' data, so that a pointer into them fits 32 bits.
 * Two spans around the largest gap reject most words before the search. */
#include "heap/images.h"

#include <stdlib.h>

#include "base/array.h"

static int add(struct images *m, size_t *room, uint64_t start, uint64_t end, uint64_t *next)
{
    start = (start + 7) & ~7ULL;
    if (start >= end || *next + (end - start) / 8 >= UINT32_MAX)
        return 0;
    if (!ARRAY_ROOM(m->at, m->count + 1, *room))
        return -1;
    m->at[m->count++] = (struct image){start, end, (uint32_t)*next};
    *next += (end - start) / 8 + 1;
    return 0;
}

/* The two spans with the largest gap between them. */
static void make_spans(struct images *m)
{
    if (!m->count)
        return;
    size_t cut = 0;
    uint64_t gap = 0;
    for (size_t i = 1; i < m->count; i++)
        if (m->at[i].start - m->at[i - 1].end > gap) {
            gap = m->at[i].start - m->at[i - 1].end;
            cut = i;
        }
    uint64_t last = m->at[m->count - 1].end;
    uint64_t low_end = cut ? m->at[cut - 1].end : last, high = m->at[cut].start;
    m->low = (struct image_span){m->at[0].start, low_end - m->at[0].start};
    m->high = (struct image_span){high, last - high};
}

int images_make(struct images *m, const struct target *t, const struct modules *modules,
                const struct glibc *g)
{
    size_t room = 0;
    uint64_t next = MARK_FIRST;
    *m = (struct images){0};
    for (size_t i = 0; i < t->region_count; i++) {
        const struct target_region *r = &t->regions[i];
        const struct module *in = r->flags & REGION_EXEC ? NULL : modules_at(modules, r->start);
        if (!in)
            continue;
        uint64_t end = r->end < in->end ? r->end : in->end, start = r->start;
        if (g && g->arena_count && g->arenas[0].start >= start && g->arenas[0].start < end) {
            uint64_t behind = g->arenas[0].bins + 2088; /* the state itself stays out */
            if (add(m, &room, start, g->arenas[0].start, &next))
                return -1;
            start = behind;
        }
        if (add(m, &room, start, end, &next))
            return -1;
    }
    make_spans(m);
    return 0;
}

void images_release(struct images *m)
{
    free(m->at);
    *m = (struct images){0};
}

uint32_t images_mark(const struct images *m, uint64_t address)
{
    if (address - m->low.start >= m->low.bytes && address - m->high.start >= m->high.bytes)
        return MARK_NONE;
    if (address & 7)
        return MARK_NONE;
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (m->at[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == m->count || m->at[low].start > address)
        return MARK_NONE;
    return m->at[low].first + (uint32_t)((address - m->at[low].start) / 8);
}

uint64_t images_address(const struct images *m, uint32_t mark)
{
    size_t low = 0, high = m->count;
    if (mark < MARK_FIRST)
        return 0;
    while (low < high) { /* the last that begins at or before it */
        size_t middle = (low + high) / 2;
        if (m->at[middle].first <= mark)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? m->at[low - 1].start + (uint64_t)(mark - m->at[low - 1].first) * 8 : 0;
}
