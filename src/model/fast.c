/* fast.c - the loop for the common question: everything, no filter.
 *
 * A batch is cut where notes are due, and where the live bytes were highest. Of each part, one loop
 * follows the live blocks and lists what the releases released; what does not depend on the order
 * of events is then added up in loops of its own, each over the few columns that it needs. What can
 * be derived afterwards is not counted: a stack or a thread holds its allocated bytes less the
 * released ones (model_finish puts them together), and calls of malloc and free are all those that
 * no other operation made. */
#include "model/state.h"

#include <stdlib.h>

#define PART         1024u /* events, at most: what follows finds the lists in the first cache */
#define BLOCKS_AHEAD 16u
#define STACKS_AHEAD 16u

/* Kept by the model between batches. */
struct model_scratch {
    /* Blocks that were released, in order: time_ns is their age, state whether they were temporary.
     */
    struct model_block freed[PART + 2 * STACKS_AHEAD];
    /* blocks that began, where the batch does not have them */
    uint64_t size[PART], usable[PART];
    uint32_t stack[PART];
};

/* How far it has come: among the blocks that began, and those that were released. */
struct progress {
    size_t made, freed;
};

/* A part of a batch in which nothing is due. */
struct part {
    const struct trace_batch *b;
    size_t from, to;
    const uint64_t *size, *usable; /* the blocks that begin in it, [made] */
    const uint32_t *stack;
    size_t made;
    struct model_block *freed;
    struct progress end;
    uint64_t usable_bytes; /* the usable bytes of the blocks that began */
    bool higher;           /* the live bytes were, than ever before: at the end of */
    struct progress peak;
};

/* The events of one thread in a row. */
struct run {
    uint32_t thread;
    struct progress from;
    uint64_t requested, released, temporary; /* bytes, bytes, blocks */
};

static void end_model_run(struct model *m, const struct run *r, struct progress to)
{
    struct model_thread *const t = &m->threads[r->thread];
    t->allocations += to.made - r->from.made;
    t->allocated_bytes += r->requested;
    t->releases += to.freed - r->from.freed;
    t->live_bytes -= r->released;
    t->temporary += r->temporary;
    m->totals.requested_bytes += r->requested;
    m->totals.temporary += r->temporary;
}

/* A block that another thread made, or none of this process. */
static __attribute__((noinline)) void
freed_elsewhere(struct model *m, uint32_t thread, const struct model_block *block, unsigned kind)
{
    const uint32_t owner = block->thread;
    m->threads[thread].live_bytes += block->size_bytes; /* end_model_run takes it off */
    if (owner == NO_THREAD)
        return;
    m->threads[owner].live_bytes -= block->size_bytes;
    if (kind == TRACE_FREE_INFERRED)
        return;
    m->totals.cross_thread_frees++;
    m->threads[thread].foreign_frees++;
    m->threads[owner].freed_elsewhere++;
}

/* By another operation than malloc, or with a mapping of its own. */
static __attribute__((noinline)) void made_seldom(struct model *m, unsigned op, uint32_t thread,
                                                  struct model_block *block)
{
    m->totals.calls[MLW_OP_MALLOC]--;
    m->totals.calls[op]++;
    if (mlw_op_is(op, MLW_CLASS_RESIZE_NEW))
        model_realloc_new(m, thread, block);
    if (block->place & MODEL_MMAPPED)
        model_mapping_made(m, op, block->size_bytes, block->time_ns);
}

static __attribute__((noinline)) void freed_seldom(struct model *m, unsigned op, uint32_t thread,
                                                   const struct model_block *block,
                                                   uint64_t time_ns)
{
    m->totals.calls[MLW_OP_FREE]--;
    m->totals.calls[op]++;
    model_release_seldom(m, thread, op, block, time_ns);
}

/* The state of a live block that was never resized. */
static const struct model_block plain[MODEL_PLACES] = {
    {.place = 0, .state = BLOCK_COUNTED},
    {.place = 1, .state = BLOCK_COUNTED},
    {.place = 2, .state = BLOCK_COUNTED},
    {.place = 3, .state = BLOCK_COUNTED},
};

