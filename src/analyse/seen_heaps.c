#include "analyse/seen_heaps.h"

#include <stdlib.h>

#include "base/array.h"

bool seen_heaps_begin(struct seen_heaps *s, uint32_t threads)
{
    s->threads = threads;
    s->heap_of = calloc((size_t)threads + 1, sizeof *s->heap_of);
    return s->heap_of != NULL;
}

void seen_heaps_release(struct seen_heaps *s)
{
    free(s->of);
    index_release(&s->by_number);
    free(s->heap_of);
    *s = (struct seen_heaps){0};
}

uint32_t seen_heaps_find(const struct seen_heaps *s, uint64_t number)
{
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&s->by_number, number, &at)) != INDEX_NONE;)
        if (s->of[i].number == number)
            return i;
    return UINT32_MAX;
}

/* Index of the heap, which may be new; UINT32_MAX without memory. */
static uint32_t heap_index(struct seen_heaps *s, uint64_t number)
{
    uint32_t i = seen_heaps_find(s, number);
    if (i != UINT32_MAX)
        return i;
    i = s->count;
    if (!ARRAY_ROOM(s->of, (size_t)i + 1, s->room) || !index_add(&s->by_number, number, i))
        return UINT32_MAX;
    s->of[i] = (struct seen_heap){number, UINT64_MAX, 0, i};
    s->count++;
    return i;
}

static uint32_t arena_root(const struct seen_heaps *s, uint32_t heap)
{
    while (s->of[heap].parent != heap) {
        struct seen_heap *h = &s->of[heap];
        heap = h->parent = s->of[h->parent].parent; /* the way is half as long the next time */
    }
    return heap;
}

bool seen_heaps_note(struct seen_heaps *s, uint64_t address, uint64_t usable_bytes, uint32_t thread)
{
    const uint64_t number = address / SEEN_HEAP_BYTES, end = address + usable_bytes;
    uint32_t *mine = thread >= s->threads ? NULL : &s->heap_of[thread];
    if (!number)
        return true;
    uint32_t heap =
        mine && *mine && s->of[*mine - 1].number == number ? *mine - 1 : heap_index(s, number);
    if (heap == UINT32_MAX)
        return false;
    if (end > s->of[heap].end)
        s->of[heap].end = end;
    if (address - PINNED_HEADER_BYTES < s->of[heap].begin)
        s->of[heap].begin = address - PINNED_HEADER_BYTES;
    if (!mine || *mine == heap + 1)
        return true;
    if (*mine)
        s->of[arena_root(s, *mine - 1)].parent = arena_root(s, heap);
    *mine = heap + 1;
    return true;
}

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

struct arena_place { /* of a root */
    uint64_t address;
    uint32_t root;
};

static int by_place(const void *a, const void *b)
{
    const struct arena_place *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

bool seen_heaps_arenas(struct seen_heaps *s, const struct trace_image *image, struct pinned *p)
{
    struct arena_place *places = calloc((size_t)s->count + 1, sizeof *places);
    uint32_t *arena = calloc((size_t)s->count + 1, sizeof *arena); /* of a heap; 0: not yet */
    size_t n = 0;
    for (uint32_t i = 0; places && arena && i < s->count; i++) {
        const uint32_t root = arena_root(s, i);
        const uint64_t address = s->of[i].number * SEEN_HEAP_BYTES;
        if (!arena[root]) {
            places[n] = (struct arena_place){address, root};
            arena[root] = (uint32_t)++n;
        } else if (address < places[arena[root] - 1].address) {
            places[arena[root] - 1].address = address;
        }
    }
    if (places && n)
        qsort(places, n, sizeof *places, by_place);
    p->arenas = calloc(n + 1, sizeof *p->arenas);
    p->arena_of = calloc((size_t)image->thread_count + 1, sizeof *p->arena_of);
    const bool done = places && arena && p->arenas && p->arena_of;
    if (done) {
        p->arena_count = n + 1;
        for (uint32_t i = 0; i < n; i++) {
            arena[places[i].root] = i + 1;
            p->arenas[i + 1].address = places[i].address;
        }
        for (uint32_t i = 0; i < s->count; i++) {
            struct pinned_arena *a = &p->arenas[arena[arena_root(s, i)]];
            a->heaps++;
            a->extent_bytes += s->of[i].end - s->of[i].number * SEEN_HEAP_BYTES;
        }
        for (size_t i = 0; i < p->count; i++) {
            const struct pinned_heap *h = &p->heaps[i];
            const uint32_t seen = h->kind == PINNED_ARENA
                                      ? seen_heaps_find(s, h->address / SEEN_HEAP_BYTES)
                                      : UINT32_MAX;
            add_to_arena(&p->arenas[seen == UINT32_MAX ? 0 : arena[arena_root(s, seen)]], h);
        }
        for (uint32_t i = 0; i < image->thread_count; i++) {
            p->arena_of[i] = s->heap_of[i] ? arena[arena_root(s, s->heap_of[i] - 1)] : 0;
            p->arenas[p->arena_of[i]].threads++;
        }
        p->arenas[0].heaps = p->sum[PINNED_MAIN].address;
    }
    free(places);
    free(arena);
    return done;
}

static uint64_t pages_of(const struct seen_heap *h)
{
    return pinned_page_up(h->end) - pinned_page_up(h->begin);
}

uint64_t seen_heaps_empty(const struct seen_heaps *s, const struct pinned *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->count; i++)
        bytes += pages_of(&s->of[i]);
    for (size_t i = 0; i < p->count; i++) {
        const struct pinned_heap *h = &p->heaps[i];
        const uint32_t seen =
            h->kind == PINNED_ARENA ? seen_heaps_find(s, h->address / SEEN_HEAP_BYTES) : UINT32_MAX;
        bytes -= seen == UINT32_MAX ? 0 : pages_of(&s->of[seen]);
    }
    return bytes;
}
