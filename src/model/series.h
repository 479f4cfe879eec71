/* series.h - what call sites did in each slice of time, for a page on which a range can be chosen.
 *
 * Owns: the figures of rows in bins. A row is a group of stacks as one lane of threads used it; a
 * cell is what a row did in a bin, and there is none where it did nothing, so memory grows with
 * what happened, at most rows x bins. From the cells the figures of a report of any run of bins can
 * be put together exactly. Refuses: choosing groups and lanes (see report/). Single-threaded. */
#ifndef MALLOW_MODEL_SERIES_H
#define MALLOW_MODEL_SERIES_H

#include "model/model.h"

struct series_plan {
    const uint32_t *group_of; /* [stacks + 1], each below `groups` */
    uint32_t groups;
    const uint32_t *lane_of; /* [thread_count], each below `lanes` - 1 */
    uint32_t lanes;          /* the last one is of inherited blocks */
    uint64_t start_ns, width_ns;
    uint32_t bins; /* at most SERIES_BINS */
};
#define SERIES_BINS 4096u

struct series_cell {
    uint32_t row, bin;
    uint64_t calls, allocated_bytes, temporary;
    uint64_t live_bytes, live_blocks; /* at the end of the bin */
    uint64_t peak_bytes,
        peak_blocks;   /* the row's live values at the bin's maximum of the whole process */
    double mean_bytes; /* live, over the length of the bin */
};

struct series_row {
    uint32_t group, lane;
    uint64_t start_bytes, start_blocks; /* live before the first bin */
    size_t first_cell, cells;           /* after series_finish; by bin */
};

struct series_bin {
    uint64_t live_bytes, live_blocks, usable_bytes; /* at its end */
    uint64_t max_bytes, max_blocks, max_time_ns;    /* the first time that most bytes were live */
    uint64_t releases, foreign_releases;
    uint64_t
        mmapped_min_bytes;   /* smallest block with its own mapping made in it; UINT64_MAX: none */
    uint64_t heap_max_bytes; /* largest block without */
};

/* Sizes by quarters of a power of two: index = bits * 4 + the two bits below the highest one. */
#define SERIES_SIZES 260u
unsigned series_size_index(uint64_t size_bytes);

struct series_shape {                        /* a group's range, over everything */
    uint64_t sizes[65];                      /* calls, by number of bits */
    uint64_t lifetimes[MODEL_LIFETIMES + 1]; /* releases; the last: live at the end */
    uint64_t min_bytes, max_bytes;           /* min UINT64_MAX: no call */
};

struct series;

/* plan and what it points to must outlive it. */
struct series *series_new(const struct series_plan *plan, struct error *err);
void series_free(struct series *s); /* NULL is fine */
/* Feeds batches of an image to a series, in order, without a full model: `m` is a new model that
 * gets nothing else. Batches need the columns of series_columns. series_feeds says whether a new
 * model allows it; a filtered one does not. */
unsigned series_columns(void);
bool series_feeds(const struct model *m);
int series_feed(struct series *s, struct model *m, const struct trace_batch *b, struct error *err);
/* The observer for model_observe, where series_feeds says no: then the model counts as well. */
const struct model_observer *series_observer(struct series *s);
/* Call it after the last batch, or after model_finish. It sorts the cells by row. The getters
 * are valid after it. */
int series_finish(struct series *s, struct error *err);

/* Merges groups, and `join` neighboring bins at a time, after series_finish. The result equals a
 * series that was observed that way. to: [old groups] the new group of each; groups: how many
 * new ones there are; join must divide the number of bins. The plan does not change. */
int series_merge(struct series *s, const uint32_t *to, uint32_t groups, uint32_t join,
                 struct error *err);

const struct series_row *series_rows(const struct series *s, size_t *count);
const struct series_cell *series_cells(const struct series *s, size_t *count);
const struct series_bin *series_bins(const struct series *s);       /* [bins] */
const struct series_shape *series_shapes(const struct series *s);   /* [groups] */
const struct model_count *series_sizes(const struct series *s);     /* [bins][SERIES_SIZES] */
const struct model_count *series_lifetimes(const struct series *s); /* [bins][MODEL_LIFETIMES] */
const struct model_count *series_handovers(const struct series *s); /* [lanes made][lanes freed] */
const struct model_count *series_lane_releases(const struct series *s); /* [bins][lanes] */

#endif
