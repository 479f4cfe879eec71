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

/* Begins image `index` of the recording, number `number` of the file. `parent`: the one it was
 * forked from, stopped at that moment, or NULL; its live blocks become the first events. */
struct image_work *image_begin(const struct raw *r, const struct timebase *t, uint32_t index,
                               uint32_t number, struct image_work *parent, struct seal_writer *w,
                               struct block_writer *b, struct error *err);
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
/* After the last row: writes nodes, facts and the last block. */
int image_finish(struct image_work *g, struct image_totals *totals, struct error *err);
uint64_t image_bytes_done(const struct image_work *g);
void image_free(struct image_work *g);

#endif
