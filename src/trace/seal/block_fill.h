/* block_fill.h - the block of columns in the making.
 *
 * Owns: how an event becomes an entry of each column that it has. Inline, since there is one for
 * every call of a program: image_calls.c and block_write.c include it, no other file does. One
 * thread. */
#ifndef MALLOW_TRACE_SEAL_BLOCK_FILL_H
#define MALLOW_TRACE_SEAL_BLOCK_FILL_H

#include "block_write.h"

struct block_writer {
    struct pack pack;
    struct columns *now, *spare; /* the block in the making; what another is made in, or NULL */
    struct packer *packer;       /* NULL: this thread packs */
    bool may_start;              /* a packer may be started, and is not yet */
    bool continues;              /* the block given to the packer is the image's last so far */
    uint32_t limit;              /* events of a block */
    struct block_position at;    /* the image's state: of events and allocs, before the block */
    /* the block in the making */
    uint32_t n, refs, sizes, stacks, allocs, threads, places;
    uint32_t others; /* events that are no calls */
    uint64_t first_tick, first_alloc, max_live_bytes;
    uint32_t argument_event;
    uint64_t other_last;
    bool epoch, any_path, any_route;
    uint32_t thread,
        local; /* the thread of the event before, and its local number; UINT32_MAX: none */
    uint64_t *thread_mark; /* by thread: block stamp << 32 | local number */
    size_t thread_cap;
    uint32_t stamp;
    uint32_t *thread_last; /* by local number: slot of its last allocation in this block */
    size_t thread_last_cap;
};

/* Prepares for an event of another thread than the last, and for the first event of a block.
 * Returns false without memory. */
bool block_fill_turn(struct block_writer *b, uint64_t tick, uint32_t thread);
/* Adds the fields that few events have. */
void block_fill_other(struct block_writer *b, uint64_t address);
void block_fill_no_paths(struct block_writer *b, uint32_t before);
void block_fill_no_routes(struct block_writer *b, uint32_t before);
void block_fill_argument(struct block_writer *b, uint32_t i, uint64_t argument);

/* True if it must be flushed (after the table is brought up to date) before the next event. */
static inline bool block_fill_is_full(const struct block_writer *b) { return b->n == b->limit; }

/* The column is written from the first path on. */
static inline void block_fill_path(struct block_writer *b, uint32_t i, unsigned path)
{
    if (!b->any_path)
        block_fill_no_paths(b, i);
    b->now->path[i] = (uint8_t)path;
}

static inline void block_fill_route(struct block_writer *b, uint32_t i, unsigned route)
{
    if (!b->any_route)
        block_fill_no_routes(b, i);
    b->now->route[i] = (uint8_t)route;
}

/* Notes the place of a block that begins or ends; packing makes the columns of addresses and
 * usable sizes from these. address: 0 if the reader does not know it. */
static inline void block_fill_place(struct block_writer *b, uint64_t address, uint64_t usable)
{
    b->now->where[b->places] = address;
    b->now->usable[b->places++] = usable;
}

static inline void block_fill_alloc(struct block_writer *b, const struct block_event *e)
{
    const struct live *l = b->at.live;
    struct columns *c = b->now;
    c->began[b->allocs++] = e->slot;
    block_fill_place(b, e->address, e->usable);
    b->thread_last[b->local] = e->slot;
    if (l->bytes > b->max_live_bytes)
        b->max_live_bytes = l->bytes;
}

/* Returns the kind as it is written. */
static inline unsigned block_fill_release(struct block_writer *b, const struct block_event *e)
{
    const struct live_block *block = &b->at.live->blocks[e->slot];
    struct columns *c = b->now;
    const uint64_t place = block->born - b->first_alloc; /* in this block, if it began here */
    unsigned kind = e->kind;
    uint32_t distance = e->slot << 1 | 1;
    if (place < b->allocs) {
        c->began[place] = TRACE_NO_SLOT;
        distance = (uint32_t)(b->allocs - 1 - place) << 1;
        if (kind == TRACE_FREE_TEMP && b->thread_last[b->local] == e->slot)
            goto tell;
    }
    c->distance[b->refs] = distance;
    c->ref[b->refs++] = e->slot;
    if (kind == TRACE_FREE_TEMP)
        kind = SEAL_KIND_TEMP_WRITTEN;
tell:
    block_fill_place(b, block->born >= b->at.epoch_alloc ? block->address : 0, block->usable);
    return kind;
}

/* As block_writer_add. `what`, a constant: TRACE_ALLOC, TRACE_FREE of a block that ends (one of
 * three kinds), or TRACE_OTHER. */
static inline __attribute__((always_inline)) int block_fill(struct block_writer *b, unsigned what,
                                                            const struct block_event *e,
                                                            bool is_call, struct error *err)
{
    if (__builtin_expect(e->thread != b->thread, 0) && !block_fill_turn(b, e->tick, e->thread))
        return error_memory_for(err, "sealing");
    struct columns *c = b->now;
    const uint32_t i = b->n++;
    unsigned kind = e->kind;
    if (what == TRACE_ALLOC)
        block_fill_alloc(b, e);
    else if (what == TRACE_FREE)
        kind = block_fill_release(b, e);
    else
        block_fill_other(b, e->address);
    c->code[i] = (uint8_t)(kind << 5 | e->op);
    if (b->threads > 1)
        c->thread[i] = b->local;
    const uint64_t before = b->at.tick, tick = e->tick < before ? before : e->tick;
    c->time[i] = tick - before;
    b->at.tick = tick;
    if (what == TRACE_ALLOC || seal_has_size(e->op))
        c->size[b->sizes++] = e->size;
    if (what == TRACE_ALLOC || (what == TRACE_OTHER && seal_has_stack(e->op)))
        c->stack[b->stacks++] = e->stack;
    if (e->path | b->any_path)
        block_fill_path(b, i, e->path);
    if (e->route | b->any_route)
        block_fill_route(b, i, e->route);
    if (__builtin_expect(e->argument != 0, 0))
        block_fill_argument(b, i, e->argument);
    b->others += !is_call;
    return 0;
}

#endif
