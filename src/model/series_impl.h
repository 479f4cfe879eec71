/* series_impl.h - the inside of a series: what fills it (series.c) and what merges it (merge.c)
 * share. */
#ifndef MALLOW_MODEL_SERIES_IMPL_H
#define MALLOW_MODEL_SERIES_IMPL_H

#include "model/series.h"
#include "model/state.h"

struct row_now { /* a row in the bin that is being filled */
    uint64_t calls, allocated_bytes, temporary;
    uint64_t live_bytes, live_blocks, peak_bytes, peak_blocks;
    uint64_t version; /* the version of the bin's maximum that peak_bytes was saved for */
    double weighted;  /* bytes x ns to add to the bytes live at the start of the bin */
    uint64_t before_bytes;
    bool touched;
};

/* A block begins to count, or ends. */
struct series_step {
    uint64_t size_bytes, usable_bytes, time_ns;
    uint64_t born_ns; /* when one that ends was born */
    uint32_t group;
    uint32_t maker, freer; /* threads, or NO_THREAD; freer: of one that ends */
    uint8_t place;         /* enum model_place */
    bool ends;
    bool call;      /* it is one: of one that begins, that it is not carried */
    bool temporary; /* true: one that ends was temporary */
};

struct series {
    const struct series_plan *plan;
    struct model_observer observer;
    uint32_t *row_of; /* [groups x lanes] */
    struct series_row *rows;
    struct row_now *now; /* [row_count] */
    uint32_t *touched;   /* rows, [touched_count] */
    size_t row_count, row_room, touched_count;
    struct series_cell *cells;
    size_t cell_count, cell_room;
    struct series_bin *bins;
    struct series_shape *shapes;
    struct model_count *sizes, *lifetimes, *handovers, *lane_releases;
    uint64_t bin_end_ns, version;
    uint64_t live_bytes, live_blocks, usable_bytes;
    uint32_t bin;
    bool failed, started;
    uint32_t groups, bin_count; /* as in the plan, until merged */
};

/* Adds steps in their order. */
void series_steps(struct series *s, const struct series_step *list, size_t n);

#endif
