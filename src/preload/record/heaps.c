/* heaps.c - heaps of glibc that a process sees for the first time, in their own words. */
#include "recorder.h"

#include "glibc/versions.h"

#define SEEN_SLOTS   8192u
#define HEADER_BYTES 16u

/* Arenas, and heaps with their arenas, that this process has seen: open addressing, never removed.
 * A heap's word is odd. */
static volatile uint64_t seen[SEEN_SLOTS];
static volatile bool any_seen;

static uint64_t of_heap(uint64_t heap, uint64_t arena) { return heap ^ (arena >> 20 & ~15ul) ^ 1; }

/* True: it is among them. With `first` it is put there, and *first says that it was not there
 * before. False also when there is no room. */
static bool look_for_heap(uint64_t word, bool *first)
{
    const uint32_t at = (uint32_t)((word >> 4) * 0x9e3779b97f4a7c15u >> 40);
    if (first)
        *first = false;
    for (uint32_t i = 0; i < 64; i++) {
        volatile uint64_t *slot = &seen[(at + i) % SEEN_SLOTS];
        const uint64_t there = *slot;
        if (there == word)
            return true;
        if (there)
            continue;
        if (!first)
            return false;
        any_seen = true;
        if (__sync_bool_compare_and_swap(slot, 0, word)) {
            *first = true;
            return true;
        }
        if (*slot == word)
            return true;
    }
    return false;
}

/* True, where the size of heaps is not sure: that is one. It has an arena that it begins with, or
 * one that another began with, and no more memory than it may have. */
static bool is_glibc_heap(const struct glibc_heap *heap)
{
    const uint64_t arena = heap->arena;
    return heap->mapped <= next_facts.heap_bytes && heap->bytes <= heap->mapped &&
           (arena - (uint64_t)heap <= GLIBC_HEAD_BYTES || look_for_heap(arena, 0));
}

unsigned heaps_other(struct thread *t, const struct glibc_heap *heap, bool says)
{
    const uint64_t arena = heap->arena, bytes = heap->bytes;
    unsigned path = 0;
    bool first;
    if (next_facts.huge_heaps && !is_glibc_heap(heap))
        return 0;
    if (!says && !look_for_heap(of_heap((uint64_t)heap, arena), 0))
        return 0;
    look_for_heap(arena, &first);
    if (first)
        path |= MLW_PATH_ARENA_NEW;
    look_for_heap(of_heap((uint64_t)heap, arena), &first);
    if (first) {
        path |= MLW_PATH_HEAP_NEW;
        t->said = mlw_heap_said(arena, next_facts.heap_bytes);
    } else if (t->heap == (uint64_t)heap && bytes > t->heap_bytes)
        path |= MLW_PATH_HEAP_GREW;
    t->heap = (uint64_t)heap;
    t->heap_bytes = bytes;
    return path;
}

/* ---- the main arena's memory that brk did not make ---- */

static bool heap_is_known(const struct mlw_process *me, uint64_t p)
{
    uint32_t n = __atomic_load_n(&me->parts, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < MLW_PARTS; i++) {
        const uint64_t start = __atomic_load_n(&me->part[i].start, __ATOMIC_RELAXED);
        if (p - start < __atomic_load_n(&me->part[i].end, __ATOMIC_RELAXED) - start)
            return true;
    }
    return false;
}

/* False: there is no room. */
static bool add_heap(struct mlw_process *me, uint64_t start, uint64_t end)
{
    uint32_t n = __atomic_load_n(&me->parts, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < n && i < MLW_PARTS; i++) {
        if (__atomic_load_n(&me->part[i].start, __ATOMIC_RELAXED) == end) {
            __atomic_store_n(&me->part[i].start, start, __ATOMIC_RELAXED);
            return true;
        }
        if (__atomic_load_n(&me->part[i].end, __ATOMIC_RELAXED) == start) {
            __atomic_store_n(&me->part[i].end, end, __ATOMIC_RELAXED);
            return true;
        }
    }
    if (n >= MLW_PARTS)
        return false;
    n = __atomic_fetch_add(&me->parts, 1, __ATOMIC_ACQ_REL);
    if (n >= MLW_PARTS)
        return false;
    __atomic_store_n(&me->part[n].start, start, __ATOMIC_RELAXED);
    __atomic_store_n(&me->part[n].end, end, __ATOMIC_RELEASE);
    return true;
}

/* A chunk of the same memory lies behind a block: when the memory is new, it is all of the rest. */
unsigned heaps_main(struct thread *t, uint64_t p, uint64_t chunk, bool says)
{
    const uint64_t now = *recorder.break_at;
    unsigned path = 0;
    if (now != recorder.last_break) {
        recorder.last_break = now;
        path = MLW_PATH_SBRK;
    }
    struct mlw_process *const me = recorder.process;
    if (p <= now || !says || !me || heap_is_known(me, p))
        return path;
    const uint64_t start = p - HEADER_BYTES, behind = start + chunk,
                   end = behind + (((const uint64_t *)behind)[1] & ~7ul);
    if (end <= behind || !add_heap(me, start, end))
        return path;
    t->said = end;
    return path | MLW_PATH_HEAP_NEW;
}

void heaps_forked(void)
{
    if (any_seen)
        for (uint32_t i = 0; i < SEEN_SLOTS; i++)
            seen[i] = 0;
    any_seen = false;
}
