/* heapmap.h - a map of the heap at many moments: how much of each area of addresses was live.
 *
 * Addresses are cut into cells of a power of two of pages, and HEAPMAP_COLUMNS neighboring cells
 * are a row. There are rows only where a block was. When there would be more than HEAPMAP_ROWS,
 * cells become twice as large, at earlier moments as well. So memory is bounded, whatever a file
 * says: HEAPMAP_ROWS * HEAPMAP_COLUMNS cells of 48 bytes for each moment. Pages count as live when
 * a block or a cached chunk is on them; see pinned.h. One thread. */
#ifndef MALLOW_ANALYSE_HEAPMAP_H
#define MALLOW_ANALYSE_HEAPMAP_H

#include "analyse/pinned.h"

#define HEAPMAP_COLUMNS 64u
#define HEAPMAP_ROWS    128u
#define HEAPMAP_SITES                                                                              \
    3u /* so many call sites of a cell are kept: those with the most live bytes                    \
        */

struct heapmap_cell {
    uint64_t used_bytes; /* the used bytes of live blocks, with their headers */
    uint64_t site_bytes[HEAPMAP_SITES];
    uint32_t pages;               /* with a block or a cached chunk on them */
    uint16_t site[HEAPMAP_SITES]; /* the caller's number + 1, most bytes first; 0: none */
};

struct heapmap;
struct heapmap *heapmap_new(size_t moments, struct error *err);
void heapmap_free(struct heapmap *h); /* NULL is fine */

/* Adds the layout at a moment, as a pinned_visit gets it. site_of: [stack] the number of each call
 * site, at most 65534, or UINT16_MAX. Once for a moment. */
int heapmap_add(struct heapmap *h, size_t moment, const struct pinned *p,
                const struct pinned_block *blocks, size_t count, const uint16_t *site_of,
                struct error *err);
/* Makes cells twice as large. */
int heapmap_coarsen(struct heapmap *h, struct error *err);

uint64_t heapmap_cell_bytes(const struct heapmap *h);
/* Rows by address; *address: of the first cell. NULL behind the last. [HEAPMAP_COLUMNS] */
const struct heapmap_cell *heapmap_row(const struct heapmap *h, size_t row, size_t moment,
                                       uint64_t *address);

#endif
