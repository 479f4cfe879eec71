/* parts.c - the parts of a main arena whose memory is not contiguous; see walk.h.
 *
 * Where the break cannot be moved, glibc maps memory for its main arena, a part at a time. Each
 * part begins with a chunk at the start of a page and ends at a page's end, behind a fence, or with
 * the top. New mappings join older ones, so that a part may begin on any page.
 * Where brk made memory, others may have moved the break, and parts begin anywhere; what others
 * took there while the arena was contiguous counts as the arena's. The parts must add up to what
 * the arena had from the system. */
#include "heap/walk.h"

#include <stdlib.h>

#include "heap/headers.h"

enum { PARTS_FALSE_MAX = 1 << 28 /* headers that are looked at in vain */ };

struct parts {
    struct walk *w;
    struct target *t;
    struct headers *headers;
    uint64_t top, system_bytes; /* a part of the main arena */
    uint64_t found_bytes, effort;
    bool brk; /* where brk made memory */
};

/* The end of the part that begins at `at` and lies below `end`; 0: none begins there. */
static uint64_t part_end(struct parts *p, uint64_t at, uint64_t end)
{
    uint64_t header[2];
    for (bool first = true; end - at >= FENCE_BYTES && p->effort; first = false, p->effort--) {
        if (!headers_at(p->headers, at, end - FENCE_BYTES, header))
            return 0;
        const uint64_t size = header[1] & ~(uint64_t)SIZE_BITS;
        /* nothing before it is free, and it is neither mapped nor of another arena */
        if (first ? (header[1] & SIZE_BITS) != PREVIOUS_IN_USE : header[1] & 6)
            return 0;
        if (size == FENCE_BYTES && !first) {
            const uint64_t behind = headers_fence_end(p->headers, at, end);
            return p->brk || behind % TARGET_PAGE_BYTES == 0 ? behind : 0;
        }
        if (size < CHUNK_MIN || size & 15 || size > end - at)
            return 0;
        if (at == p->top)
            return at + size;
        at += size;
    }
    return 0;
}

static uint64_t up(uint64_t address, uint64_t step) { return (address + step - 1) & ~(step - 1); }

/* The parts in [start, end), where no heap of another arena is. */
static int search_run(struct parts *p, uint64_t start, uint64_t end)
{
    const uint64_t step = p->brk ? BLOCK_GRANULE : TARGET_PAGE_BYTES;
    uint64_t at = up(start, step);
    while (at < end && p->found_bytes < p->system_bytes && p->effort) {
        const uint64_t there = target_next(p->t, at, end); /* no header is zeros */
        if (there > at) {
            at = up(there, step);
            continue;
        }
        const uint64_t behind = part_end(p, at, end);
        p->effort -= p->effort > 0;
        if (!behind) {
            at += step;
            continue;
        }
        const struct walk_segment s = {
            .first = at, .base = at, .end = behind, .kind = SEGMENT_MAIN};
        at = behind;
        if (walk_add_segment(p->w, &s))
            return -1;
        p->found_bytes += s.end - s.first;
    }
    return 0;
}

static int by_base(const void *a, const void *b)
{
    const struct walk_segment *x = a, *y = b;
    return x->base < y->base ? -1 : x->base > y->base;
}

/* Gaps between two parts in the break's memory, from segment `first` on, which others took, go to
 * the part behind them, as far as the arena's count includes them. */
static void take_gaps(struct parts *p, size_t first)
{
    struct walk *const w = p->w;
    for (size_t i = first + 1; i < w->segment_count; i++) {
        const uint64_t gap = w->segments[i].base - w->segments[i - 1].end;
        if (gap > p->system_bytes - p->found_bytes)
            continue;
        w->segments[i].base -= gap;
        p->found_bytes += gap;
    }
}

int walk_find_parts(struct walk *w, struct target *t, const struct glibc *g,
                    struct headers *headers)
{
    struct parts p = {.w = w,
                      .t = t,
                      .headers = headers,
                      .top = g->arenas[0].top,
                      .system_bytes = g->arenas[0].system_bytes,
                      .effort = PARTS_FALSE_MAX + g->arenas[0].system_bytes / BLOCK_GRANULE};
    const size_t count = w->segment_count;
    struct walk_segment *const heaps = malloc((count + 1) * sizeof *heaps);
    int status = heaps ? 0 : -1;
    if (heaps && count) {
        memcpy(heaps, w->segments, count * sizeof *heaps);
        qsort(heaps, count, sizeof *heaps, by_base);
    }
    uint64_t start, end;
    for (size_t at = 0, k = 0; !status && walk_next_memory(t, &at, &p.brk, &start, &end);) {
        const size_t first = w->segment_count;
        for (; !status && k < count && heaps[k].base < end; k++) {
            if (heaps[k].base > start)
                status = search_run(&p, start, heaps[k].base);
            if (heaps[k].end > start)
                start = heaps[k].end;
        }
        if (!status && start < end)
            status = search_run(&p, start, end);
        if (p.brk && p.found_bytes < p.system_bytes)
            take_gaps(&p, first);
    }
    free(heaps);
    return status;
}
