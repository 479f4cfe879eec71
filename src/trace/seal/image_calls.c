/* image_calls.c - Turns call rows into changes of the live blocks and into events. The common
 * case is compiled separately, without checks for faults, folding or silence. A row that does
 * not fit the live blocks may wait for one behind it that repairs the order. */
#include "image_impl.h"

#include "block_fill.h"

/* Inlined twice, with constants for `plain`: whether rows only change the live blocks and become
 * events, as they nearly always do, and nothing else looks at them. The functions that take a row
 * return 0, -1 with *err, or PUT_OFF: nothing was done, and another row may be next. */
#define EACH_ROW static inline __attribute__((always_inline))
#define PUT_OFF  1

static int calls_no_memory(struct error *err) { return error_memory_for(err, "sealing"); }

static bool is_plain(const struct image_work *g) { return !g->silent && !g->faulted && !g->carry; }

/* The row that is next does not fit the live blocks, and makes room for one that repairs that. */
static bool put_off(struct image_work *g)
{
    return g->raw->threads > 1 && ahead_put_off(&g->ahead, g->time);
}

int image_write_block(struct image_work *g, struct error *err)
{
    if (block_writer_empty(g->blocks))
        return 0;
    return image_names_write(g, err) || block_writer_flush(g->blocks, err) ? -1 : 0;
}

/* An event, of a kind as of block_fill. */
EACH_ROW int add_call_event(struct image_work *g, bool plain, unsigned what,
                            const struct block_event *e, bool is_call, struct error *err)
{
    if (!plain && g->silent) {
        const struct block_event silent = *e;
        return carry_count(g, &silent, is_call) ? 0 : calls_no_memory(err);
    }
    return block_fill(g->blocks, what, e, is_call, err);
}

/* After the live table is up to date. */
EACH_ROW int settle_call(struct image_work *g, bool plain, struct error *err)
{
    return (plain || !g->silent) && block_fill_is_full(g->blocks) ? image_write_block(g, err) : 0;
}

EACH_ROW void end_live_block(struct image_work *g, bool plain, uint32_t slot, size_t at)
{
    if (!plain)
        faulted_end(g->faulted, g->live.blocks[slot].address, g->live.blocks[slot].usable);
    live_remove_at(&g->live, slot, at);
}

/* In the live table, at its place, and as an event. */
EACH_ROW int begin_block(struct image_work *g, bool plain, struct block_event *e, uint32_t stack,
                         uint32_t turn, size_t at, bool is_call, struct error *err)
{
    const uint32_t slot = live_add_at(&g->live, e->address, e->size, at);
    if (slot == LIVE_NONE)
        return calls_no_memory(err);
    struct live_block *b = &g->live.blocks[slot];
    b->usable = e->usable;
    b->born = g->allocs++;
    b->stack = stack;
    b->thread = e->thread;
    b->turn = turn;
    b->op = e->op;
    b->path = e->path;
    e->kind = TRACE_ALLOC;
    e->slot = slot;
    if (!plain) {
        const struct block_event event = *e;
        if (g->silent && !carry_origin(g, slot, &event))
            return calls_no_memory(err);
        faulted_begin(g->faulted, e->address, e->usable, e->stack, g->tid);
    }
    return add_call_event(g, plain, TRACE_ALLOC, e, is_call, err) ? -1 : settle_call(g, plain, err);
}

int image_begin_block(struct image_work *g, const struct block_event *e, uint32_t stack,
                      uint32_t turn, bool is_call, struct error *err)
{
    struct block_event event = *e;
    size_t at;
    if (!live_reserve(&g->live))
        return calls_no_memory(err);
    live_find_at(&g->live, e->address, &at);
    return begin_block(g, false, &event, stack, turn, at, is_call, err);
}

/* Takes a row that begins and ends no block. */
static int take_other(struct image_work *g, const struct mlw_row *r, uint32_t thread, unsigned path,
                      bool is_call, struct error *err)
{
    struct block_event e = {
        .kind = TRACE_OTHER,
        .op = r->op,
        .path = (uint8_t)(r->path | path),
        .route = (uint8_t)r->route,
        .thread = thread,
        .slot = TRACE_NO_SLOT,
        .stack = mlw_op_fields(r->op) & MLW_F_STACK ? image_dense_id(g, r->stack) : 0,
        .tick = timebase_tick(g->time, r->clock),
        .size = r->size,
        .address = r->address,
        .argument = r->argument};
    if (e.stack == UINT32_MAX)
        return calls_no_memory(err);
    if (mlw_op_is(r->op, MLW_CLASS_UNMAP | MLW_CLASS_REMAP_OLD) && !path)
        faulted_unmap(g->faulted, r->address, r->size);
    else if (mlw_op_is(r->op, MLW_CLASS_MAP | MLW_CLASS_REMAP_NEW) && !(r->path & MLW_PATH_FAILED))
        faulted_map(g->faulted, r->address, r->size, e.stack);
    return add_call_event(g, false, TRACE_OTHER, &e, is_call, err) ? -1
                                                                   : settle_call(g, false, err);
}

