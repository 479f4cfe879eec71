/* walk.c - the chunks of the arenas; see walk.h. */
#include "heap/walk.h"

#include "arch/page.h"
#include "base/array.h"
#include "glibc/versions.h"
#include "heap/headers.h"
#include "heap/spill.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ARENA_TAIL = 2088,
    FOREIGN_MAX = 1 << 30,  /* how far the next part of the main heap is looked for */
    EFFORT_LEAST = 1 << 28, /* headers that are looked at for it, and how many it costs to leap */
    LEAP_EFFORT = 1 << 14
};

static void doubt(struct walk *w, const char *format, va_list ap)
{
    w->verified = false;
    if (!*w->reason)
        vsnprintf(w->reason, sizeof w->reason, format, ap);
}

void walk_doubt(struct walk *w, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    doubt(w, format, ap);
    va_end(ap);
}

void walk_lacks(struct walk *w, const char *format, ...)
{
    va_list ap;
    w->lacks = true;
    va_start(ap, format);
    doubt(w, format, ap);
    va_end(ap);
}

int walk_add_segment(struct walk *w, const struct walk_segment *s)
{
    if (!ARRAY_ROOM(w->segments, w->segment_count + 1, w->segment_room))
        return -1;
    w->segments[w->segment_count++] = *s;
    return 0;
}

struct chunk_walk {
    struct walk *w;
    struct headers headers;
    bool fenced; /* the last segment was of the main arena and ended at a fence before its top */
    bool parts;  /* all segments of the main arena are known: none has to be looked for */
    uint64_t effort; /* left for finding where the main heap goes on */
};

/* How a run of chunks ends at a fence: behind it there is nothing more of the segment. */
static bool fence_ends(const struct walk_segment *s, uint64_t at, uint64_t size)
{
    return s->kind == SEGMENT_MAIN ? size == FENCE_BYTES : s->end - at <= 2 * FENCE_BYTES;
}

/* Follows the chunks of a segment and numbers them. A segment of the main arena may end before its
 * end, at a fence: then s->end is moved there. Returns -1 when out of memory. */
static int walk_segment(struct chunk_walk *c, struct walk_segment *s, uint64_t top)
{
    struct walk *w = c->w;
    struct blocks *b = &w->blocks;
    uint64_t at = s->first, header[2] = {0, PREVIOUS_IN_USE}, size = 0;
    uint32_t previous = BLOCK_NONE; /* whose use the next header shows */
    bool previous_free = false, reached = false;
    s->first_block = b->count;
    c->fenced = false;
    while (at < s->end) {
        if (!headers_at(&c->headers, at, s->end, header)) {
            walk_lacks(w, "the memory of the heap at 0x%" PRIx64 " cannot be read", at);
            break;
        }
        bool in_use = header[1] & PREVIOUS_IN_USE;
        if (previous != BLOCK_NONE && !in_use) {
            b->kind[previous] = BLOCK_FREE;
            if (header[0] != size || previous_free)
                walk_doubt(
                    w, "the free block before 0x%" PRIx64 " does not agree with its neighbors", at);
        }
        previous_free = previous != BLOCK_NONE && !in_use;
        size = header[1] & ~(uint64_t)SIZE_BITS;
        if (size < CHUNK_MIN && fence_ends(s, at, size) && size <= FENCE_BYTES &&
            previous != BLOCK_NONE) {
            if (s->kind == SEGMENT_MAIN) {
                const uint64_t end = headers_fence_end(&c->headers, at, s->end);
                s->end = end ? end : at + 2 * FENCE_BYTES;
            }
            if (!size && s->kind == SEGMENT_HEAP) /* the rest of the old top is no block */
                b->kind[previous] = BLOCK_OWN;
            reached = at != top;
            c->fenced = reached && s->kind == SEGMENT_MAIN;
            break;
        }
        if (size < CHUNK_MIN || size & 15 || size > s->end - at) {
            walk_doubt(w,
                       "the size of the block at 0x%" PRIx64
                       " is overwritten or being changed (%" PRIu64 ")",
                       at + 16, size);
            break;
        }
        if (blocks_add(b, at, size, at == top ? BLOCK_FREE : BLOCK_USED))
            return -1;
        previous = at == top ? BLOCK_NONE : b->count - 1;
        at += size;
        if (at == top + size && at - size == top) {
            reached = true;
            if (s->kind == SEGMENT_MAIN)
                s->end = at;
            break;
        }
    }
    if (!reached && at < s->end)
        walk_doubt(w, "the blocks from 0x%" PRIx64 " on could not be followed to their end",
                   s->first);
    else if (!reached)
        walk_doubt(w, "the blocks from 0x%" PRIx64 " on do not end where the heap does", s->first);
    if (s->end > at && s->end - at >= BLOCK_GRANULE && blocks_add(b, at, BLOCK_GRANULE, BLOCK_GAP))
        return -1;
    s->end_block = b->count;
    return 0;
}

