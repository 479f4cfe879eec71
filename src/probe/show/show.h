/* show.h - what a probe counted, as text, as JSON, as folded stacks. */
#ifndef MALLOW_PROBE_SHOW_SHOW_H
#define MALLOW_PROBE_SHOW_SHOW_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "probe/arenas.h"
#include "probe/probe.h"
#include "symbol/symbol.h"

struct probe_report {
    struct symbols *symbols; /* not NULL */
    size_t top;              /* groups and rows that the text shows */
    unsigned columns;        /* 0: lines are never cut */
    bool unicode, bold;
    const char *where; /* the condition on events, as it was given; NULL: none */
    bool one_line;     /* JSON without line ends inside */
};

/* Each returns 0, or -1 with *err when out of memory. Whether writing worked is asked of `out`. */
int probe_report_text(FILE *out, const struct probe_result *r, const struct probe_report *how,
                      struct error *err);
/* indent of the document is one object on several lines; compact for one line an interval. */
int probe_report_json(FILE *out, const struct probe_result *r, const struct probe_report *how,
                      struct error *err);
/* A line for each stack, outermost frame first, and its calls (or bytes where the kind has them).
 */
int probe_report_folded(FILE *out, const struct probe_result *r, const struct probe_report *how,
                        struct error *err);

/* The functions that would be probed, as a document. */
void probe_report_list(FILE *out, const struct probe_functions *list);

/* One line for what glibc's allocator just did; nothing for events of the summary alone, nor for
 * events shown several times already: probe_arenas_rest prints their totals, and the counting
 * begins anew. */
struct probe_arenas_lines {
    uint64_t seen[ARENAS_PROBES];
};
void probe_arenas_line(FILE *out, struct probe_arenas_lines *lines, const struct arena_moment *m);
void probe_arenas_rest(FILE *out, struct probe_arenas_lines *lines);

#endif
