/* feed.h - the merged rows of an image, many at a time.
 *
 * Owns: the merge, the arrays that it fills, and the thread that may fill them ahead of the caller.
 * The rows and their order are the same with and without it. All functions are for one thread, the
 * caller's. Memory: that of the merge, and about 1 MB with a thread. */
#ifndef MALLOW_TRACE_SEAL_FEED_H
#define MALLOW_TRACE_SEAL_FEED_H

#include "trace/raw/merge.h"

#define FEED_KEPT 64u /* rows that stay beside the next ones, at most */

struct feed;
/* NULL with *err. */
struct feed *feed_open(const struct raw *r, uint32_t image, struct error *err);
/* Before the first feed_rows: rows are given with their places. False without memory. */
bool feed_track(struct feed *f);
/* The place behind a row, until the next feed_rows. */
const struct merge_position *feed_where(const struct feed *f, const struct merge_row *r);
/* Before the first feed_rows, but not with places: a thread of its own may read, if there is one to
 * be had. */
void feed_beside(struct feed *f);
/* The next rows, as many as there are at hand: how many, 0 at the end, -1 with *err. They, and what
 * META rows among them point to, are the caller's until the next call, but for the last `kept` of
 * those given before, none of which may be META: whatever is returned, *rows is behind those. */
int feed_rows(struct feed *f, unsigned kept, struct merge_row **rows, struct error *err);
/* For a recording that grows: as merge_growing, merge_grow, merge_limit and
 * merge_is_stalled. No thread reads
 * before the last feed_grow, which is that of a whole recording. */
void feed_growing(struct feed *f);
int feed_grow(struct feed *f, uint64_t limit, bool *late, struct error *err);
uint64_t feed_limit(const struct feed *f);
bool feed_is_stalled(const struct feed *f);
/* For the file, so far: up to the last row given. */
uint64_t feed_bytes_done(const struct feed *f);
/* Call rows that could not be decoded, once feed_rows has come to the end. */
uint64_t feed_unreadable(const struct feed *f);
/* Ends the thread, wherever it is. NULL does nothing. */
void feed_close(struct feed *f);

#endif
