/* columns.h - the columns of a recording's tables, for text, JSON, the page and the schema. */
#ifndef MALLOW_REPORT_COLUMNS_H
#define MALLOW_REPORT_COLUMNS_H

#include "analyse/figures.h"
#include "analyse/routes.h"
#include "model/model.h"
#include "show/schema.h"
#include "show/table.h"

/* A process among others: in the text, on the page, and the first keys in JSON. */
struct report_listed {
    uint32_t pid, ppid;
    const char *exe;
    uint64_t start_ns, duration_ns;
    uint64_t events, allocations, requested_bytes, peak_bytes, end_bytes, temporary;
};
extern const struct column report_listed_columns[];
struct report_listed report_listed(const struct trace_image *image, const struct model_totals *t);

struct report_thread {
    const char *name;
    uint32_t index, tid;
    uint64_t lost_calls;
    struct model_thread sums;
};
extern const struct column report_thread_columns[];
struct report_thread report_thread(const struct model *m, uint32_t index);

/* Calls by the number of bits of their sizes, and blocks by how long they lived. */
struct report_class {
    uint64_t least, most; /* most: UINT64_MAX for any */
    struct model_count sums;
};
enum { REPORT_SIZES = 65 };
extern const struct column report_size_columns[], report_lifetime_columns[];
void report_sizes(const struct model *m, struct report_class of[REPORT_SIZES]);

/* The figures of a call site, and what follows from them. */
struct report_figures {
    struct figures sums;
    uint64_t mean_bytes;
};
extern const struct column report_figure_columns[];
/* Into the object that is open. */
void report_figures_json(struct json *j, const struct figures *f);

/* A way in a table. */
struct report_route {
    const char *name, *group;
    uint64_t calls, bytes, permille; /* permille: of the calls of its group */
    unsigned place;
};
/* Those that were taken, of both groups, and those that were not: by calls. */
size_t report_routes(const struct routes *r, struct report_route list[ROUTES]);
extern const struct column report_route_columns[];

/* For table.with. */
enum {
    REPORT_ATTACHED = COLUMN_WITH, /* it ran before its recording began */
    REPORT_GLIBC = COLUMN_WITH << 1,
    REPORT_OTHER = COLUMN_WITH << 2 /* another allocator */
};
/* Columns of trace_image, model_totals, model_bin, mlw_resident, model_reallocs, resident_view,
 * mapped_stack. */
extern const struct column report_image_columns[], report_totals_columns[], report_bin_columns[],
    report_sample_columns[], report_realloc_columns[], report_resident_columns[],
    report_mapping_columns[];
/* Columns of pinned_heap, of a sum and of one; heap_free; pinned_stack in heap_at_peak and in
 * explained; pinned_arena. */
extern const struct column report_heaps_columns[], report_heap_columns[], report_free_columns[],
    report_keeper_columns[], report_pinning_columns[], report_arena_columns[];
/* Columns of trace_level, fault_count, suppression; of what figures grew. */
extern const struct column report_level_columns[], report_fault_columns[],
    report_suppression_columns[], report_growth_columns[];

extern const struct schema_part report_schema[]; /* schema of `mallow report --json` */

#endif
