/* seen_heaps.c - Tracks the heaps of glibc's arenas and the parts of the main arena by the
 * blocks seen in them, and groups heaps by arena. Sizes and counts are bounded, because a
 * damaged file may claim anything. */
#include "analyse/seen_heaps.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "glibc/versions.h"

#define SHIFT_LEAST 20u /* the least size of a heap, for a file that says nonsense */
#define SHIFT_MOST  40u

static uint64_t heap_address(const struct seen_heaps *s, uint32_t i)
{
    return s->of[i].number << s->shift;
}

bool seen_heaps_begin(struct seen_heaps *s, uint32_t threads)
{
    s->threads = threads;
    s->shift = (unsigned)__builtin_ctzll(GLIBC_HEAP_BYTES);
    s->thread = calloc((size_t)threads + 1, sizeof *s->thread);
    return s->thread != NULL;
}

void seen_heaps_release(struct seen_heaps *s)
{
    free(s->of);
    index_release(&s->by_number);
    free(s->parts);
    free(s->thread);
    *s = (struct seen_heaps){0};
}

static uint32_t find_heap_number(const struct seen_heaps *s, uint64_t number)
{
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&s->by_number, number, &at)) != INDEX_NONE;)
        if (s->of[i].number == number)
            return i;
    return UINT32_MAX;
}

uint32_t seen_heaps_find(const struct seen_heaps *s, uint64_t address)
{
    return find_heap_number(s, address >> s->shift);
}

/* Index of the heap, which may be new; UINT32_MAX without memory. */
static uint32_t heap_index(struct seen_heaps *s, uint64_t number)
{
    uint32_t i = find_heap_number(s, number);
    if (i != UINT32_MAX)
        return i;
    i = s->count;
    if (!ARRAY_ROOM(s->of, (size_t)i + 1, s->room) || !index_add(&s->by_number, number, i))
        return UINT32_MAX;
    s->of[i] = (struct seen_heap){.number = number, .begin = UINT64_MAX};
    s->count++;
    return i;
}

/* ---- the main arena ---- */

/* The first part that ends above the address. */
static uint32_t part_above(const struct seen_heaps *s, uint64_t address)
{
    uint32_t from = 0, to = s->part_count;
    while (from < to) {
        const uint32_t middle = (from + to) / 2;
        if (s->parts[middle].end > address)
            to = middle;
        else
            from = middle + 1;
    }
    return from;
}

static struct seen_part *part_at(const struct seen_heaps *s, uint64_t address)
{
    const uint32_t i = part_above(s, address);
    return i < s->part_count && s->parts[i].start <= address ? &s->parts[i] : NULL;
}

const struct seen_part *seen_heaps_part(const struct seen_heaps *s, uint64_t address)
{
    return s->part_count ? part_at(s, address) : NULL;
}

/* New memory joins the parts that it touches. */
static bool add_heap_part(struct seen_heaps *s, uint64_t start, uint64_t end)
{
    uint32_t first = part_above(s, start - 1), behind = first;
    struct seen_part part = {start, end, start};
    while (behind < s->part_count && s->parts[behind].start <= end) {
        const struct seen_part *const other = &s->parts[behind++];
        part.start = other->start < part.start ? other->start : part.start;
        part.end = other->end > part.end ? other->end : part.end;
        part.high = other->high > part.high ? other->high : part.high;
    }
    const uint32_t kept = s->part_count - (behind - first);
    if (kept >= SEEN_PARTS_MOST)
        return true; /* for a file that says nonsense */
    if (!ARRAY_ROOM(s->parts, (size_t)kept + 1, s->part_room))
        return false;
    memmove(&s->parts[first + 1], &s->parts[behind], (s->part_count - behind) * sizeof *s->parts);
    s->parts[first] = part;
    s->part_count = kept + 1;
    return true;
}