/* A release of nothing that lives. */
static int take_vain_release(struct image_work *g, const struct mlw_row *r, uint32_t thread,
                             bool is_call, struct error *err)
{
    if (r->address && put_off(g))
        return PUT_OFF;
    const struct block_event e = {.kind = r->address ? TRACE_FREE_UNKNOWN : TRACE_OTHER,
                                  .op = r->op,
                                  .path = r->path,
                                  .route = (uint8_t)r->route,
                                  .thread = thread,
                                  .slot = TRACE_NO_SLOT,
                                  .tick = timebase_tick(g->time, r->clock),
                                  .size = r->size,
                                  .address = r->address,
                                  .argument = r->argument};
    return add_call_event(g, false, TRACE_OTHER, &e, is_call, err) ? -1
                                                                   : settle_call(g, false, err);
}

EACH_ROW int take_release(struct image_work *g, bool plain, const struct mlw_row *r,
                          uint32_t thread, uint32_t turn, bool is_call, struct error *err)
{
    size_t at;
    const uint32_t slot = r->address ? live_find_at(&g->live, r->address, &at) : LIVE_NONE;
    if (__builtin_expect(slot == LIVE_NONE, 0))
        return take_vain_release(g, r, thread, is_call, err);
    const struct live_block *b = &g->live.blocks[slot];
    const bool temporary = b->thread == thread && b->turn == turn;
    const struct block_event e = {.kind = temporary ? TRACE_FREE_TEMP : TRACE_FREE,
                                  .op = r->op,
                                  .path = r->path,
                                  .route = (uint8_t)r->route,
                                  .thread = thread,
                                  .slot = slot,
                                  .tick = timebase_tick(g->time, r->clock),
                                  .size = r->size,
                                  .address = r->address,
                                  .argument = r->argument};
    if (add_call_event(g, plain, TRACE_FREE, &e, is_call, err))
        return -1;
    end_live_block(g, plain, slot, at);
    return settle_call(g, plain, err);
}

/* The block at the address has not ended, as far as is known. */
static int take_missed_release(struct image_work *g, const struct mlw_row *r, uint32_t thread,
                               struct error *err)
{
    size_t at;
    if (put_off(g))
        return PUT_OFF;
    const uint32_t stack = image_dense_id(g, r->stack); /* as if the allocation came first */
    const uint32_t slot = live_find_at(&g->live, r->address, &at);
    const struct block_event e = {.kind = TRACE_FREE_INFERRED,
                                  .thread = thread,
                                  .slot = slot,
                                  .tick = timebase_tick(g->time, r->clock)};
    if (stack == UINT32_MAX)
        return calls_no_memory(err);
    if (add_call_event(g, false, TRACE_FREE, &e, false, err))
        return -1;
    end_live_block(g, false, slot, at);
    return settle_call(g, false, err);
}

EACH_ROW int take_allocation(struct image_work *g, bool plain, const struct mlw_row *r,
                             uint32_t thread, uint32_t *turn, struct error *err)
{
    if (__builtin_expect(!r->address || r->path & MLW_PATH_FAILED, 0))
        return take_other(g, r, thread, 0, true, err);
    size_t at;
    if (__builtin_expect(!live_reserve(&g->live), 0))
        return calls_no_memory(err);
    if (__builtin_expect(live_find_at(&g->live, r->address, &at) != LIVE_NONE, 0)) {
        const int status = take_missed_release(g, r, thread, err);
        if (status)
            return status;
        live_find_at(&g->live, r->address, &at);
    }
    struct block_event e = {.op = r->op,
                            .path = r->path,
                            .route = (uint8_t)r->route,
                            .thread = thread,
                            .stack = image_dense_id(g, r->stack),
                            .tick = timebase_tick(g->time, r->clock),
                            .size = r->size,
                            .usable = r->usable,
                            .address = r->address,
                            .argument = r->argument};
    if (__builtin_expect(e.stack == UINT32_MAX, 0))
        return calls_no_memory(err);
    return begin_block(g, plain, &e, r->stack, ++*turn, at, true, err);
}

