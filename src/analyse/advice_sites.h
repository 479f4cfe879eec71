/* advice_sites.h - call sites that a remedy can be about, and what a heap would be without them.
 *
 * Owns: which call sites keep or hold most at a moment, and the pages that would be free if the
 * blocks of one were elsewhere. Pure functions of the findings of pinned.h. */
#ifndef MALLOW_ANALYSE_ADVICE_SITES_H
#define MALLOW_ANALYSE_ADVICE_SITES_H

#include "analyse/pinned.h"

#define ADVICE_POOLS      3u  /* call sites that a pool is looked at for */
#define ADVICE_SITES_MOST 64u /* that are distinguished */

/* The call site of each stack: stacks of one call site have one number. */
struct advice_sites {
    uint32_t (*site)(void *arg, uint32_t stack);
    void *arg;
};

struct advice_site {      /* stacks of the same call site */
    uint32_t site, stack; /* stack: the one with most */
    uint64_t bytes;       /* the bytes of the figure */
    uint64_t blocks, live_bytes;
    uint64_t mapped_bytes;            /* the live bytes that have mappings of their own */
    uint64_t most_low, most_high;     /* in heaps at once, ever until then: between these */
    uint64_t heap_bytes, below_bytes; /* in heaps now; whole free pages below its blocks */
    uint64_t alone_bytes;             /* pages with its blocks and no other's */
    uint64_t above_bytes; /* in each heap the pages above the highest block of another call site,
                             where that is enough for glibc to give it back; a few blocks that
                             were made when much had been freed would have found room below */
};

struct advice_found {
    struct advice_site pools[ADVICE_POOLS]; /* [pool_count] that keep most free memory, in order */
    size_t pool_count;
    struct advice_site live; /* with the most live bytes; blocks 0: there is none */
};

/* A figure of a stack. */
typedef uint64_t advice_figure(const struct pinned_stack *s);
uint64_t advice_mapped(const struct pinned_stack *s);

/* The call site with most of a figure; false when none has any. What only addresses say is 0. */
bool advice_site_first(const struct pinned *p, const struct advice_sites *sites,
                       advice_figure *figure, struct advice_site *first);

/* Adds a moment, as a pinned_visit gets it. trim_bytes: how much must be free at the top of a heap
 * for glibc to give it back; UINT64_MAX: not known. */
void advice_sites_find(const struct trace_image *image, const struct pinned *p,
                       const struct pinned_block *blocks, size_t count,
                       const struct advice_sites *sites, uint64_t trim_bytes,
                       struct advice_found *found);

#endif
