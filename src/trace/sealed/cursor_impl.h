/* cursor_impl.h - what the parts of the reader of one image share: cursor.c goes from block to
 * block, loaded.c reads and unpacks their columns, cursor_events.c turns these into batches,
 * decoder.c does all of that ahead of the caller. No other file includes it. One thread a cursor,
 * and those that load blocks for it; of the store, they change nothing (cursor_settle does). */
#ifndef MALLOW_TRACE_SEALED_CURSOR_IMPL_H
#define MALLOW_TRACE_SEALED_CURSOR_IMPL_H

#include "cursor.h"

#include "base/pieces.h"
#include "loaded.h"
#include "trace/timebase.h"

#define SPARE (BATCH + 16) /* entries below and above the stack that a bad block may touch */
#define POISON                                                                                     \
    (UINT32_MAX - 1) /* a free slot whose number was lost; a thread without a last block */

/* The arrays of a batch. Room for twice BATCH: after damage, events may be added. */
struct arrays {
    uint8_t *kind, *op, *path, *route;
    uint32_t *slot, *thread, *stack;
    uint64_t *size, *time, *address, *usable, *argument;
    /* only for ALLOCs */
    uint32_t *begun_stack;
    uint64_t *begun_size, *begun_usable, *begun_address;
    size_t begun;
    bool argued; /* some arguments are not 0 */
    bool each;   /* size, stack and usable are valid for each event */
};

#define CURSOR_ENTRIES          (BATCH + 16)
#define CURSOR_DEGRADED_ENTRIES (2 * BATCH + 16)

/* Findings about blocks, for the store. */
struct cursor_finding {
    struct store_block *block;
    uint32_t lost_calls; /* it was read to its end, except for this many calls; or */
    bool damaged;        /* it is damaged */
};
struct cursor_found {
    struct cursor_finding *items;
    size_t count, cap;
    bool failed; /* no memory for one */
};

struct slot_place { /* the block that a slot names, or named last */
    uint64_t address;
    uint32_t epoch;
    uint8_t class; /* the class of its size, see predict.h */
};

struct cursor {
    struct store *store;
    const struct trace_image *image;
    struct store_image *detail;
    uint32_t image_index;
    unsigned columns;
    uint64_t to_ns;

    /* loading ahead */
    struct pieces *pieces;
    struct loaded *places;
    unsigned place_count;
    uint64_t blocks_left; /* to be taken from it */

    /* the block that is being given out */
    struct loaded *in;
    struct store_block *block; /* NULL: none is */
    uint32_t at;               /* events given out */
    uint32_t block_lost;       /* calls of it that cannot be decoded, so far */
    struct span far_rest, other_rest, argument_rest;
    uint32_t alloc_at;
    uint64_t tick, other_last;
    uint32_t argument_event; /* the next that has one, UINT32_MAX for none */
    uint64_t argument_value;
    uint32_t *thread_last;
    size_t thread_cap;

    /* the mirror of the slots: stack[SPARE + i] is entry i */
    uint32_t *free_slots;
    size_t stack_cap;
    uint32_t top, used;
    uint32_t *recent; /* slots of the allocations of this block of events, a ring */
    uint32_t recent_mask, slot_allocs;

    /* after damage */
    uint64_t
        state_number; /* the state number of the block that the mirror is the state before of */
    uint32_t *ended;  /* blocks that the caller knows and that ended in a lost range */
    size_t ended_n, ended_cap;
    bool degraded;
    uint8_t *known; /* by slot: the caller saw the block begin, and not end */
    size_t known_cap;
    bool dropped; /* events were dropped since the last address epoch */

    /* addresses */
    struct predict predict;
    struct slot_place *slots;
    size_t slot_cap;
    uint32_t epoch;
    bool address_lost; /* until the next address epoch */

    struct cursor_found found; /* since the last cursor_settle */
    uint64_t given;            /* events given out before this batch */
    struct arrays a, b;
    uint32_t *ref_temp;
    uint64_t *u64_temp;
    uint8_t *keep;
    uint32_t *source;
};

static inline int no_memory(struct error *err)
{
    return error_memory_for(err, "reading the recording");
}

static inline bool wants(const struct cursor *c, unsigned column)
{
    return (c->columns & column) != 0;
}

/* Decodes the next n events of the block. Returns false if the content is impossible although
 * the checksums are right; then *given events are in the arrays at *from. */
bool cursor_take(struct cursor *c, uint32_t n, struct arrays **from, uint32_t *given);
/* Call it before the first events of a block. Returns 0, or -1 with *err. */
int cursor_take_begin(struct cursor *c, struct error *err);

/* Notes something for cursor_settle. */
void cursor_find(struct cursor *c, struct cursor_finding finding);

bool cursor_arrays_make(struct arrays *a, size_t n);
void cursor_arrays_free(struct arrays *a);
/* As cursor_next, but findings about blocks stay in c->found. */
int cursor_decode(struct cursor *c, struct trace_batch *batch, struct error *err);
/* Moves findings into the store. Call it in the thread that reads the store's info. */
void cursor_settle(struct cursor *c, struct cursor_found *found);
/* Makes a batch of the first n entries of the arrays, of which `begun` begin blocks. */
void cursor_give(struct cursor *c, const struct arrays *a, size_t n, struct trace_batch *batch);
/* Makes room in the stack of free slots, with its spare entries, or in `known`. Returns false
 * without memory. */
bool cursor_stack_room(struct cursor *c, size_t entries);
bool cursor_known_room(struct cursor *c, size_t slots);
/* Brings the mirror of the slots to the state before the current block, whose head is read, as
 * far as that can be known. exact: only the one block before it is missing. Returns 0, or -1
 * with *err. */
int cursor_resync(struct cursor *c, bool exact, struct error *err);
/* Makes a batch of inferred releases for blocks that ended in a lost range. */
void cursor_give_ended(struct cursor *c, struct trace_batch *batch);

#endif
