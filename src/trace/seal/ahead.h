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

struct ahead_row {
    struct feed_row f;
    bool late; /* it was put off: ahead_put_off */
};

struct ahead;
/* `live` is looked at, never changed, and `feed` read; both are the caller's and must outlive the
 * queue. NULL with *err. */
struct ahead *ahead_open(struct feed *feed, const struct live *live, struct error *err);
/* 1 with *head set to the next row (until it is dropped), 0 at the end, -1 with *err. */
int ahead_head(struct ahead *a, const struct ahead_row **head, struct error *err);
void ahead_drop(struct ahead *a);
/* The head is a release of a block that is not there, or an allocation of one that still is. Two
 * processors' clocks may disagree by a little, and a processor may read its clock before older
 * loads are done; so, when another thread's row that makes it right is at most a microsecond
 * behind, the head and what its stream does up to there are put behind that row, with that row's
 * clock. True when the head is another row now. */
bool ahead_put_off(struct ahead *a, const struct timebase *t);
void ahead_close(struct ahead *a);

#endif
