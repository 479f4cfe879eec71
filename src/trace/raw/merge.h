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
    uint32_t sequence, bytes; /* a chunk's sequence, and how much of its payload is done */
    uint64_t calls;           /* call rows of the stream up to there */
};

struct merge_row { /* one line of the processor's cache */
    struct mlw_row row;
    const struct raw_stream *stream;
    uint32_t where; /* once merge_track was called: for merge_where */
    bool failed;    /* the call that it is a part of fails */
    bool open;      /* it is not known whether it fails: the rows end before the call does */
    bool late;      /* false: for who takes the rows */
};
_Static_assert(sizeof(struct merge_row) == 64, "a row is 64 bytes");

struct merge;
struct merge *merge_open(const struct raw *r, uint32_t image, struct error *err);
/* Before the first merge_rows: rows are given with their places. False without memory. */
bool merge_track(struct merge *m);
/* The place behind a row, which is one of the last MERGE_TRACKED. */
#define MERGE_TRACKED 1024u
const struct merge_position *merge_where(const struct merge *m, const struct merge_row *r);
/* The next rows, at most n: how many, 0 at the end, -1 with *err. META rows come too, with
 * row.clock set to the clock that they stand at; what one points to is valid until the next call,
 * and none is followed by another row of the same call. */
int merge_rows(struct merge *m, struct merge_row *rows, unsigned n, struct error *err);
/* For a recording that grows, before the first merge_rows: none come for now, and the end is not
 * the end. */
void merge_growing(struct merge *m);
/* The recording has grown: rows of clocks below `limit` come now (UINT64_MAX: all, it is whole, and
 * the end is the end). All rows below are there by then; *late: some were not when rows behind them
 * were given. */
int merge_grow(struct merge *m, uint64_t limit, bool *late, struct error *err);
/* The limit that came of it: it may be lower. */
uint64_t merge_limit(const struct merge *m);
/* True if rows below the limit were held back, since it is not known whether a call fails. */
bool merge_is_stalled(const struct merge *m);
/* Call rows that were announced by chunks' headers but could not be decoded, so far. */
uint64_t merge_unreadable(const struct merge *m);
uint64_t merge_bytes_done(const struct merge *m);
void merge_close(struct merge *m);

#endif