bool seen_heaps_said(struct seen_heaps *s, uint64_t address, bool other, uint64_t argument)
{
    if (!other)
        return argument <= address || argument >> ARCH_ADDRESS_BITS ||
               address <= 2 * PINNED_HEADER_BYTES ||
               add_heap_part(s, address - 2 * PINNED_HEADER_BYTES, argument);
    const unsigned shift = MLW_HEAP_SHIFT(argument);
    if (shift < SHIFT_LEAST || shift > SHIFT_MOST || !(address >> shift))
        return true;
    if (!s->count)
        s->shift = shift;
    if (s->shift != shift)
        return true;
    const uint32_t i = heap_index(s, address >> shift);
    if (i != UINT32_MAX)
        s->of[i].arena = MLW_HEAP_ARENA(argument);
    return i != UINT32_MAX;
}

/* ---- blocks ---- */

/* The thread had a block of that heap; of the main arena: 0. */
static void note_thread(struct seen_thread *t, uint32_t heap, uint64_t usable_bytes)
{
    const bool sure = usable_bytes > GLIBC_SMALL_MOST;
    if (!sure && (t->sure || !heap))
        return;
    t->heap = heap;
    t->sure = sure;
}

bool seen_heaps_note(struct seen_heaps *s, uint64_t address, uint64_t usable_bytes, uint32_t thread)
{
    const uint64_t number = address >> s->shift, end = address + usable_bytes;
    const struct seen_thread *const mine = thread >= s->threads ? NULL : &s->thread[thread];
    if (!number)
        return true;
    const uint32_t heap = mine && mine->heap && s->of[mine->heap - 1].number == number
                              ? mine->heap - 1
                              : heap_index(s, number);
    if (heap == UINT32_MAX)
        return false;
    if (end > s->of[heap].end)
        s->of[heap].end = end;
    if (address - PINNED_HEADER_BYTES < s->of[heap].begin)
        s->of[heap].begin = address - PINNED_HEADER_BYTES;
    if (mine)
        note_thread(&s->thread[thread], heap + 1, usable_bytes);
    return true;
}

const struct seen_part *seen_heaps_note_main(struct seen_heaps *s, uint64_t address,
                                             uint64_t usable_bytes, uint32_t thread)
{
    struct seen_part *const part = s->part_count ? part_at(s, address) : NULL;
    if (part && address + usable_bytes > part->high)
        part->high = address + usable_bytes;
    if (thread < s->threads)
        note_thread(&s->thread[thread], 0, usable_bytes);
    return part;
}

/* ---- arenas ---- */

static void add_to_arena(struct pinned_arena *a, const struct pinned_heap *h)
{
    a->live_blocks += h->live_blocks;
    a->live_bytes += h->live_bytes;
    a->header_bytes += h->header_bytes;
    a->pinned_bytes += h->pinned_bytes;
    a->between_bytes += h->between_bytes;
    a->before_bytes += h->before_bytes;
    a->cached_bytes += h->cached_bytes;
    a->span_bytes += h->span_bytes;
}

