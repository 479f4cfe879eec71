/* feed.h - the merged rows of an image, each with how the call that it is a part of ends.
 *
 * Owns: the merge, and the thread that may read it ahead of the caller: batches of rows, a few of
 * them filled at a time. The rows and their order are the same with and without it. All functions
 * are for one thread, the caller's. Memory: that of the merge, and about 1 MB with a thread. */
#ifndef MALLOW_TRACE_SEAL_FEED_H
#define MALLOW_TRACE_SEAL_FEED_H

#include "trace/raw/merge.h"

struct feed_row {
    struct merge_row r;
    bool failed; /* the call that it is a part of fails */
    bool open;   /* whether it fails is not known: the rows end before the call does */
    struct merge_position where; /* behind it, once feed_track was called */
};

struct feed;
/* NULL with *err. */
struct feed *feed_open(const struct raw *r, uint32_t image, struct error *err);
/* Before the first feed_next: rows are given with their places. */
void feed_track(struct feed *f);
/* Before the first feed_next: a thread of its own may read, if there is one to be had. */
void feed_beside(struct feed *f);
/* 1 with *row set, 0 at the end, -1 with *err. What a META row points to is valid until the next
 * call. */
int feed_next(struct feed *f, struct feed_row *row, struct error *err);
/* Of the file, so far: with a thread, up to the batch that the last row came from. */
uint64_t feed_bytes_done(const struct feed *f);
/* Call rows that could not be decoded, once feed_next has come to the end. */
uint64_t feed_unreadable(const struct feed *f);
/* Ends the thread, wherever it is. NULL does nothing. */
void feed_close(struct feed *f);

#endif
