/* tree.h - call sites and their callers, as a tree on the terminal. */
#ifndef MALLOW_REPORT_TREE_H
#define MALLOW_REPORT_TREE_H

#include "analyse/group.h"
#include "frames/known.h"
#include "show/layout.h"
#include "report/report.h"

/* Prints the `top` largest call sites by a metric, with their callers, or nothing if the metric
 * is 0 everywhere. title: the heading, to which the number of sites is added. sites: of the
 * model, shared by all metrics. known: suppressions, for the metric of the end only; may be
 * NULL. Returns 0, or -1 with *err. */
int tree_print(const struct page *p, const struct model *m, struct names *names,
               const struct report_options *o, struct group_sites *sites, enum metric by,
               uint64_t top, struct known *known, const char *title, struct error *err);

/* Prints the same call sites, one line each. */
int tree_list(const struct page *p, const struct model *m, struct names *names,
              const struct report_options *o, struct group_sites *sites, enum metric by,
              uint64_t top, const char *title, struct error *err);

#endif
