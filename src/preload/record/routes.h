/* routes.h - which way a call took inside glibc's allocator: its own state before and after.
 *
 * Owns: the look before the real call, and the class that follows from it afterwards (enum
 * mlw_route). The places of glibc's state are found once, by layouts that versions.h has, and each
 * word is checked before it is believed; until then routes are UNKNOWN, or the ones that are sure.
 * Looked at are the thread's own cache, and words of arenas, which glibc never unmaps; chunks are
 * not followed. So what another thread does in the same arena in the same moment may be taken for
 * this call's. Any thread, in a call that is recorded; no system call, no lock. */
#ifndef MALLOW_PRELOAD_RECORD_ROUTES_H
#define MALLOW_PRELOAD_RECORD_ROUTES_H

#include "recorder.h"

/* The state before a call; 0: that is not there. */
struct route {
    uint64_t cache, count; /* the thread's cache; the counter of the bin that the size belongs to */
    uint64_t chunk, bytes; /* the block to be released; of one to be made, bytes only */
    uint64_t arena;        /* the thread's, or that of the block to be released */
    uint64_t top, system, end; /* the arena's top and bytes, the program break */
    uint64_t fast, small, newest, oldest, remainder; /* chunks that the next call may get */
    uint32_t bin;                                    /* a bin of the cache */
    bool may_consolidate, known; /* fast bins hold chunks; the state was looked at */
    bool mapped, merges;         /* the block: has its own mapping; free memory lies before it */
    bool stays;                  /* set after the call: a realloc left the block where it was */
};

/* Once, when the process joins. */
HIDDEN void routes_begin(void);

HIDDEN void route_before_making(struct route *r, uint64_t size, bool plain);
HIDDEN void route_before_release(struct route *r, const void *p);
/* path: enum mlw_path of the block. */
HIDDEN unsigned route_of_made(const struct route *r, const void *p, unsigned path);
HIDDEN unsigned route_of_released(const struct route *r);

#endif
