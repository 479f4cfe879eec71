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

/* Begins image `index` of the recording, as image `number` of the file. parent: the image it was
 * forked from, stopped at that moment, or NULL; the parent's live blocks become the first
 * events. NULL with *err. */
struct image_work *image_begin(struct raw *r, const struct timebase *t, uint32_t index,
                               uint32_t number, struct image_work *parent, enum image_fate fate,
                               uint64_t cut, struct block_writer *b, struct error *err);
/* Allows a thread to read the image's rows ahead, until image_free; call it before the first
 * image_run. */
void image_beside(struct image_work *g);
/* For a recording that grows. Call image_growing after image_begin: no rows come for now. After
 * raw_grow and raw_finish call image_grow, as merge_grow, or image_moved for an image that gets
 * no rows now. */
void image_growing(struct image_work *g);
int image_grow(struct image_work *g, uint64_t limit, bool *late, struct error *err);
int image_moved(struct image_work *g, struct error *err);
uint64_t image_limit(const struct image_work *g);
bool image_is_stalled(const struct image_work *g);
/* Returns the latest clock of a call so far. */
uint64_t image_last_clock(const struct image_work *g);
bool image_marks_hold(const struct image_work *g);
/* Takes rows before the clock `until` (UINT64_MAX: all), at most `rows`. Returns 2 if there may
 * be more before `until`, 1 if there are more behind it, 0 if the image is done, or -1 with
 * *err. */
int image_run(struct image_work *g, uint64_t until, uint64_t rows, struct error *err);
/* Writes the gathered events and frees the block writer, between image_run and the work on a
 * child. image_resume takes the writer back. */
int image_suspend(struct image_work *g, struct error *err);
void image_resume(struct image_work *g);
struct image_totals {
    uint64_t events, calls, lost_calls;
};
/* For IMAGE_FOLDED, after the last image_run: true if a call in progress stopped it early. */
bool image_stopped(const struct image_work *g);
/* For IMAGE_FOLDED: appends the result of its rows so far as CARRIED chunks, and sets the
 * positions from which its streams (raw.streams[]) go on. Returns 0, or -1 with *err. */
struct carry_out;
int image_carry(struct image_work *g, struct carry_out *out, struct error *err);
/* After the last row: writes nodes, facts and the last block. */
int image_finish(struct image_work *g, struct image_totals *totals, struct error *err);
uint64_t image_bytes_done(const struct image_work *g);
void image_free(struct image_work *g);

#endif
