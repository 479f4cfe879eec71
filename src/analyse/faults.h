/* faults.h - page faults added up: by the call that made the block which was hit, by place, by kind
 * of access, by slices of time.
 *
 * Owns: the sums over an image's faults. The trace says which block a fault hit. */
#ifndef MALLOW_ANALYSE_FAULTS_H
#define MALLOW_ANALYSE_FAULTS_H

#include "base/error.h"
#include "trace/trace.h"

struct fault_count {
    uint64_t minor, major;
};

struct fault_sums {
    struct fault_count all;
    struct fault_count place[MLW_PLACES];
    struct fault_count access[MLW_ACCESSES];
    /* [stacks + 1]: faults in blocks, and in mappings, that were made there; 0: no stack was
     * recorded. */
    struct fault_count *block, *mapping;
};

/* For faults from from_ns on and before to_ns (0: no end). fault_sums_release gives it back. */
int fault_sums_of(struct fault_sums *s, const struct trace_image *image, uint64_t from_ns,
                  uint64_t to_ns, struct error *err);
void fault_sums_release(struct fault_sums *s);

/* Counts the events of each of `bins` slices of time, the first of which begins at start_ns; what
 * lies before or behind them is in the first or the last. bins is at least 1; series has room for
 * them.
 */
struct fault_slice {
    struct fault_count faults;
    uint64_t swapped_in_pages;
};
struct fault_slices {
    uint64_t start_ns, width_ns;
    size_t bins;
};
void fault_series(struct fault_slice *series, const struct fault_slices *slices,
                  const struct trace_image *image, uint64_t from_ns, uint64_t to_ns);

/* The largest resident size among the exact levels; NULL when there are none. */
const struct trace_level *level_peak(const struct trace_image *image);
/* The same of `count` levels from number `first` (which exists) on. */
const struct trace_level *level_largest(const struct trace_image *image, uint32_t first,
                                        uint32_t count);
uint64_t level_resident(const struct trace_level *l); /* bytes, without swapped ones */

#endif
