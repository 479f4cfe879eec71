/* image.h - one program image on its way from rows to sealed blocks.
 *
 * Owns: what each row means for the live blocks (the kinds of trace.h), the image's nodes, modules,
 * threads and notes, and its facts. Refuses: to know about other images, but for the one that it
 * was forked from. One thread. */
#ifndef MALLOW_TRACE_SEAL_IMAGE_H
#define MALLOW_TRACE_SEAL_IMAGE_H

#include "block_write.h"
#include "trace/raw/merge.h"
#include "trace/sealed/facts.h"
#include "trace/timebase.h"

struct image_work;

/* The fate of an image of a flight recorder. */
enum image_fate {
    IMAGE_WHOLE,    /* all its rows are events */
    IMAGE_WINDOW,   /* rows before `cut` only lead to the live blocks that it begins with */
    IMAGE_FOLDED,   /* rows before `cut` are read, no others: for image_carry */
    IMAGE_FORGOTTEN /* it ended before: only what its children inherit matters */
};

/* Begins image `index` of the recording, number `number` of the file. `parent`: the one it was
 * forked from, stopped at that moment, or NULL; its live blocks become the first events. */
struct image_work *image_begin(struct raw *r, const struct timebase *t, uint32_t index,
                               uint32_t number, struct image_work *parent, enum image_fate fate,
                               uint64_t cut, struct block_writer *b, struct error *err);
/* Before the first image_run: its rows may be read ahead by a thread of their own, until
 * image_free. */
void image_beside(struct image_work *g);
/* For a recording that grows. After image_begin: no rows are there for now. image_grow: after
 * raw_grow and raw_finish: as merge_grow; image_moved: the same of an image that gets no rows now.
 */
void image_growing(struct image_work *g);
int image_grow(struct image_work *g, uint64_t limit, bool *late, struct error *err);
int image_moved(struct image_work *g, struct error *err);
uint64_t image_limit(const struct image_work *g);
bool image_is_stalled(const struct image_work *g);
/* The latest clock of a call so far, and how many marks from outside were written early. */
uint64_t image_last_clock(const struct image_work *g);
bool image_marks_hold(const struct image_work *g);
/* Takes rows up to (not including) the clock `until` (UINT64_MAX: all), at most so many. 2: there
 * may be more of them, 1: there are more behind `until`, 0: the image is done. */
int image_run(struct image_work *g, uint64_t until, uint64_t rows, struct error *err);
/* Between image_run and the work on a child: the gathered events are written, and the block writer
 * is free for use; then back. */
int image_suspend(struct image_work *g, struct error *err);
void image_resume(struct image_work *g);
struct image_totals {
    uint64_t events, calls, lost_calls;
};
/* For IMAGE_FOLDED, after image_run came to an end: whether a call under way stopped it before. */
bool image_stopped(const struct image_work *g);
/* For IMAGE_FOLDED: appends what its rows so far have led to, as CARRIED chunks. Sets where its
 * streams (raw.streams[]) go on. 0 or -1. */
struct carry_out;
int image_carry(struct image_work *g, struct carry_out *out, struct error *err);
/* After the last row: writes nodes, facts and the last block. */
int image_finish(struct image_work *g, struct image_totals *totals, struct error *err);
uint64_t image_bytes_done(const struct image_work *g);
void image_free(struct image_work *g);

#endif
