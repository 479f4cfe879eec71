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

/* The position of a stream behind a row. */
struct merge_position {
    uint32_t sequence, bytes; /* a chunk's sequence, and how much of its payload is done */
    uint64_t calls;           /* call rows of the stream up to there */
};

struct merge_row { /* one line of the processor's cache */
    struct mlw_row row;
    const struct raw_stream *stream;
    uint32_t where; /* for merge_where, if merge_track was called */
    bool failed;    /* the call that it is a part of fails */
    bool open;      /* it is not known whether the call fails, because the rows end before it */
    bool late;      /* set to false; for use by the caller */
};
_Static_assert(sizeof(struct merge_row) == 64, "a row is 64 bytes");

struct merge;
struct merge *merge_open(const struct raw *r, uint32_t image, struct error *err);
/* Makes merge_where work; call it before the first merge_rows. Returns false without memory. */
bool merge_track(struct merge *m);
/* Returns the position behind a row, which must be one of the last MERGE_TRACKED. */
#define MERGE_TRACKED 1024u
const struct merge_position *merge_where(const struct merge *m, const struct merge_row *r);
/* Reads the next rows, at most n. Returns how many, 0 at the end, or -1 with *err. META rows are
 * included, with row.clock set to the clock at their position. A META row is the last one of a
 * call, and its payload is valid until the next call. */
int merge_rows(struct merge *m, struct merge_row *rows, unsigned n, struct error *err);
/* Declares that the recording grows; call it before the first merge_rows. No rows come before
 * merge_grow, and the end is not final. */
void merge_growing(struct merge *m);
/* Lets rows with clocks below `limit` come, after the recording has grown (UINT64_MAX: it is
 * complete, and the end is final). All rows below the limit must be in the file. *late: some of
 * them were missing when later rows were given out. Returns 0, or -1 with *err. */
int merge_grow(struct merge *m, uint64_t limit, bool *late, struct error *err);
/* Returns the effective limit, which may be lower. */
uint64_t merge_limit(const struct merge *m);
/* True if rows below the limit were held back because it is not known yet whether a call fails. */
bool merge_is_stalled(const struct merge *m);
/* Returns how many call rows that chunks' headers announced could not be decoded so far. */
uint64_t merge_unreadable(const struct merge *m);
uint64_t merge_bytes_done(const struct merge *m);
void merge_close(struct merge *m);

#endif