static int compare_heap_values(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* The arenas of the heaps, by address, each once; the one that is not known last. How many. */
static size_t list_arenas(const struct seen_heaps *s, uint64_t *list)
{
    size_t n = 0;
    for (uint32_t i = 0; i < s->count; i++)
        list[i] = s->of[i].arena ? s->of[i].arena : PINNED_ARENA_UNKNOWN;
    if (s->count)
        qsort(list, s->count, sizeof *list, compare_heap_values);
    for (uint32_t i = 0; i < s->count; i++)
        if (!n || list[n - 1] != list[i])
            list[n++] = list[i];
    return n;
}

/* The index of a heap's arena in p: 0, the main one, of no heap. */
static uint32_t arena_of(const struct seen_heaps *s, const uint64_t *list, size_t n, uint32_t heap)
{
    if (heap == UINT32_MAX)
        return 0;
    const uint64_t arena = s->of[heap].arena ? s->of[heap].arena : PINNED_ARENA_UNKNOWN,
                   *const at = bsearch(&arena, list, n, sizeof *list, compare_heap_values);
    return at ? (uint32_t)(at - list) + 1 : 0;
}

bool seen_heaps_arenas(const struct seen_heaps *s, const struct trace_image *image,
                       struct pinned *p)
{
    uint64_t *const list = calloc((size_t)s->count + 1, sizeof *list);
    const size_t n = list ? list_arenas(s, list) : 0;
    p->arenas = calloc(n + 1, sizeof *p->arenas);
    p->arena_of = calloc((size_t)image->thread_count + 1, sizeof *p->arena_of);
    const bool done = list && p->arenas && p->arena_of;
    if (done) {
        p->arena_count = n + 1;
        for (size_t i = 0; i < n; i++)
            p->arenas[i + 1].address = list[i] == PINNED_ARENA_UNKNOWN
                                           ? PINNED_ARENA_UNKNOWN
                                           : list[i] >> s->shift << s->shift;
        for (uint32_t i = 0; i < s->count; i++) {
            struct pinned_arena *const a = &p->arenas[arena_of(s, list, n, i)];
            a->heaps++;
            if (s->of[i].end)
                a->extent_bytes += s->of[i].end - heap_address(s, i);
        }
        for (size_t i = 0; i < p->count; i++) {
            const struct pinned_heap *const h = &p->heaps[i];
            const uint32_t seen =
                h->kind == PINNED_ARENA ? seen_heaps_find(s, h->address) : UINT32_MAX;
            add_to_arena(&p->arenas[arena_of(s, list, n, seen)], h);
        }
        for (uint32_t i = 0; i < image->thread_count && i < s->threads; i++) {
            p->arena_of[i] = arena_of(s, list, n, s->thread[i].heap - 1);
            p->arenas[p->arena_of[i]].threads++;
        }
        p->arenas[0].heaps = p->sum[PINNED_MAIN].address;
        p->arena_heap_bytes = s->count ? (uint64_t)1 << s->shift : 0;
    }
    free(list);
    return done;
}

/* ---- what has no blocks ---- */

static uint64_t pages_between(uint64_t begin, uint64_t end)
{
    return end > begin ? pinned_page_up(end) - pinned_page_up(begin) : 0;
}

/* The bytes of a heap below a thread's cache, as far as there ever was a block. */
static uint64_t heap_held_bytes(const struct seen_heap *h)
{
    return pages_between(h->begin, h->cache_end < h->end ? h->cache_end : h->end);
}

uint64_t seen_heaps_empty(const struct seen_heaps *s, const struct pinned *p, uint64_t *held_bytes)
{
    uint64_t bytes = 0;
    *held_bytes = 0;
    for (uint32_t i = 0; i < s->count; i++) {
        bytes += pages_between(s->of[i].begin, s->of[i].end);
        *held_bytes += heap_held_bytes(&s->of[i]);
    }
    for (size_t i = 0; i < p->count; i++) {
        const struct pinned_heap *h = &p->heaps[i];
        const uint32_t seen = h->kind == PINNED_ARENA ? seen_heaps_find(s, h->address) : UINT32_MAX;
        if (seen == UINT32_MAX)
            continue;
        bytes -= pages_between(s->of[seen].begin, s->of[seen].end);
        *held_bytes -= heap_held_bytes(&s->of[seen]);
    }
    return bytes;
}

uint64_t seen_heaps_empty_parts(const struct seen_heaps *s, const struct pinned *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->part_count; i++)
        bytes += pages_between(s->parts[i].start, s->parts[i].high);
    for (size_t i = 0; i < p->count; i++) {
        const struct seen_part *const part =
            p->heaps[i].kind == PINNED_MAIN ? seen_heaps_part(s, p->heaps[i].end - 1) : NULL;
        bytes -= part ? pages_between(part->start, part->high) : 0;
    }
    return bytes;
}
