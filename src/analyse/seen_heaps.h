/* seen_heaps.h - the heaps of glibc's arenas that blocks were seen in.
 *
 * Owns: where each begins and ends, as far as blocks say; which of them are of one arena, as glibc
 * says itself (mlw_heap_said); the memory of the main arena that brk did not make; which arena each
 * thread has; and the arenas of a moment. A heap that did not say is of an arena that is not known:
 * nothing is guessed. Memory: 48 bytes a heap, 24 a part of the main arena, 8 a thread. One thread.
 */
#ifndef MALLOW_ANALYSE_SEEN_HEAPS_H
#define MALLOW_ANALYSE_SEEN_HEAPS_H

#include "analyse/pinned_state.h"
#include "base/index.h"
#include "trace/trace.h"

#define SEEN_PARTS_MOST 4096u

struct seen_heap {
    uint64_t number;     /* address >> shift; 0: no heap */
    uint64_t begin, end; /* bounds of the lowest and the highest block ever */
    uint64_t arena;      /* its address; 0: not known */
    uint64_t cache_end;  /* see pinned_heap */
};

struct seen_part {       /* memory of the main arena that brk did not make */
    uint64_t start, end; /* all of it is the arena's */
    uint64_t high;       /* end of the highest block ever; at least start */
};

struct seen_thread {
    uint32_t heap; /* index + 1 of the heap of another arena that it had a block from last; 0: of
                      the main one */
    bool cached;   /* it has freed a block that its cache takes */
    bool sure;     /* the block was too large to come from a cache, which has those of any arena */
};

struct seen_heaps {
    struct seen_heap *of; /* [count] */
    uint32_t count, room;
    unsigned shift; /* the shift of the size of a heap */
    struct index by_number;
    struct seen_part *parts; /* [part_count], by address */
    uint32_t part_count, part_room;
    struct seen_thread *thread; /* [threads] */
    uint32_t threads;
};

/* s begins zeroed; false without memory, then it is to be released anyway. */
bool seen_heaps_begin(struct seen_heaps *s, uint32_t threads);
void seen_heaps_release(struct seen_heaps *s);

/* A row of that block has MLW_PATH_HEAP_NEW and this argument. other: of another arena than the
 * main one. False without memory. */
bool seen_heaps_said(struct seen_heaps *s, uint64_t address, bool other, uint64_t argument);
/* A block of a heap of another arena than the main one. thread: that made it; UINT32_MAX: not
 * known. False without memory. */
bool seen_heaps_note(struct seen_heaps *s, uint64_t address, uint64_t usable_bytes,
                     uint32_t thread);
/* A block of the main arena. The part that it lies in; NULL: in what brk made. */
const struct seen_part *seen_heaps_note_main(struct seen_heaps *s, uint64_t address,
                                             uint64_t usable_bytes, uint32_t thread);
/* Index of the heap of a block of another arena; UINT32_MAX when none was seen there. */
uint32_t seen_heaps_find(const struct seen_heaps *s, uint64_t address);
/* The part of the main arena that a block of it lies in; NULL: it is in what brk made. */
const struct seen_part *seen_heaps_part(const struct seen_heaps *s, uint64_t address);

/* Bytes of the pages of heaps, and of parts of the main arena, that have no block in p->heaps, as
 * far as there ever were some. */
uint64_t seen_heaps_empty(const struct seen_heaps *s, const struct pinned *p,
                          uint64_t *held_bytes); /* the held part of them: see pinned_heap */
uint64_t seen_heaps_empty_parts(const struct seen_heaps *s, const struct pinned *p);
/* Puts the heaps together to the arenas of p. False without memory. */
bool seen_heaps_arenas(const struct seen_heaps *s, const struct trace_image *image,
                       struct pinned *p);

#endif
