/* walk.h - every block of a glibc heap, and the proof that these are all.
 *
 * Owns: following the chunks of every arena from the first to the top, blocks with a mapping of
 * their own, and taking what lies in fast lists and threads' caches off the used bytes. The proof:
 * each arena's chunks reach its end and add up to what it had from the system, free chunks agree
 * with their neighbors, mapped blocks agree with the allocator's own count. One thread. */
#ifndef MALLOW_HEAP_WALK_H
#define MALLOW_HEAP_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "heap/blocks.h"
#include "heap/glibc.h"
#include "remote/target.h"

enum walk_segment_kind { SEGMENT_MAIN, SEGMENT_HEAP, SEGMENT_MAPPED, SEGMENT_EXACT };

struct walk_segment {    /* a run of chunks without a gap */
    uint64_t first, end; /* the address of the first chunk's header; the end of the last */
    uint64_t base;  /* where the memory begins; the bytes before `first` belong to the allocator */
    uint32_t arena; /* index; of SEGMENT_MAPPED: none */
    enum walk_segment_kind kind;
    uint32_t first_block, end_block; /* numbers, once walked */
    size_t exact, exact_end;         /* SEGMENT_EXACT: of walk.exact */
    bool lent; /* SEGMENT_MAPPED: since 2.43, two words at the end are kept back */
};

struct walk_arena {
    uint64_t address, system_bytes, attached_threads;
    uint64_t used_blocks, used_bytes; /* the program's blocks; bytes that it may use */
    uint64_t free_blocks, free_bytes; /* as of mallinfo2's fordblks: lists, fast lists, top */
    uint64_t top_bytes;
    uint64_t cached_blocks, cached_bytes; /* in threads' caches; not counted in the figures above */
    uint64_t own_bytes;                   /* headers, fences, the arena itself, caches */
    uint32_t heaps;
    bool main;
};

struct walk {
    struct blocks blocks;
    struct walk_segment *segments; /* by address */
    size_t segment_count, segment_room;
    struct walk_arena *arenas; /* as of struct glibc */
    size_t arena_count;
    uint64_t mapped_blocks, mapped_bytes; /* used; bytes: what the program may use */
    uint64_t mapped_system_bytes;
    struct walk_exact {
        uint64_t address, bytes;
    } * exact; /* blocks without headers: of Python's pools, or all that a recording knows */
    size_t exact_count, exact_room;
    uint64_t exact_blocks, exact_bytes;
    uint64_t exact_left_out; /* blocks that overlap others, or are too small to be examined */
    uint64_t sampled_blocks, sampled_bytes; /* those of the exact ones that a library samples */
    uint64_t pool_bytes;  /* Python's pools: exact_bytes, free blocks and headers */
    uint64_t caches;      /* caches of threads that were found */
    bool verified, lacks; /* lacks: some of the memory was not read */
    char reason[256];     /* why not verified */
};

/* Fills *w. sampled: blocks that may lie outside glibc's heap. threads: how many read at once.
 * Returns 0, also if the heap could not be verified; -1 with *err without memory, or if there is
 * nothing to walk. The caller calls walk_release in all cases. */
struct heap_sampled; /* sampled.h */
int walk_heap(struct walk *w, struct target *t, const struct glibc *g,
              const struct modules *modules, const struct heap_sampled *sampled, unsigned threads,
              struct error *err);
void walk_release(struct walk *w);

/* For the files of the walk: notes why the heap is not verified; the first reason counts. */
void walk_doubt(struct walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* As walk_doubt, for memory that was not read. */
void walk_lacks(struct walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
int walk_add_segment(struct walk *w, const struct walk_segment *s);

/* parts.c: adds the segments of a main arena that is not contiguous, once those of other arenas are
 * known. -1: out of memory. */
struct headers;
int walk_find_parts(struct walk *w, struct target *t, const struct glibc *g,
                    struct headers *headers);
/* mapped.c: finds the next run of private writable memory from region *at on, and moves *at
 * behind it. Returns false at the end. *brk: true if brk made the run; brk NULL: skip such runs. */
bool walk_next_memory(const struct target *t, size_t *at, bool *brk, uint64_t *start,
                      uint64_t *end);
/* mapped.c: adds a segment for each block with a mapping of its own. -1: out of memory. */
int walk_find_mapped(struct walk *w, struct target *t, const struct glibc *g);
/* exact.c: notes a block without a header. -1: out of memory. */
int walk_add_exact(struct walk *w, uint64_t address, uint64_t bytes);
/* exact.c: adds segments for the blocks that were noted. -1: out of memory. */
int walk_exact_segments(struct walk *w);
/* exact.c: numbers the blocks of such a segment. -1: out of memory. */
int walk_exact(struct walk *w, struct walk_segment *s);
/* exact.c: takes the blocks that a recording knows, of any allocator, instead of walk_heap.
 * Returns -1 without memory. */
struct heap_recorded;
int walk_recording(struct walk *w, const struct heap_recorded *recorded);
/* exact.c: notes the samples that lie in none of the segments that were found. -1: out of memory.
 */
int walk_note_sampled(struct walk *w, const struct heap_sampled *s);
/* python_pools.c: notes the blocks of Python's own allocator, if there is one. -1: out of memory.
 */
int walk_find_pools(struct walk *w, struct target *t, const struct modules *modules);
/* cached.c: marks the blocks in fast lists and in threads' caches. -1: out of memory. */
int walk_mark_cached(struct walk *w, struct target *t, const struct glibc *g);

#endif
