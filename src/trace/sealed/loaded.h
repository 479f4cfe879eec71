/* loaded.h - the columns of one block of events, out of the file and unpacked.
 *
 * Owns: reading them, and whether their lengths fit the block's codes. Each block stands alone, so
 * any thread may load any block; of the store nothing is changed. What the columns say together is
 * for cursor.h. Memory: the columns of one block, as long as they are in the file, unpacked. */
#ifndef MALLOW_TRACE_SEALED_LOADED_H
#define MALLOW_TRACE_SEALED_LOADED_H

#include "numbers.h"
#include "store.h"

#define BATCH 4096u /* events of a block that are given out at a time */

/* Counts from the codes of a batch. */
struct code_counts {
    uint16_t allocs, refs, others; /* refs: with a reference that is written */
    uint16_t mixed; /* ALLOCs without size or stack, and other events that have one of them */
};

enum loaded_state {
    LOADED,
    LOADED_NOT_THERE, /* no sound block is at the offset any more */
    LOADED_DAMAGED,   /* its head is sound, its columns are not */
    LOADED_FAILED     /* err says why */
};

struct loaded {
    enum loaded_state state;
    struct error err;
    struct store_block *block;
    struct section_head head; /* valid unless NOT_THERE, or FAILED before it was read */
    bool has_head;
    struct bytes code, threads_text, address, path, route, far, other, argument, scratch;
    struct numbers thread, reference, size, stack, time, usable;
    uint32_t *thread_of; /* local number to the image's, [threads] */
    uint32_t threads;
    size_t thread_cap;
    struct code_counts *counts; /* by number of the batch in the block */
    size_t counts_cap;
    ZSTD_DCtx *z;
};

/* Kinds of events that neither begin a block nor end a known one, a bit each. */
#define OTHER_KINDS (1u << TRACE_FREE_UNKNOWN | 1u << TRACE_OTHER | 1u << 7)

/* False without memory. */
bool loaded_make(struct loaded *l);
void loaded_release(struct loaded *l);
/* Loads a block of the image with the columns that enum trace_column asks for. */
void loaded_read(struct loaded *l, const struct store *s, const struct trace_image *image,
                 struct store_block *block, unsigned columns);

#endif