/* The state that follow_blocks() keeps in registers: every function that has it is inlined. */
struct walk {
    struct model *m;
    struct part *p;
    struct run *run;
    const uint8_t *ops, *paths; /* the batch's; the compiler could take a block's values for them */
    const uint64_t *times, *sizes, *usables;
    const uint32_t *stacks;
    struct model_block *list;
    uint32_t main, other;                     /* tails of blocks that were never resized */
    uint64_t live, high;                      /* live bytes; the most of this bin */
    uint64_t requested, temporary, live_then; /* since the run began, or this walk did */
    uint64_t given, kept; /* usable bytes in `here`: that began, and less ended */
    unsigned here;        /* enum model_place */
    uint32_t thread;
    struct progress at;
};

#define WALK_INLINE static inline __attribute__((always_inline))

WALK_INLINE void settle_place(struct walk *w)
{
    w->m->live_usable[w->here] += w->kept;
    w->p->usable_bytes += w->given;
    w->kept = w->given = 0;
}

WALK_INLINE void settle_run(struct walk *w)
{
    w->run->requested += w->requested;
    w->run->released += w->requested - (w->live - w->live_then);
    w->run->temporary += w->temporary;
}

WALK_INLINE void change_thread(struct walk *w, uint32_t thread)
{
    settle_run(w);
    end_model_run(w->m, w->run, w->at);
    w->thread = thread;
    *w->run = (struct run){.thread = thread, .from = w->at};
    w->requested = w->temporary = 0;
    w->live_then = w->live;
}

/* More bytes are live than before in this bin. */
WALK_INLINE void note_high(struct walk *w, uint64_t time_ns)
{
    struct model_totals *const t = &w->m->totals;
    w->high = w->live;
    if (w->live <= t->peak_bytes)
        return;
    t->peak_bytes = w->live;
    t->peak_time_ns = time_ns;
    settle_place(w);
    __builtin_memcpy(t->peak_usable, w->m->live_usable, sizeof t->peak_usable);
    w->p->higher = true;
    w->p->peak = w->at;
}

WALK_INLINE void follow_made(struct walk *w, struct model_block *block, size_t i,
                             const bool uniform)
{
    const size_t made = w->at.made;
    const uint64_t size_bytes = w->sizes[made];
    uint64_t extra = w->usables[made] - size_bytes;
    if (!uniform && __builtin_expect(model_place_of(w->paths[i]) != w->here, 0)) {
        settle_place(w);
        w->here = model_place_of(w->paths[i]);
    }
    block->size_bytes = size_bytes;
    block->time_ns = w->times[i];
    block->stack = w->stacks[made];
    block->usable_extra = (uint32_t)extra;
    block->thread = w->thread;
    block->tail = plain[w->here].tail;
    if (__builtin_expect(extra > UINT32_MAX, 0)) {
        extra = w->usables[made] > size_bytes ? extra : 0;
        block->usable_extra = extra ? UINT32_MAX : 0;
    }
    w->given += size_bytes + extra;
    w->kept += size_bytes + extra;
    w->requested += size_bytes;
    w->live += size_bytes;
    w->at.made++;
    if (__builtin_expect((w->ops[i] != MLW_OP_MALLOC) | (w->here & MODEL_MMAPPED), 0))
        made_seldom(w->m, w->ops[i], w->thread, block);
    if (w->live > w->high)
        note_high(w, w->times[i]);
}

WALK_INLINE void follow_freed(struct walk *w, struct model_block *block, size_t i, unsigned kind)
{
    const uint32_t tail = block->tail;
    const uint64_t size_bytes = block->size_bytes, usable = size_bytes + block->usable_extra;
    if (__builtin_expect(block->state == BLOCK_NONE, 0)) { /* only in a damaged file */
        model_add_careful(w->m, w->p->b, i, i + 1, 0, false);
        return;
    }
    struct model_block *const l = &w->list[w->at.freed++];
    l->size_bytes = size_bytes;
    l->time_ns = w->times[i] - block->time_ns;
    l->stack = block->stack;
    l->state = kind == TRACE_FREE_TEMP;
    w->live -= size_bytes;
    w->temporary += kind == TRACE_FREE_TEMP;
    if (__builtin_expect(block->place == w->here, 1))
        w->kept -= usable;
    else
        w->m->live_usable[block->place] -= usable;
    if (__builtin_expect(block->thread != w->thread, 0))
        freed_elsewhere(w->m, w->thread, block, kind);
    if (__builtin_expect((w->ops[i] != MLW_OP_FREE) | ((tail != w->main) & (tail != w->other)), 0))
        freed_seldom(w->m, w->ops[i], w->thread, block, w->times[i]);
    block->state = BLOCK_NONE;
}

