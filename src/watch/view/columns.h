/* columns.h - the columns of a watch's tables, for the screen, JSON and the schema. */
#ifndef MALLOW_WATCH_VIEW_COLUMNS_H
#define MALLOW_WATCH_VIEW_COLUMNS_H

#include "show/schema.h"
#include "show/table.h"
#include "watch/sites.h"

/* A call site, or all of a report, in whole numbers. */
struct watch_figures {
    uint64_t samples, sampled_bytes, blocks, bytes, low_bytes, high_bytes;
    int64_t growth_bytes;
    uint64_t oldest_ns, youngest_ns, byte_seconds, allocated_bytes, allocated_blocks, freed_bytes,
        freed_samples, freed_elsewhere, elsewhere_bytes;
    uint32_t tid;
    bool more_tids;
};
/* For table.with. */
enum {
    WATCH_ROOMY = COLUMN_WITH, /* the interval is shown */
    WATCH_SITE = COLUMN_WITH << 1,
    WATCH_SORTED = COLUMN_WITH << 2, /* and the bits above it, by enum watch_order */
    WATCH_EVERY = 0xffff & ~(COLUMN_WITH - 1)
};
extern const struct column watch_figure_columns[];
struct watch_figures watch_figures(const struct watch_site *s);
/* The table of the screen. */
struct table watch_screen_table(enum watch_order order, bool roomy);

/* A process on the screen. */
struct watch_listed {
    uint32_t pid;
    uint64_t live_bytes, peak_bytes, rss_bytes;
};
extern const struct column watch_listed_columns[];
extern const struct column watch_counter_columns[]; /* columns of mlw_watch_counters */

extern const struct schema_part watch_schema[]; /* schema of a line of `mallow watch --json` */

#endif
