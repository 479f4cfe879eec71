/* page.h - the page for a browser: a recording, or the difference of two. */
#ifndef MALLOW_PAGE_PAGE_H
#define MALLOW_PAGE_PAGE_H

#include <stdio.h>

#include "base/error.h"
#include "report/diff.h"
#include "report/report.h"
#include "symbol/symbol.h"
#include "trace/trace.h"

/* One page of HTML that needs nothing else and has at most HTML_PAGE_BYTES, however long the
 * recording: it says what it leaves out. Reads each process twice. */
int report_html(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *options, struct error *err);
/* Leaves out the smallest changes when there are very many. */
int diff_html(FILE *out, const struct diff *d, struct symbols *symbols,
              const struct report_options *options, struct error *err);

#endif
