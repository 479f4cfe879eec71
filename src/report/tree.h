/* tree.h - call sites and their callers, as a tree on the terminal. */
#ifndef MALLOW_REPORT_TREE_H
#define MALLOW_REPORT_TREE_H

#include "analyse/group.h"
#include "frames/known.h"
#include "show/layout.h"
#include "report/report.h"

/* The `top` largest call sites by a metric, with the callers that lead to each. title: the heading,
 * to which the number of sites is added. Nothing is printed when the metric is 0 everywhere.
 * sites: of the model, the same for all metrics. known: suppressions, for the view of the end only;
 * may be NULL. */
int tree_print(const struct page *p, const struct model *m, struct names *names,
               const struct report_options *o, struct group_sites *sites, enum metric by,
               uint64_t top, struct known *known, const char *title, struct error *err);

/* The same call sites as one line each. */
int tree_list(const struct page *p, const struct model *m, struct names *names,
              const struct report_options *o, struct group_sites *sites, enum metric by,
              uint64_t top, const char *title, struct error *err);

#endif
