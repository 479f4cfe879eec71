/* detail.h - one process on the page, in as much detail as there is room for.
 *
 * Putting stacks into groups and reading the recording for it take longest. Where a processor is
 * free, a thread does both, and the caller may do something else between begin and end, with names
 * of its own (names_again). One thread calls. */
#ifndef MALLOW_PAGE_DETAIL_H
#define MALLOW_PAGE_DETAIL_H

#include <stdbool.h>

#include "frames/names.h"
#include "page/keep.h"
#include "show/html_pack.h"
#include "report/report.h"

/* The steps of making a detail, about as long each; a first pass by the caller is the first. */
#define DETAIL_PARTS 5u

struct detail_plan {
    struct trace *t;
    uint32_t image;
    const struct model_filter *filter;
    const struct model *m; /* from a first pass, finished */
    struct names *names;   /* not the caller's from begin to end */
    const struct report_options *options;
    void (*progress)(void *arg, unsigned part); /* part: one of DETAIL_PARTS; may be NULL */
    void *progress_arg;
};

struct detail;
/* plan must outlive it. NULL with *err set. */
struct detail *html_detail_begin(const struct detail_plan *plan, struct error *err);
/* Returns 1 with the block, which is the caller's to release; 0: it does not fit; -1: an error.
 * When it must fit, the smallest call sites are put together rather than nothing shown. */
int html_detail_end(struct detail *d, const struct html_room *room, struct html_block *block,
                    struct error *err);
void html_detail_free(struct detail *d); /* NULL is fine; waits for its thread */

#endif
