/* routes.h - which ways calls took inside glibc's allocator, as text and JSON: which are hot, which
 * are cold, and which call sites miss the thread's cache. */
#ifndef MALLOW_REPORT_ROUTES_H
#define MALLOW_REPORT_ROUTES_H

#include "analyse/routes.h"
#include "report/report.h"
#include "show/layout.h"
#include "show/table.h"

/* Each writes nothing where the image has no routes. */
int section_routes(const struct page *p, struct trace *t, uint32_t image, struct names *names,
                   const struct report_options *o, struct error *err);
/* `paths`. limit: of call sites. */
int json_routes(struct json *j, const struct routes *r, struct names *names, uint64_t limit,
                struct error *err);

#endif
