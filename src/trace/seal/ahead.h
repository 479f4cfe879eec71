/* ahead.h - the merged rows of an image a little before they are due.
 *
 * Owns: the rows at hand, between the merge and what each of them means, so that the memory which
 * they need is on its way, and so that a call can be judged by what comes behind it. One thread. */
#ifndef MALLOW_TRACE_SEAL_AHEAD_H
#define MALLOW_TRACE_SEAL_AHEAD_H

#include "feed.h"
#include "live.h"
#include "trace/timebase.h"

struct ahead {
    struct feed *feed;
    struct merge_row *next, *end; /* the rows at hand; the caller that takes one moves `next` */
};

/* Gets rows when none are at hand. Returns 1, 0 at the end, or -1 with *err. */
int ahead_fill(struct ahead *a, struct error *err);

/* Fetches the parts of `live` that the rows behind `r` need: first places, then blocks. It does
 * not pay while the processor's caches hold all of it. */
#define AHEAD_PLACES 32
#define AHEAD_BLOCKS 12
FETCHES ahead_prefetch(const struct ahead *a, const struct merge_row *r, const struct live *live)
{
    if (!live_is_far(live))
        return;
    if (a->end - r > AHEAD_PLACES)
        live_prefetch(live, r[AHEAD_PLACES].row.address);
    if (a->end - r > AHEAD_BLOCKS)
        live_prefetch_block(live, r[AHEAD_BLOCKS].row.address);
}

/* Puts off the next row, which releases a block that is not live, or allocates one that still
 * is. Processors' clocks may disagree a little, and a processor may read its clock before older
 * loads are done. So if another thread's row at most a microsecond later resolves the
 * contradiction, this row, and the rows of its stream up to there, move behind that row and get
 * its clock. Returns true if a->next has changed. */
bool ahead_put_off(struct ahead *a, const struct timebase *t);

#endif
