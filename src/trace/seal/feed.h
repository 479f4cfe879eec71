/* feed.h - the merged rows of an image, many at a time.
 *
 * Owns: the merge, the arrays that it fills, and the thread that may fill them ahead of the caller.
 * The rows and their order are the same with and without it. All functions are for one thread, the
 * caller's. Memory: that of the merge, and about 1 MB with a thread. */
#ifndef MALLOW_TRACE_SEAL_FEED_H
#define MALLOW_TRACE_SEAL_FEED_H

#include "trace/raw/merge.h"

#define FEED_KEPT 64u /* rows that stay valid with the next ones, at most */

struct feed;
/* NULL with *err. */
struct feed *feed_open(const struct raw *r, uint32_t image, struct error *err);
/* Makes feed_where work; call it before the first feed_rows. Returns false without memory. */
bool feed_track(struct feed *f);
/* Returns the position behind a row, before the next feed_rows. */
const struct merge_position *feed_where(const struct feed *f, const struct merge_row *r);
/* Allows a thread to read ahead; call it before the first feed_rows, and not together with
 * feed_track. */
void feed_beside(struct feed *f);
/* Gives the next rows, as many as are at hand. Returns how many, 0 at the end, or -1 with *err.
 * The rows, and the payloads of META rows among them, are valid until the next call. The last
 * `kept` rows of the call before, none of which may be META, stay valid in front of *rows,
 * whatever is returned. */
int feed_rows(struct feed *f, unsigned kept, struct merge_row **rows, struct error *err);
/* For a recording that grows: as merge_growing, merge_grow, merge_limit and merge_is_stalled. No
 * thread reads ahead before the feed_grow that declares the recording complete. */
void feed_growing(struct feed *f);
int feed_grow(struct feed *f, uint64_t limit, bool *late, struct error *err);
uint64_t feed_limit(const struct feed *f);
bool feed_is_stalled(const struct feed *f);
/* Returns the bytes of the file that were read up to the last row given. */
uint64_t feed_bytes_done(const struct feed *f);
/* Returns how many call rows could not be decoded; valid after feed_rows has returned 0. */
uint64_t feed_unreadable(const struct feed *f);
/* Ends the thread, wherever it is. NULL does nothing. */
void feed_close(struct feed *f);

#endif