/* --- where the chunks lie --- */

/* The end of the memory from `at` on that is mapped without a gap, writable and private. */
static uint64_t writable_until(const struct target *t, uint64_t at)
{
    const struct target_region *r = target_region_at(t, at);
    uint64_t end = at;
    while (r && r < t->regions + t->region_count && r->start <= end && r->flags & REGION_WRITE) {
        end = r->end;
        r++;
    }
    return end;
}

static int find_main(struct walk *w, struct target *t, const struct glibc *g)
{
    const struct glibc_arena *a = &g->arenas[0];
    uint64_t top_size = 0, top_header[2];
    if (target_read(t, a->top, top_header, sizeof top_header) == sizeof top_header)
        top_size = top_header[1] & ~(uint64_t)SIZE_BITS;
    uint64_t top_end = a->top + top_size;
    if (a->top >> ARCH_ADDRESS_BITS || a->top & 15 || !top_size || top_end >> ARCH_ADDRESS_BITS ||
        top_size > a->system_bytes) {
        if (a->system_bytes)
            walk_doubt(w, "the top of the main arena is not a block");
        return 0;
    }
    uint64_t base = g->has_parameters && g->sbrk_base ? g->sbrk_base : top_end - a->system_bytes;
    uint64_t from_end = top_end - a->system_bytes;
    if (base > a->top || a->top - base > FOREIGN_MAX * (uint64_t)1024) {
        /* Nothing from brk is in use, or the top lies in a mapping: then all may lie there. */
        base = from_end;
    }
    if (base > a->top || writable_until(t, base) < base + CHUNK_MIN) {
        walk_doubt(w, "the beginning of the main heap is not known");
        return 0;
    }
    struct walk_segment s = {
        .first = (base + 15) & ~15ULL, .base = base, .end = top_end, .kind = SEGMENT_MAIN};
    return walk_add_segment(w, &s);
}

static int find_heaps(struct walk *w, struct target *t, const struct glibc *g, uint32_t index)
{
    const struct glibc_arena *a = &g->arenas[index];
    uint64_t heap = a->top & ~(g->heap_bytes - 1), sum = 0;
    uint64_t first_heap = a->start & ~(g->heap_bytes - 1);
    for (unsigned n = 0; heap && n < GLIBC_HEAPS_MAX; n++) {
        struct glibc_heap info;
        if (heap >> ARCH_ADDRESS_BITS || target_read(t, heap, &info, sizeof info) < sizeof info ||
            info.arena != a->start || info.bytes > g->heap_bytes ||
            info.bytes % TARGET_PAGE_BYTES || info.bytes < TARGET_PAGE_BYTES ||
            (info.previous & (g->heap_bytes - 1))) {
            walk_doubt(
                w, "the heap at 0x%" PRIx64 " of the arena at 0x%" PRIx64 " does not belong to it",
                heap, a->start);
            return 0;
        }
        uint64_t info_bytes = a->start - first_heap; /* the arena follows it: 32 or 48 */
        uint64_t first = heap + info_bytes;
        if (heap == first_heap)
            first = a->start + g->head_bytes + ARENA_TAIL;
        struct walk_segment s = {.first = (first + 15) & ~15ULL,
                                 .base = heap,
                                 .end = heap + info.bytes,
                                 .arena = index,
                                 .kind = SEGMENT_HEAP};
        if (walk_add_segment(w, &s))
            return -1;
        sum += info.bytes;
        w->arenas[index].heaps++;
        if (heap == first_heap)
            break;
        heap = info.previous;
    }
    if (sum != a->system_bytes)
        walk_doubt(w,
                   "the heaps of the arena at 0x%" PRIx64 " are %" PRIu64
                   " bytes, its own count says %" PRIu64,
                   a->start, sum, a->system_bytes);
    return 0;
}

