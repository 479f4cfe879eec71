/* ahead.h - the merged rows of an image a little before they are due.
 *
 * Owns: a short queue of rows between the merge and what each of them means, so that the memory
 * which they need is on its way, and so that a call can be judged by what comes behind it. One
 * thread. */
#ifndef MALLOW_TRACE_SEAL_AHEAD_H
#define MALLOW_TRACE_SEAL_AHEAD_H

#include "feed.h"
#include "live.h"
#include "trace/timebase.h"

#define AHEAD_ROWS 64u /* so many memory accesses are under way at a time */

struct ahead {
    struct feed *feed;
    const struct live *live;
    struct merge_row rows[AHEAD_ROWS]; /* a ring */
    uint64_t late;                     /* a bit for each place: it was put off */
    uint32_t first, count;
};

/* `live` is looked at, never changed, and `feed` read; both are the caller's and must outlive the
 * queue. NULL with *err. */
struct ahead *ahead_open(struct feed *feed, const struct live *live, struct error *err);
int ahead_fill(struct ahead *a, struct error *err); /* for ahead_head: 0, or -1 with *err */

/* 1 with *head set to the next row (until it is dropped), 0 at the end, -1 with *err. */
static inline int ahead_head(struct ahead *a, const struct merge_row **head, struct error *err)
{
    if (a->count < AHEAD_ROWS / 2 && ahead_fill(a, err))
        return -1;
    if (!a->count)
        return 0;
    const struct merge_row *r = &a->rows[(a->first + AHEAD_ROWS / 4) % AHEAD_ROWS];
    if (a->count > AHEAD_ROWS / 4 && r->row.op != MLW_OP_META)
        live_prefetch_block(a->live, r->row.address);
    *head = &a->rows[a->first];
    return 1;
}

static inline void ahead_drop(struct ahead *a)
{
    a->first = (a->first + 1) % AHEAD_ROWS;
    a->count--;
}

/* The head is a release of a block that is not there, or an allocation of one that still is. Two
 * processors' clocks may disagree by a little, and a processor may read its clock before older
 * loads are done; so, when another thread's row that makes it right is at most a microsecond
 * behind, the head and what its stream does up to there are put behind that row, with that row's
 * clock. True when the head is another row now. */
bool ahead_put_off(struct ahead *a, const struct timebase *t);
void ahead_close(struct ahead *a);

#endif