static int take_rest(struct image_work *g, const struct merge_row *a, uint32_t thread,
                     struct error *err)
{
    const struct mlw_row *r = &a->row;
    switch (mlw_op_class(r->op)) {
    case MLW_CLASS_REMAP_OLD: return a->failed ? 0 : take_other(g, r, thread, 0, false, err);
    case MLW_CLASS_UNMAP:
        return take_other(g, r, thread, a->failed ? MLW_PATH_FAILED : 0, true, err);
    case MLW_CLASS_UNMAP_UNDO: return 0;
    default: return take_other(g, r, thread, 0, true, err);
    }
}

EACH_ROW int take_call(struct image_work *g, bool plain, const struct merge_row *a, uint32_t thread,
                       struct image_thread *th, struct error *err)
{
    const struct mlw_row *r = &a->row;
    if (mlw_op_is(r->op, MLW_CLASS_MAKES))
        return take_allocation(g, plain, r, thread, &th->turn, err);
    if (mlw_op_is(r->op, MLW_CLASS_RELEASE))
        return take_release(g, plain, r, thread, th->turn, true, err);
    if (!mlw_op_is(r->op, MLW_CLASS_RESIZE_OLD))
        return take_rest(g, a, thread, err);
    /* A realloc of nothing releases nothing, a realloc that fails neither. */
    return !r->address || a->failed ? 0 : take_release(g, plain, r, thread, th->turn, false, err);
}

/* The calls at hand, as long as they are of the stream of the first one and before `until`, and at
 * most `most`: how many, or -1 with *err. */
EACH_ROW int64_t take_calls(struct image_work *g, bool plain, uint64_t until, uint64_t most,
                            struct error *err)
{
    struct ahead *const a = &g->ahead;
    struct merge_row *const first = a->next;
    const struct raw_stream *const stream = first->stream;
    const uint32_t thread = stream->thread_index;
    struct image_thread *const th = &g->threads[thread];
    const uint64_t calls_before = g->calls;
    struct merge_row *r = first, *const end = most < (uint64_t)(a->end - r) ? r + most : a->end;
    uint64_t last = th->end;
    int status = 0;
    g->tid = th->tid;
    do {
        const uint64_t clock = r->row.clock;
        if (clock >= until && until != UINT64_MAX)
            break;
        last = clock > last ? clock : last;
        if (clock > g->last_clock)
            g->last_clock = clock;
        if (!plain)
            faulted_until(g->faulted, clock);
        ahead_prefetch(a, r, &g->live);
        const unsigned is_call = (unsigned)mlw_op_is_call(r->row.op);
        if (__builtin_expect((status = take_call(g, plain, r, thread, th, err)) != 0, 0))
            break;
        g->calls += is_call;
        if (!plain && g->carry)
            carry_taken(g, r);
        a->next = ++r;
    } while (r < end && r->stream == stream && r->row.op != MLW_OP_META);
    th->end = last;
    th->calls += g->calls - calls_before;
    return status < 0 ? -1 : r - first;
}

/* The next row, and others behind it, as take_calls. */
static int64_t take_next(struct image_work *g, const struct merge_row *r, bool plain,
                         uint64_t until, uint64_t most, struct error *err)
{
    const uint32_t thread = r->stream->thread_index;
    struct image_thread *const th = &g->threads[thread];
    th->tid = r->stream->tid;
    if (r->row.op == MLW_OP_META) {
        if (g->carry)
            carry_taken(g, r);
        g->ahead.next++;
        return image_take_meta(g, &r->row, thread, err) ? -1 : 1;
    }
    if (!th->start) {
        th->start = r->row.clock;
        most = 1; /* there is always one: it may be 0 */
        if (image_thread_due(g, thread))
            return calls_no_memory(err);
    }
    return plain ? take_calls(g, true, until, most, err) : take_calls(g, false, until, 1, err);
}

int image_run(struct image_work *g, uint64_t until, uint64_t rows, struct error *err)
{
    struct ahead *const a = &g->ahead;
    const bool plain = is_plain(g);
    while (rows) {
        if (a->next == a->end && ahead_fill(a, err) < 0)
            return -1;
        const struct merge_row *const r = a->next < a->end ? a->next : NULL;
        if (g->silent && carry_is_due(g, r, until)) {
            if (!carry_speaks(g))
                return 0;
            if (carry_speak(g, err))
                return -1;
        }
        if (!r)
            return 0;
        if (until != UINT64_MAX && r->row.clock >= until)
            return 1;
        const int64_t n = take_next(g, r, plain, until, rows, err);
        if (n < 0)
            return -1;
        rows -= (uint64_t)n;
    }
    return 2;
}
