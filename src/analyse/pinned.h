/* pinned.h - where the free memory between live blocks lies, and which call sites' blocks keep it.
 *
 * Made from the addresses of the blocks that are live at one moment. A page with a live block on it
 * stays resident whatever else was freed there: its free bytes are pinned, in equal shares, by the
 * blocks on it. Whole free pages below a live block are given back only on request (malloc_trim),
 * or when that block and all above it are gone: they count as below it. Known are addresses, not
 * which pages are resident.
 *
 * With glibc, heaps are distinguished: the program break's, and those of other arenas, which begin
 * at multiples of 64 MiB. Of other allocators nothing is known but pages: all is one heap, and free
 * pages between blocks are not counted. Blocks with a mapping of their own are left out. Heaps that
 * the same thread allocated from are of one arena: a thread keeps to its arena. An arena is known
 * from its first block on, whether any of its blocks are live or not. Memory: 32 bytes for each
 * block live at one time, three times while a moment is worked out; 80 for each moment and stack
 * with blocks then. One thread. */
#ifndef MALLOW_ANALYSE_PINNED_H
#define MALLOW_ANALYSE_PINNED_H

#include "analyse/highest.h"
#include "analyse/pinned_stacks.h"
#include "arch/page.h"
#include "base/error.h"
#include "trace/trace.h"

#define PINNED_PAGE_BYTES ((uint32_t)ARCH_PAGE_BYTES)
#define PINNED_HEAP_SHIFT 26 /* glibc: HEAP_MAX_SIZE, 64 MiB on 64-bit machines */

enum pinned_kind { PINNED_MAIN, PINNED_ARENA, PINNED_OTHER, PINNED_KINDS };

struct pinned_heap {
    enum pinned_kind kind;
    uint64_t address; /* PINNED_ARENA: where the heap begins; else the lowest block's page */
    uint64_t live_blocks;
    uint64_t live_bytes;    /* usable */
    uint64_t header_bytes;  /* of these blocks: 8 each with glibc */
    uint64_t span_bytes;    /* of the pages from the lowest to the highest block */
    uint64_t pinned_bytes;  /* free on pages with live blocks */
    uint64_t between_bytes; /* whole free pages between blocks */
    uint64_t before_bytes;  /* and below the lowest block, as far down as there ever was one */
    uint64_t
        cached_bytes; /* of chunks in the caches of threads, headers included: see pinned_new */
};

struct pinned_arena {                 /* glibc */
    uint64_t address;                 /* of its first heap; 0: the main arena */
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
    uint64_t live_blocks, requested_bytes; /* of all blocks, those with their own mapping too */
    uint64_t usable_bytes[PINNED_PLACES];  /* of them, by place */
    uint64_t heap_most_bytes;  /* glibc: chunks of all blocks in heaps at once, until then */
    uint64_t small_most_bytes; /* of those too small for a mapping by default */
    uint64_t large_most_bytes, large_bytes; /* of the others; and now */
    uint64_t fast_bytes;         /* glibc: at most so much was ever in fastbins until then */
    struct pinned_arena *arenas; /* [arena_count], the main arena first, then by address */
    size_t arena_count;
    uint32_t *arena_of;        /* [image->thread_count]: its arena's index; the main arena's for
                                  those that never had another */
    struct pinned_heap *heaps; /* [count], by address */
    size_t count;
    struct pinned_heap sum[PINNED_KINDS]; /* of the heaps of a kind; address: how many */
    struct pinned_stacks stacks;          /* with live blocks or cached chunks */
    struct highest_stack *highest;        /* [highest_count] glibc: those that ever held most until
                                             then, of equals the first; not stack 0 */
    size_t highest_count;
};

struct pinned_block { /* 32 bytes */
    uint64_t address, usable_bytes, size_bytes;
    uint32_t stack;
    uint8_t path; /* enum mlw_path */
    bool there;
    bool cached; /* not live: in a thread's cache */
    bool late;   /* glibc: made when the heaps had held a third more than they did then */
};

/* The columns that pinned_add needs. */
unsigned pinned_columns(void);

struct pinned_reader;
/* Moments, in the order of time, each just before the events of its times_ns[i]. The pointed-to
 * arrays must outlive the reader; results[i] is filled when its moment has come, and to be released
 * by the caller, on failure too: they begin zeroed. caches: chunks in the caches of glibc's threads
 * (tcache.h) count as in use, not as free. NULL with *err set. */
struct pinned_reader *pinned_new(const struct trace_image *image, const uint64_t *times_ns,
                                 struct pinned *results, size_t count, bool caches,
                                 struct error *err);
/* The state at a moment, and the blocks of which it was made, by address: those in heaps, without
 * overlaps, and cached chunks. All is valid until it returns. -1 with *err set ends the pass. */
typedef int pinned_visit(void *arg, size_t moment, const struct pinned *p,
                         const struct pinned_block *blocks, size_t count, struct error *err);
/* The same, with caches, for many moments: each is shown and forgotten. */
struct pinned_reader *pinned_visitor(const struct trace_image *image, const uint64_t *times_ns,
                                     size_t count, pinned_visit *visit, void *arg,
                                     struct error *err);
/* Shows each moment of pinned_new as well. */
void pinned_watch(struct pinned_reader *r, pinned_visit *visit, void *arg);
/* Within a visit of a reader without results: the state is the caller's, to be released. */
struct pinned pinned_take(struct pinned_reader *r);
/* The next batch of the image. 1: go on; 0: the last moment has come; -1 with *err set. */
int pinned_add(struct pinned_reader *r, const struct trace_batch *b, struct error *err);
/* Fills the rest, as of the end, and frees the reader. */
int pinned_finish(struct pinned_reader *r, struct error *err);
void pinned_discard(struct pinned_reader *r); /* NULL is fine */
void pinned_release(struct pinned *p);

#endif
