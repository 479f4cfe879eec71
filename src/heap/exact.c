/* exact.c - blocks of which address and size are known, and that have no headers; see walk.h. */
#include <stdlib.h>
#include <string.h>

#include "arch/page.h"
#include "heap/recorded.h"
#include "heap/sampled.h"
#include "heap/spill.h"
#include "heap/walk.h"

enum { HOLE_BYTES = 1 << 16, HEADER_BYTES = 16 };

int walk_add_exact(struct walk *w, uint64_t address, uint64_t bytes)
{
    if (!SPILL_ROOM(w->exact, w->exact_count + 1, w->exact_room))
        return -1;
    w->exact[w->exact_count++] = (struct walk_exact){address, bytes};
    return 0;
}

static int by_address(const void *a, const void *b)
{
    const struct walk_exact *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

/* Whole granules, not overlapping; what does not begin at one is left out and counted. */
static void put_in_order(struct walk *w)
{
    size_t kept = 0;
    uint64_t until = HEADER_BYTES;
    if (w->exact_count > 1)
        qsort(w->exact, w->exact_count, sizeof *w->exact, by_address);
    for (size_t i = 0; i < w->exact_count; i++) {
        struct walk_exact e = w->exact[i];
        e.bytes = (e.bytes + BLOCK_GRANULE - 1) & ~(uint64_t)(BLOCK_GRANULE - 1);
        if (e.address % BLOCK_GRANULE || e.address >> ARCH_ADDRESS_BITS ||
            e.bytes >> ARCH_ADDRESS_BITS || !e.bytes || e.address < until) {
            w->exact_left_out++;
            continue;
        }
        until = e.address + e.bytes;
        w->exact[kept++] = e;
    }
    w->exact_count = kept;
}

int walk_exact_segments(struct walk *w)
{
    put_in_order(w);
    for (size_t i = 0, first = 0; i < w->exact_count; i++) {
        uint64_t end = w->exact[i].address + w->exact[i].bytes;
        if (i + 1 < w->exact_count && w->exact[i + 1].address - end < HOLE_BYTES)
            continue;
        struct walk_segment s = {.first = w->exact[first].address - HEADER_BYTES,
                                 .base = w->exact[first].address,
                                 .end = end,
                                 .exact = first,
                                 .exact_end = i + 1,
                                 .kind = SEGMENT_EXACT};
        if (walk_add_segment(w, &s))
            return -1;
        first = i + 1;
    }
    return 0;
}

/* As walk_segment of walk.c. */
int walk_exact(struct walk *w, struct walk_segment *s)
{
    struct blocks *b = &w->blocks;
    s->first_block = b->count;
    for (size_t i = s->exact; i < s->exact_end; i++) {
        const struct walk_exact *e = &w->exact[i];
        uint64_t behind = e->address + e->bytes;
        if (blocks_add(b, e->address - HEADER_BYTES, e->bytes, BLOCK_EXACT))
            return -1;
        w->exact_blocks++;
        w->exact_bytes += e->bytes;
        if ((i + 1 == s->exact_end || w->exact[i + 1].address != behind) &&
            blocks_add(b, behind - HEADER_BYTES, BLOCK_GRANULE, BLOCK_GAP))
            return -1;
    }
    s->end_block = b->count;
    return 0;
}

int walk_recording(struct walk *w, const struct heap_recorded *recorded)
{
    *w = (struct walk){.verified = true};
    int status = 0;
    for (size_t i = 0; !status && i < recorded->count; i++)
        status = walk_add_exact(w, recorded->at[i].address, recorded->at[i].bytes);
    if (!status)
        status = walk_exact_segments(w);
    for (size_t i = 0; !status && i < w->segment_count; i++)
        status = walk_exact(w, &w->segments[i]);
    blocks_done(&w->blocks);
    return status;
}

static int by_first(const void *a, const void *b)
{
    const struct walk_segment *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* True if the address lies in one of the segments, which are in order. */
static bool is_in(const struct walk_segment *segments, size_t count, uint64_t address)
{
    size_t low = 0, high = count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (segments[middle].first <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low && address < segments[low - 1].end;
}

int walk_note_sampled(struct walk *w, const struct heap_sampled *s)
{
    if (w->segment_count > 1)
        qsort(w->segments, w->segment_count, sizeof *w->segments, by_first);
    for (size_t i = 0; i < s->count; i++) {
        const struct heap_sampled_block *b = &s->at[i];
        if (is_in(w->segments, w->segment_count, b->address))
            continue;
        if (walk_add_exact(w, b->address, b->bytes ? b->bytes : 1))
            return -1;
        w->sampled_blocks++;
        w->sampled_bytes += (b->bytes + BLOCK_GRANULE - 1) & ~(uint64_t)(BLOCK_GRANULE - 1);
    }
    return 0;
}
