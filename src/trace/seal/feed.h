/* feed.h - the merged rows of an image.
 *
 * Owns: the merge, and the thread that may read it ahead of the caller: batches of rows, a few of
 * them filled at a time. The rows and their order are the same with and without it. All functions
 * are for one thread, the caller's. Memory: that of the merge, and about 1 MB with a thread. */
#ifndef MALLOW_TRACE_SEAL_FEED_H
#define MALLOW_TRACE_SEAL_FEED_H

#include "trace/raw/merge.h"

struct feed;
/* NULL with *err. */
struct feed *feed_open(const struct raw *r, uint32_t image, struct error *err);
/* Before the first feed_rows: rows are given with their places. */
void feed_track(struct feed *f);
/* Before the first feed_rows: a thread of its own may read, if there is one to be had. */
void feed_beside(struct feed *f);
/* As merge_rows. */
int feed_rows(struct feed *f, struct merge_row *rows, unsigned n, struct error *err);
/* Of the file, so far: with a thread, up to the batch that the last row came from. */
uint64_t feed_bytes_done(const struct feed *f);
/* Call rows that could not be decoded, once feed_rows has come to the end. */
uint64_t feed_unreadable(const struct feed *f);
/* Ends the thread, wherever it is. NULL does nothing. */
void feed_close(struct feed *f);

#endif