/* True if that much effort was left. */
static bool spend(struct chunk_walk *c, uint64_t effort)
{
    const bool had = c->effort >= effort;
    c->effort = had ? c->effort - effort : 0;
    return had;
}

/* The main heap went on elsewhere after a fence: another part of the program had moved the break,
 * or brk failed and memory was mapped. Finds where: a place from which chunks lead to the top. What
 * lies between may be anything, so the effort is bounded. */
static bool leads_to_top(struct chunk_walk *c, uint64_t at, uint64_t end, uint64_t top)
{
    uint64_t header[2];
    for (unsigned n = 0; at < top; n++) {
        const uint64_t before = c->headers.at;
        if (!headers_at(&c->headers, at, end, header) ||
            !spend(c, c->headers.at == before ? 1 : LEAP_EFFORT))
            return false;
        uint64_t size = header[1] & ~(uint64_t)SIZE_BITS;
        if (size == FENCE_BYTES && n) /* another part follows */
            return true;
        if (size < CHUNK_MIN || size & 15 || size > end - at)
            return false;
        at += size;
    }
    return at == top;
}

static int find_next_main(struct walk *w, struct chunk_walk *c, const struct glibc *g,
                          uint64_t from)
{
    const struct glibc_arena *a = &g->arenas[0];
    uint64_t header[2], covered = 0;
    if (!headers_at(&c->headers, a->top, a->top + 16, header))
        return 0;
    uint64_t end = a->top + (header[1] & ~(uint64_t)SIZE_BITS);
    for (size_t i = 0; i < w->segment_count; i++)
        if (w->segments[i].kind == SEGMENT_MAIN)
            covered += w->segments[i].end - w->segments[i].base;
    uint64_t mapped = end - (a->system_bytes - covered); /* if no other mapping lies between */
    if (a->system_bytes > covered && mapped <= a->top && leads_to_top(c, mapped, end, a->top)) {
        struct walk_segment s = {.first = mapped, .base = mapped, .end = end, .kind = SEGMENT_MAIN};
        return walk_add_segment(w, &s);
    }
    if (from < a->top && a->top - from < FOREIGN_MAX)
        for (uint64_t at = (from + 15) & ~15ULL; at <= a->top && spend(c, 1); at += 16)
            if (headers_at(&c->headers, at, end, header) && header[1] & PREVIOUS_IN_USE &&
                leads_to_top(c, at, end, a->top)) {
                /* The other part's memory counts as the arena's. */
                struct walk_segment s = {
                    .first = at, .base = from, .end = end, .kind = SEGMENT_MAIN};
                return walk_add_segment(w, &s);
            }
    walk_doubt(w, "where the main heap goes on behind 0x%" PRIx64 " is not known", from);
    return 0;
}

