/* process.h - the data of one process on the page. */
#ifndef MALLOW_PAGE_PROCESS_H
#define MALLOW_PAGE_PROCESS_H

#include "base/json.h"
#include "model/series.h"
#include "page/sites.h"
#include "report/report.h"

/* Threads put together so that there are not too many of them. */
struct page_lanes {
    uint32_t *lane_of; /* [thread_count] */
    uint32_t count;    /* with the last, which is of inherited blocks */
    uint32_t single;   /* the first so many are one thread each; then comes one of all others,
                          unless there are none */
};
int page_lanes_find(struct page_lanes *l, const struct trace_image *image, struct error *err);
void page_lanes_release(struct page_lanes *l);

/* The whole object: what the JSON report says of the process, then `page`, see web/src/data.ts.
 * kernel_kinds: of trace_info. */
int html_process(struct json *j, const struct model *m, const struct series *s,
                 const struct series_plan *plan, const struct page_sites *sites,
                 const struct page_lanes *lanes, struct names *names, uint32_t kernel_kinds,
                 const struct report_options *o, struct error *err);

#endif