/* Follows the live blocks through the events [from, to) of a part. ahead: those behind can be
 * looked at. uniform: all are of the run's thread, and all that begin in the place of the first. */
WALK_INLINE void follow_blocks(struct model *m, struct part *p, struct run *run, size_t from,
                               size_t to, const bool ahead, const bool uniform)
{
    const struct trace_batch *const b = p->b;
    const uint8_t *const kinds = b->kind;
    const uint32_t *const slots = b->slot, *const threads = b->thread;
    struct model_block *const blocks = m->blocks;
    struct walk w = {.m = m,
                     .p = p,
                     .run = run,
                     .ops = b->op,
                     .paths = b->path,
                     .times = b->time_ns,
                     .sizes = p->size,
                     .usables = p->usable,
                     .stacks = p->stack,
                     .list = p->freed,
                     .main = plain[MODEL_MAIN].tail,
                     .other = plain[MODEL_NON_MAIN].tail,
                     .live = m->totals.live_bytes,
                     .live_then = m->totals.live_bytes,
                     .high = m->bin_max,
                     .here = model_place_of(b->path[from]),
                     .thread = run->thread,
                     .at = p->end};
    for (size_t i = from; i < to; i++) {
        const unsigned kind = kinds[i];
        struct model_block *const block = &blocks[slots[i]];
        if (ahead)
            __builtin_prefetch(&blocks[slots[i + BLOCKS_AHEAD]], 1);
        if (!uniform && __builtin_expect(threads[i] != w.thread, 0))
            change_thread(&w, threads[i]);
        if (kind == TRACE_ALLOC)
            follow_made(&w, block, i, uniform);
        else if (__builtin_expect(kind <= TRACE_FREE_TEMP || kind == TRACE_FREE_INFERRED, 1))
            follow_freed(&w, block, i, kind);
        else
            model_add_other(m, b, i);
    }
    settle_place(&w);
    settle_run(&w);
    m->bin_max = w.high;
    m->totals.live_bytes = w.live;
    p->end = w.at;
}

/* True if all events of a part are of one thread, and all places are the same. */
static bool is_uniform(const struct part *p)
{
    const uint32_t *const threads = p->b->thread, thread = threads[p->from];
    const uint8_t *const paths = p->b->path, path = paths[p->from];
    uint32_t differ = 0;
    uint8_t differs = 0;
    for (size_t i = p->from; i < p->to; i++)
        differ |= threads[i] ^ thread;
    for (size_t i = p->from; i < p->to; i++)
        differs |= paths[i] ^ path;
    return !differ && !model_place_of(differs);
}

static void follow_all(struct model *m, struct part *p, struct run *run)
{
    const size_t n = p->b->n;
    /* the event ahead must be in the batch */
    const size_t sure = n - p->to < BLOCKS_AHEAD ? n - BLOCKS_AHEAD : p->to;
    const size_t middle = n < BLOCKS_AHEAD || sure < p->from ? p->from : sure;
    if (is_uniform(p))
        follow_blocks(m, p, run, p->from, middle, true, true);
    else
        follow_blocks(m, p, run, p->from, middle, true, false);
    if (middle < p->to)
        follow_blocks(m, p, run, middle, p->to, false, false);
}

/* ---- adding up ---- */

static void add_part_stacks(struct model *m, const struct part *p, struct progress from,
                            struct progress to)
{
    const uint64_t version = m->version;
    struct model_stack *const stacks = m->stacks;
    const uint32_t *const places = m->places, *const made = p->stack;
    const uint64_t *const sizes = p->size;
    for (size_t i = from.made; i < to.made; i++) {
        if (i + 2 * STACKS_AHEAD < p->made)
            __builtin_prefetch(&places[made[i + 2 * STACKS_AHEAD]], 1);
        if (i + STACKS_AHEAD < p->made)
            __builtin_prefetch(&stacks[places[made[i + STACKS_AHEAD]]], 1);
        struct model_stack *const s = model_touch(model_figures(m, made[i]), version);
        s->calls++;
        s->allocated_bytes += sizes[i];
    }
    for (const struct model_block *l = p->freed + from.freed, *end = p->freed + to.freed; l < end;
         l++) {
        /* a block of an earlier part, at the end */
        __builtin_prefetch(&places[l[2 * STACKS_AHEAD].stack], 1);
        __builtin_prefetch(&stacks[places[l[STACKS_AHEAD].stack]], 1);
        struct model_stack *const s = model_touch(model_figures(m, l->stack), version);
        s->live_blocks--;
        s->live_bytes -= l->size_bytes;
        s->temporary += l->state;
    }
}

