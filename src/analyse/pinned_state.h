/* pinned_state.h - what pinned.h finds at a moment: plain data. */
#ifndef MALLOW_ANALYSE_PINNED_STATE_H
#define MALLOW_ANALYSE_PINNED_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analyse/highest.h"
#include "analyse/pinned_stacks.h"
#include "arch/page.h"

#define PINNED_PAGE_BYTES   ((uint32_t)ARCH_PAGE_BYTES)
#define PINNED_HEADER_BYTES 8u /* glibc: of a chunk in use; the rest lies in its neighbors */

/* The address, or the next one that a page begins at. */
static inline uint64_t pinned_page_up(uint64_t address)
{
    return (address + PINNED_PAGE_BYTES - 1) & ~(uint64_t)(PINNED_PAGE_BYTES - 1);
}

enum pinned_kind { PINNED_MAIN, PINNED_ARENA, PINNED_OTHER, PINNED_KINDS };

struct pinned_heap {
    enum pinned_kind kind;
    uint64_t address; /* PINNED_ARENA: where the heap begins; else the lowest block's page */
    uint64_t end;     /* where its highest block or cached chunk ends now; in a sum: 0 */
    uint64_t live_blocks;
    uint64_t live_bytes;   /* usable */
    uint64_t header_bytes; /* the headers of these blocks: 8 bytes each with glibc */
    uint64_t span_bytes;   /* from the first to the last of the pages from the lowest to the highest
                              block */
    uint64_t pinned_bytes; /* free on pages with live blocks */
    uint64_t between_bytes; /* whole free pages between blocks */
    uint64_t before_bytes;  /* and below the lowest block, as far down as there ever was one */
    uint64_t cached_bytes;  /* chunks in the caches of threads, headers included: see pinned_new */
    uint64_t above_bytes;   /* whole pages above the highest block, up to where one ever ended; in a
                               sum those of heaps without blocks as well */
    uint64_t cache_end;  /* at most where the chunk ends that is a thread's cache itself, if it was
                            made after blocks of this heap; 0: there is none, or it is not known;
                            of a sum: 0 */
    uint64_t held_bytes; /* the part of above_bytes below that chunk, which glibc keeps by itself */
};

#define PINNED_ARENA_UNKNOWN UINT64_MAX
struct pinned_arena {                 /* glibc */
    uint64_t address;                 /* the address of its first heap; 0: the main arena;
                                         PINNED_ARENA_UNKNOWN: heaps whose arenas are not known */
    uint64_t heaps;                   /* that it has had */
    uint64_t live_blocks, live_bytes; /* usable */
    uint64_t header_bytes, pinned_bytes, between_bytes, before_bytes,
        span_bytes; /* sums of its heaps */
    uint64_t cached_bytes;
    uint64_t extent_bytes; /* to the end of the highest block that was ever in each of its heaps */
    uint64_t threads;      /* that allocated from it last */
};

#define PINNED_PLACES 4u /* see enum mlw_path: 1 a mapping of its own, 2 not the main arena */

#define PINNED_RANKED 256u /* stacks that are kept of those that ever held most */

struct pinned {
    uint64_t time_ns;
    bool glibc;
    bool unknown_version; /* glibc: what its caches and fastbins keep is left out */
    uint64_t live_blocks, requested_bytes; /* all blocks, those with their own mapping too */
    uint64_t usable_bytes[PINNED_PLACES];  /* their usable bytes by place */
    uint64_t heap_most_bytes; /* glibc: chunks of all blocks in heaps at once, until then */
    uint64_t
        small_most_bytes; /* the largest of those that are too small for a mapping by default */
    uint64_t large_most_bytes,
        large_bytes;             /* the most that the others had, and what they have now */
    uint64_t fast_bytes;         /* glibc: at most so much was ever in fastbins until then */
    uint64_t arena_heap_bytes;   /* glibc: heaps of other arenas begin at multiples of it; 0:
                                    there are none */
    struct pinned_arena *arenas; /* [arena_count], the main arena first, then by address */
    size_t arena_count;
    uint32_t *arena_of;        /* [image->thread_count]: its arena's index; the main arena's for
                                  those that never had another */
    struct pinned_heap *heaps; /* [count], by address */
    size_t count;
    struct pinned_heap sum[PINNED_KINDS]; /* true: all heaps of a kind in one; address: how many */
    struct pinned_stacks stacks;          /* with live blocks or cached chunks */
    struct highest_stack *highest;        /* [highest_count] glibc: those that ever held most until
                                             then, of equals the first; not stack 0 */
    size_t highest_count;
};

/* How many arenas are known; heaps of others, if there are any, are in one more, the last. */
static inline size_t pinned_known_arenas(const struct pinned *p)
{
    const size_t n = p->arena_count;
    return n && p->arenas[n - 1].address == PINNED_ARENA_UNKNOWN ? n - 1 : n;
}

#endif
