/* kept.h - the index of a sealed recording: the findings of readers, kept behind END.
 *
 * Owns: the INDEX section (docs/format.md), which of those in a file hold, and how more are put
 * there. An index is no part of the recording: readers may do without, and a part that is not sound
 * is not there. A file is written to when it may be changed in place (trace.c decides), its mode
 * lets its owner write, and no other process added to it meanwhile; a kill at any moment leaves the
 * recording as it is. Refuses: to know what the columns mean. One thread. */
#ifndef MALLOW_TRACE_SEALED_KEPT_H
#define MALLOW_TRACE_SEALED_KEPT_H

#include "numbers.h"
#include "store.h"

/* Raise it when the parts or their meaning change. The version of mallow counts as well. */
#define KEPT_VERSION 4u

#define KEPT_COLUMNS_MOST 24u
#define KEPT_COUNTS       1u /* column: varints: id of a column, how many numbers or bytes it has */

/* All parts together may take a quarter of the recording, plus this. */
#define KEPT_BYTES (8u << 20)

struct kept_column {
    unsigned id;
    uint64_t n;
};

/* A part as it is read. */
struct kept_reading {
    int fd;
    struct section_head head;
    struct kept_column columns[KEPT_COLUMNS_MOST];
    size_t column_count;
    struct numbers numbers;
    struct bytes scratch, bytes;
    ZSTD_DCtx *z;
};

/* A part that is made. */
struct kept_making {
    struct section section;
    struct seal_writer writer; /* compresses only */
    struct bytes counts, scratch;
};

uint64_t kept_made_by(void);

/* Finds a valid part of the index. If it returns true, the caller calls kept_close. */
bool kept_open(struct kept_reading *r, const struct store *s, uint32_t image, uint64_t kind,
               uint64_t key);
void kept_close(struct kept_reading *r);
/* Returns how many numbers or bytes the column has; 0 if it is missing. */
uint64_t kept_count(const struct kept_reading *r, unsigned column);
/* Reads all n numbers of a column. Returns false if they are damaged, or without memory. */
bool kept_numbers(struct kept_reading *r, unsigned column, uint64_t *to, size_t n);
/* See trace_kept_table. */
bool kept_table(struct kept_reading *r, unsigned first, unsigned columns, size_t n,
                trace_kept_take *take, void *arg);
/* Returns the bytes of a column, valid until the next call. NULL as above. */
const uint8_t *kept_bytes(struct kept_reading *r, unsigned column);

/* False without memory. */
bool kept_begin(struct kept_making *k, const struct store *s, uint32_t image, uint64_t kind,
                uint64_t key);
void kept_put_numbers(struct kept_making *k, unsigned column, const uint64_t *v, size_t n);
void kept_put_bytes(struct kept_making *k, unsigned column, const void *data, size_t n);
/* Completes a part after its last column. Returns false without memory; then the part cannot be
 * kept. */
bool kept_end(struct kept_making *k);
void kept_drop(struct kept_making *k);

/* Writes parts into the file behind the valid ones, and removes those that are not valid.
 * Returns true if the parts are in the file. A failure does not concern the caller's result. */
bool kept_write(const struct store *s, struct kept_making *const *parts, size_t count);

#endif