static void add_sizes(struct model *m, const uint64_t *size, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct model_count *const c = &m->counts[model_size_index(size[i])];
        c->count++;
        c->bytes += size[i];
    }
}

static void add_lifetimes(struct model *m, const struct model_block *freed, size_t n)
{
    struct model_count *const by_class = m->counts + MODEL_SIZE_COUNTS;
    for (size_t i = 0; i < n; i++) {
        struct model_count *const c = &by_class[model_lifetime_class(freed[i].time_ns)];
        c->count++;
        c->bytes += freed[i].size_bytes;
    }
}

static void add_model_part(struct model *m, struct part *p)
{
    const struct trace_batch *const b = p->b;
    struct model_totals *const t = &m->totals;
    struct run run = {.thread = b->thread[p->from]};
    const uint64_t live_blocks = t->live_blocks;
    follow_all(m, p, &run);
    end_model_run(m, &run, p->end);
    if (p->higher) {
        add_part_stacks(m, p, (struct progress){0, 0}, p->peak);
        m->version++;
        t->peak_blocks = live_blocks + p->peak.made - p->peak.freed;
    }
    add_part_stacks(m, p, p->peak, p->end);
    add_sizes(m, p->size, p->end.made);
    add_lifetimes(m, p->freed, p->end.freed);
    t->live_blocks = live_blocks + p->end.made - p->end.freed;
    t->calls[MLW_OP_MALLOC] += p->end.made;
    t->calls[MLW_OP_FREE] += p->end.freed;
    t->allocations += p->end.made;
    t->releases += p->end.freed;
    t->usable_bytes += p->usable_bytes;
}

/* ---- cutting ---- */

/* Where the part from `from` on ends: before the event at which something is due. */
static size_t find_part_end(const struct model *m, const struct trace_batch *b, size_t from)
{
    const size_t most = b->n - from < PART ? b->n : from + PART;
    size_t to = from + 1; /* nothing is due at the first, or it cannot be stopped at */
    if (b->time_ns[most - 1] < m->next_stop_ns)
        return most;
    while (to < most && b->time_ns[to] < m->next_stop_ns)
        to++;
    return to;
}

/* Finds the columns of the blocks that begin in the part. begun: of the batch's, before it. */
static void find_made(struct part *p, size_t begun, struct model_scratch *x)
{
    const struct trace_batch *const b = p->b;
    if (b->begun_size) {
        p->size = b->begun_size + begun;
        p->usable = b->begun_usable + begun;
        p->stack = b->begun_stack + begun;
        p->made = b->begun - begun;
        return;
    }
    for (size_t i = p->from; i < p->to; i++) {
        if (b->kind[i] != TRACE_ALLOC)
            continue;
        x->size[p->made] = b->size[i];
        x->usable[p->made] = b->usable[i];
        x->stack[p->made++] = b->stack[i];
    }
    p->size = x->size;
    p->usable = x->usable;
    p->stack = x->stack;
}

int model_add_fast(struct model *m, const struct trace_batch *b, size_t from, size_t begun)
{
    if (!m->scratch && !(m->scratch = calloc(1, sizeof *m->scratch)))
        return -1;
    while (from < b->n) {
        m->events_seen = b->first_event + from;
        if (b->time_ns[from] >= m->next_stop_ns)
            model_stop(m, b->time_ns[from]);
        struct part p = {
            .b = b, .from = from, .to = find_part_end(m, b, from), .freed = m->scratch->freed};
        find_made(&p, begun, m->scratch);
        add_model_part(m, &p);
        begun += p.end.made;
        from = p.to;
    }
    m->events_seen = b->first_event + b->n;
    return 0;
}
