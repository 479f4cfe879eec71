/* html_detail.h - one process on the page, in as much detail as there is room for. */
#ifndef MALLOW_REPORT_HTML_DETAIL_H
#define MALLOW_REPORT_HTML_DETAIL_H

#include <stdbool.h>

#include "frames/names.h"
#include "report/html_pack.h"
#include "report/report.h"

/* What making a detail consists of, about as long each; a first pass by the caller is the first. */
#define DETAIL_PARTS 5u

struct detail_plan {
    struct trace *t;
    uint32_t image;
    const struct model_filter *filter;
    const struct model *m; /* of a first pass, finished */
    struct names *names;
    const struct report_options *options;
    size_t share_bytes; /* of the page: what it may take */
    size_t most_bytes;  /* at most, when otherwise its figures would be wrong */
    void (*progress)(void *arg, unsigned part); /* of DETAIL_PARTS; may be NULL */
    void *progress_arg;
    bool must_fit; /* then the smallest call sites are put together rather than nothing shown */
};

/* Returns 1 with the block, which is the caller's to release; 0: it does not fit; -1: an error. */
int html_detail(const struct detail_plan *plan, struct html_block *block, struct error *err);

#endif
