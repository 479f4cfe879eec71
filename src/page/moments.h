/* moments.h - why more of a process was resident than live, at many moments of its run, and
 * the map of its heap at each of them: a block of the page. Private to report/.
 *
 * Moments are those that the report explains, the measurements, the marks, and the ends of slices
 * of time, as many as time and room allow. One pass over the image; memory is that of pinned.h and
 * heapmap.h, and a few thousand bytes for each moment. */
#ifndef MALLOW_PAGE_MOMENTS_H
#define MALLOW_PAGE_MOMENTS_H

#include "show/html_pack.h"
#include "frames/names.h"
#include "report/report.h"

struct moments_plan {
    struct trace *t;
    uint32_t image;
    const struct model *m; /* finished */
    struct names *names;
    const struct report_options *options;
    size_t share_bytes; /* the most that it may take of the page */
};

/* Returns 1 with the block, which is the caller's to release (its fields stand in
 * web/src/moments.ts); 0: under this filter nothing can be said, or it does not fit; -1: an error.
 */
int html_moments(const struct moments_plan *plan, struct html_block *block, struct error *err);

#endif
