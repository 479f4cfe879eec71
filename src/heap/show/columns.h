/* columns.h - the columns of a heap's tables; for the files of this directory. */
#ifndef MALLOW_HEAP_SHOW_COLUMNS_H
#define MALLOW_HEAP_SHOW_COLUMNS_H

#include "heap/heap.h"
#include "heap/show/sampled.h"
#include "show/schema.h"
#include "show/table.h"

/* For table.with. */
enum {
    HEAP_TYPES = COLUMN_WITH, /* rows are types, or as below */
    HEAP_ROOTS = COLUMN_WITH << 1,
    HEAP_SIZES = COLUMN_WITH << 2,
    HEAP_SITES = COLUMN_WITH << 3,
    HEAP_AGES = COLUMN_WITH << 4, /* ages of blocks are known */
    HEAP_VERIFIED = COLUMN_WITH << 5,
    HEAP_RECORDED = COLUMN_WITH << 6
};

extern const struct column heap_fact_columns[], heap_cold_facts_columns[], heap_arena_columns[];
extern const struct column heap_row_columns[];  /* columns of heap_row: types and sizes */
extern const struct column heap_root_columns[]; /* columns of heap_row: roots */
extern const struct column heap_site_columns[]; /* columns of heap_site */
extern const struct column heap_pin_columns[], heap_cold_columns[], heap_leak_columns[];
extern const struct column heap_step_columns[], heap_step_root_columns[];

/* A call site of samples: the heap's figures, and the estimates from the samples. */
struct heap_sampled_row {
    struct heap_site site;
    uint64_t sampled_blocks, sampled_bytes, blocks, bytes, low_bytes, high_bytes;
    uint64_t oldest_ns, youngest_ns;
};
extern const struct column heap_sampled_columns[];
struct heap_sampled_row heap_sampled_row(const struct heap_samples *s,
                                         const struct heap_site *site);
extern const struct column heap_change_columns[], heap_root_change_columns[]; /* in diff.c */

/* Makes a table of a heap. by: the kind of its rows. */
struct table heap_columns(const struct heap *h, const struct column *columns, enum heap_by by,
                          struct names *names);

extern const struct schema_part heap_schema[]; /* schema of all documents of `mallow heap` */

/* "kind name (module)" of a row, a group or the like, as arguments of printf. */
#define HEAP_NAME "%s%s%s%s%s%s"
#define HEAP_NAME_OF(x)                                                                            \
    (x)->kind, *(x)->kind ? " " : "", (x)->name, *(x)->module ? " (" : "", (x)->module,            \
        *(x)->module ? ")" : ""

#endif
