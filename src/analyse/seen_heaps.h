/* seen_heaps.h - the heaps of glibc's arenas, but for the main one, that blocks were seen in.
 *
 * Owns: where each begins and ends, as far as blocks say; which of them are of one arena: those
 * that the same thread allocated from; and the arenas of a moment. Memory: 32 bytes a heap, 4 a
 * thread. One thread. */
#ifndef MALLOW_ANALYSE_SEEN_HEAPS_H
#define MALLOW_ANALYSE_SEEN_HEAPS_H

#include "analyse/pinned_state.h"
#include "base/index.h"
#include "trace/trace.h"

#define SEEN_HEAP_BYTES ((uint64_t)1 << PINNED_HEAP_SHIFT)

/* Heaps of one arena are linked: parent leads to one of them. */
struct seen_heap {
    uint64_t number;     /* address / SEEN_HEAP_BYTES; 0: no heap */
    uint64_t begin, end; /* of the lowest and the highest block ever */
    uint32_t parent;     /* index; its own: none */
};

struct seen_heaps {
    struct seen_heap *of; /* [count] */
    uint32_t count, room;
    struct index by_number;
    uint32_t *heap_of; /* [threads] index + 1 of the heap that it allocated from last */
    uint32_t threads;
};

/* s begins zeroed; false without memory, then it is to be released anyway. */
bool seen_heaps_begin(struct seen_heaps *s, uint32_t threads);
void seen_heaps_release(struct seen_heaps *s);

/* A block of such a heap. thread: that made it; UINT32_MAX: not known. False without memory. */
bool seen_heaps_note(struct seen_heaps *s, uint64_t address, uint64_t usable_bytes,
                     uint32_t thread);
/* Index of the heap; UINT32_MAX when none of that number was seen. */
uint32_t seen_heaps_find(const struct seen_heaps *s, uint64_t number);

/* Bytes of the pages of heaps that have no block in p->heaps, as far as there ever were some. */
uint64_t seen_heaps_empty(const struct seen_heaps *s, const struct pinned *p);
/* Puts the heaps together to the arenas of p. False without memory. */
bool seen_heaps_arenas(struct seen_heaps *s, const struct trace_image *image, struct pinned *p);

#endif
