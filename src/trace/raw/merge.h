/* merge.h - the streams of one image as one sequence of rows, in the order of the clock.
 *
 * Owns: opening streams when their first row is due and closing them when they are done, so that
 * memory grows with the threads that live at one time (one chunk each), not with all there were.
 * Equal clocks: a release goes before an allocation, then the stream with the lower number. Within
 * a stream the order is the writer's. One thread. */
#ifndef MALLOW_TRACE_RAW_MERGE_H
#define MALLOW_TRACE_RAW_MERGE_H

#include "format/row.h"
#include "raw.h"

struct merge_stream; /* one open stream */

/* Where a stream goes on behind a row. */
struct merge_position {
    uint32_t sequence, bytes; /* of a chunk, and how much of its payload is done */
    uint64_t calls;           /* call rows of the stream up to there */
};

struct merge_row {
    struct mlw_row row;
    const struct raw_stream *stream;
};

struct merge;
struct merge *merge_open(const struct raw *r, uint32_t image, struct error *err);
/* 1 with *out set (until the next call), 0 at the end, -1 with *err. META rows come too, with
 * row.clock set to the clock that they stand at. */
int merge_next(struct merge *m, struct merge_row *out, struct error *err);
/* The next call row of the stream that the last row came from, as it will come later: the first
 * whose operation is in `ops` (bit per operation), at most `reach` call rows ahead and not past a
 * gap. False when there is none. */
bool merge_peek(struct merge *m, uint32_t ops, unsigned reach, struct mlw_row *row);
/* Behind the row that merge_next gave last. */
void merge_where(const struct merge *m, struct merge_position *p);
/* Whether the last merge_peek came to the end of what there is of its stream, so that what it
 * looked for may still come. */
bool merge_peek_ended(const struct merge *m);
/* Call rows that were announced by chunks' headers but could not be decoded, so far. */
uint64_t merge_unreadable(const struct merge *m);
uint64_t merge_bytes_done(const struct merge *m);
void merge_close(struct merge *m);

#endif
