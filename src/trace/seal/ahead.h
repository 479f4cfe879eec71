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
    struct merge_row *next, *end; /* the rows at hand; who takes one moves `next` */
};

/* Without rows at hand: gets some. 1, 0 at the end, -1 with *err. */
int ahead_fill(struct ahead *a, struct error *err);

/* Fetches what the rows behind `r`, which are at hand, need of `live`: first places, then blocks.
 * That does not pay when the caches hold all of it. */
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

/* The next row is a release of a block that is not there, or an allocation of one that still is.
 * Two processors' clocks may disagree by a little, and a processor may read its clock before older
 * loads are done; so, when another thread's row that makes it right is at most a microsecond
 * behind, the row and what its stream does up to there are put behind that row, with that row's
 * clock. True when another row is next, or the same one at another place. */
bool ahead_put_off(struct ahead *a, const struct timebase *t);

#endif