static int by_first(const void *a, const void *b)
{
    const struct walk_segment *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* --- sums --- */

static void add_up(struct walk *w, const struct glibc *g)
{
    struct blocks *b = &w->blocks;
    uint64_t main_bytes = 0;
    for (size_t i = 0; i < w->segment_count; i++) {
        const struct walk_segment *s = &w->segments[i];
        struct walk_arena *a = s->kind >= SEGMENT_MAPPED ? NULL : &w->arenas[s->arena];
        if (s->kind == SEGMENT_MAIN)
            main_bytes += s->end - s->base;
        for (uint32_t k = s->first_block; k < s->end_block; k++) {
            uint64_t whole = blocks_whole_bytes(b, k);
            switch (b->kind[k]) {
            case BLOCK_USED:
            case BLOCK_MAPPED:
                *(a ? &a->used_blocks : &w->mapped_blocks) += 1;
                *(a ? &a->used_bytes : &w->mapped_bytes) += blocks_bytes(b, k);
                break;
            case BLOCK_FREE:
            case BLOCK_FAST:
                if (a) {
                    a->free_blocks++;
                    a->free_bytes += whole;
                    if (b->address[k] - 16 == g->arenas[s->arena].top)
                        a->top_bytes = whole;
                }
                break;
            case BLOCK_CACHED:
                if (a) {
                    a->cached_blocks++;
                    a->cached_bytes += whole;
                }
                break;
            default: break;
            }
        }
    }
    for (size_t i = 0; i < w->arena_count; i++) {
        struct walk_arena *a = &w->arenas[i];
        uint64_t parts = a->used_bytes + a->free_bytes + a->cached_bytes;
        a->own_bytes = a->system_bytes > parts ? a->system_bytes - parts : 0;
    }
    if (main_bytes != g->arenas[0].system_bytes)
        walk_doubt(
            w, "the blocks of the main arena span %" PRIu64 " bytes, its own count says %" PRIu64,
            main_bytes, g->arenas[0].system_bytes);
}

static int walk_all(struct walk *w, struct target *t, const struct glibc *g,
                    const struct modules *modules, const struct heap_sampled *sampled,
                    unsigned threads)
{
    struct chunk_walk c = {.w = w,
                           .headers = {.ahead = readahead_open(t, threads)},
                           .parts = g->arenas[0].parts,
                           .effort = EFFORT_LEAST + g->arenas[0].system_bytes / BLOCK_GRANULE};
    int status = c.headers.ahead ? 0 : -1;
    if (!status && !c.parts)
        status = find_main(w, t, g);
    for (uint32_t i = 1; !status && i < g->arena_count; i++)
        status = find_heaps(w, t, g, i);
    if (!status && c.parts)
        status = walk_find_parts(w, t, g, &c.headers);
    if (!status)
        status = walk_find_mapped(w, t, g);
    if (!status)
        status = walk_note_sampled(w, sampled);
    if (!status)
        status = walk_find_pools(w, t, modules);
    if (!status)
        status = walk_exact_segments(w);
    if (!status && w->segment_count > 1)
        qsort(w->segments, w->segment_count, sizeof *w->segments, by_first);
    uint64_t until = 0;
    for (size_t i = 0; !status && i < w->segment_count; i++) {
        struct walk_segment *s = &w->segments[i];
        if (s->first < until || s->first >= s->end) {
            walk_doubt(w, "parts of the heap overlap at 0x%" PRIx64, s->first);
            s->first_block = s->end_block = w->blocks.count;
            continue;
        }
        if (s->kind == SEGMENT_MAPPED) {
            s->first_block = w->blocks.count;
            status = blocks_add(&w->blocks, s->first, s->end - s->first - (s->lent ? 16 : 0),
                                s->lent ? BLOCK_USED : BLOCK_MAPPED);
            s->end_block = w->blocks.count;
        } else if (s->kind == SEGMENT_EXACT) {
            status = walk_exact(w, s);
        } else {
            status = walk_segment(&c, s, g->arenas[s->arena].top);
            until = s->end;
            if (!status && c.fenced && !c.parts) { /* s may move */
                status = find_next_main(w, &c, g, until);
                qsort(w->segments + i + 1, w->segment_count - i - 1, sizeof *w->segments, by_first);
            }
            continue;
        }
        until = s->end;
    }
    readahead_close(c.headers.ahead);
    return status;
}

int walk_heap(struct walk *w, struct target *t, const struct glibc *g,
              const struct modules *modules, const struct heap_sampled *sampled, unsigned threads,
              struct error *err)
{
    *w = (struct walk){.verified = true, .arena_count = g->arena_count};
    w->arenas = calloc(g->arena_count ? g->arena_count : 1, sizeof *w->arenas);
    if (!w->arenas)
        return error_memory(err);
    for (size_t i = 0; i < g->arena_count; i++)
        w->arenas[i] = (struct walk_arena){.address = g->arenas[i].start,
                                           .system_bytes = g->arenas[i].system_bytes,
                                           .attached_threads = g->arenas[i].attached_threads,
                                           .main = g->arenas[i].main};
    if (walk_all(w, t, g, modules, sampled, threads) || walk_mark_cached(w, t, g))
        return error_memory_for(err, "the heap has %" PRIu32 " blocks and more", w->blocks.count);
    blocks_done(&w->blocks);
    add_up(w, g);
    return 0;
}

void walk_release(struct walk *w)
{
    blocks_release(&w->blocks);
    free(w->segments);
    spill_free(w->exact);
    free(w->arenas);
    *w = (struct walk){0};
}
