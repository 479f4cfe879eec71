/* pages.c - Applies the rules of glibc's malloc_trim(0) to the blocks of a heap, and counts the
 * pages that would go back to the kernel. It charges the free bytes of all other pages to the
 * blocks in use on them. Only resident pages count. */
#include "heap/pages.h"

#include <stdlib.h>
#include <string.h>
#include "base/array.h"

enum { CHUNK_STRUCT_BYTES = 48, CHUNK_MIN = 32, HEADER_BYTES = 16 };

#define PAGE ((uint64_t)TARGET_PAGE_BYTES)

struct looking {
    struct pages *p;
    struct target *t;
    const struct walk *w;
    const struct glibc *g;
    /* the page at hand */
    uint64_t page;
    uint32_t block, free_bytes, other_bytes;
    bool failed;
};

static bool resident(struct looking *l, uint64_t page)
{
    return target_page(l->t, page) == RESIDENT_HERE;
}

static uint64_t resident_bytes(struct looking *l, uint64_t start, uint64_t end)
{
    uint64_t bytes = 0;
    for (uint64_t at = start; (at = target_next(l->t, at, end)) < end; at += PAGE)
        if (resident(l, at))
            bytes += PAGE;
    return bytes;
}

/* Ends the page at hand. */
static void turn_page(struct looking *l)
{
    struct pages *p = l->p;
    if (l->free_bytes && resident(l, l->page)) {
        if (!l->other_bytes) {
            p->kept_bytes += l->free_bytes;
        } else if (!ARRAY_ROOM(p->at, p->count + 1, p->room)) {
            l->failed = true;
        } else {
            p->pinned_bytes += l->free_bytes;
            p->at[p->count++] = (struct pages_pinned){l->page, l->block, l->free_bytes};
        }
    }
    l->free_bytes = l->other_bytes = 0;
}

/* A stretch of one block. Pages that it fills are counted here only if they are free. */
static void add_stretch(struct looking *l, uint64_t start, uint64_t end, uint32_t block, bool free)
{
    while (start < end) {
        uint64_t page = start & ~(PAGE - 1);
        uint64_t here = end - page < PAGE ? end - start : page + PAGE - start;
        if (page != l->page) {
            turn_page(l);
            l->page = page;
            l->block = block;
        }
        if (here == PAGE && !free) { /* nothing free lies on whole pages of a block in use */
            start = end & ~(PAGE - 1);
            if (start == page)
                return;
            continue;
        }
        *(free ? &l->free_bytes : &l->other_bytes) += (uint32_t)here;
        start += here;
    }
}

/* Adds the whole pages that malloc_trim gives back of free memory [start, end) in an arena. */
static void trimmed(const struct looking *l, const struct walk_segment *s, uint64_t start,
                    uint64_t end, uint64_t *from, uint64_t *to)
{
    const struct glibc_arena *a = &l->g->arenas[s->arena];
    *from = *to = end;
    if (a->top >= start && a->top < end) {
        const struct target_region *r = target_region_at(l->t, end - 1);
        uint64_t bytes = end - start;
        bool contiguous =
            a->main && r && r->end == end && (r->flags & REGION_BREAK || !l->p->resident_known);
        if (contiguous && bytes > CHUNK_MIN + 1)
            *from = end - ((bytes - CHUNK_MIN - 1) & ~(PAGE - 1));
    } else if (end - start > PAGE - 1 + CHUNK_STRUCT_BYTES) {
        *from = (start + CHUNK_STRUCT_BYTES + PAGE - 1) & ~(PAGE - 1);
        *to = end > *from ? *from + ((end - *from) & ~(PAGE - 1)) : *from;
    }
}

static bool is_free(const struct blocks *b, uint32_t block)
{
    return b->kind[block] == BLOCK_FREE || b->kind[block] == BLOCK_FAST;
}

static void look_at(struct looking *l, const struct walk_segment *s)
{
    const struct blocks *b = &l->w->blocks;
    for (uint32_t i = s->first_block; i < s->end_block; i++) {
        uint64_t start = b->address[i] - HEADER_BYTES, end = start + blocks_whole_bytes(b, i);
        if (b->kind[i] == BLOCK_GAP)
            continue;
        if (!is_free(b, i)) {
            add_stretch(l, start, end, i, false);
            continue;
        }
        uint32_t first = i;
        while (i + 1 < s->end_block && is_free(b, i + 1) && b->address[i + 1] - HEADER_BYTES == end)
            end += blocks_whole_bytes(b, ++i);
        uint64_t from, to;
        trimmed(l, s, start, end, &from, &to);
        add_stretch(l, start, from, first, true);
        l->p->trimmable_bytes += resident_bytes(l, from, to);
        if (to < end)
            add_stretch(l, to, end, i, true);
    }
    turn_page(l);
    l->page = 0;
}

int pages_find(struct pages *p, struct target *t, const struct walk *w, const struct glibc *g)
{
    struct looking l = {.p = p, .t = t, .w = w, .g = g};
    *p = (struct pages){.resident_known = target_knows_pages(t)};
    for (size_t i = 0; !l.failed && i < w->segment_count; i++)
        if (w->segments[i].kind < SEGMENT_MAPPED)
            look_at(&l, &w->segments[i]);
    return l.failed ? -1 : 0;
}

void pages_release(struct pages *p)
{
    free(p->at);
    *p = (struct pages){0};
}

void pages_share_out(const struct pages *p, const struct blocks *b, pages_share *share, void *arg)
{
    for (size_t i = 0; i < p->count; i++) {
        const struct pages_pinned *at = &p->at[i];
        uint64_t sum = 0;
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t k = at->block; k < b->count; k++) {
                uint64_t start = b->address[k] - HEADER_BYTES;
                uint64_t end = start + blocks_whole_bytes(b, k);
                if (start >= at->page + PAGE)
                    break;
                if (is_free(b, k) || b->kind[k] == BLOCK_GAP || end <= at->page)
                    continue;
                start = start < at->page ? at->page : start;
                end = end > at->page + PAGE ? at->page + PAGE : end;
                if (pass)
                    share(arg, k, (double)at->free_bytes * (double)(end - start) / (double)sum);
                else
                    sum += end - start;
            }
    }
}
