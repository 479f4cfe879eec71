/* model.c - the life of a model: making, checking batches, stops on the way, settling at the end.
 */
#include "arch/page.h"
#include "base/invariant.h"
#include "base/large.h"
#include "model/state.h"

#include <stdlib.h>
#include <string.h>

/* No stop is to come. A time that is as late, as a damaged file may have, is not stopped at. */
#define NEVER_NS UINT64_MAX

const uint64_t model_decades[MODEL_LIFETIMES + 1] = {0,
                                                     100ull,
                                                     1000ull,
                                                     10000ull,
                                                     100000ull,
                                                     1000000ull,
                                                     10000000ull,
                                                     100000000ull,
                                                     1000000000ull,
                                                     10000000000ull,
                                                     100000000000ull,
                                                     1000000000000ull,
                                                     10000000000000ull,
                                                     100000000000000ull,
                                                     1000000000000000ull,
                                                     UINT64_MAX};

/* For an age with highest bit b: the class of 2^b. */
const uint8_t model_first_decade[64] = {
    0,  0,  0,  0,  0,  0,  0,  1,  1,  1,  2,  2,  2,  2,  3,  3,  3,  4,  4,  4,  5,  5,
    5,  5,  6,  6,  6,  7,  7,  7,  8,  8,  8,  8,  9,  9,  9,  10, 10, 10, 11, 11, 11, 11,
    12, 12, 12, 13, 13, 13, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14, 14};

unsigned model_columns(void)
{
    return TRACE_COL_THREAD | TRACE_COL_SIZE | TRACE_COL_STACK | TRACE_COL_TIME | TRACE_COL_USABLE |
           TRACE_COL_PATH | TRACE_COL_ARGUMENT | TRACE_COL_OTHER_ADDRESS;
}

static bool has_filter(const struct model_filter *f)
{
    return f->from_ns || f->to_ns || f->min_bytes || f->below_bytes || f->min_lifetime_ns ||
           f->thread_pass || f->stack_pass;
}

bool model_filters(const struct model_filter *filter) { return filter && has_filter(filter); }

static void next_reset(struct model *m)
{
    const struct trace_image *image = m->image;
    while (m->note < image->note_count && image->event_notes[m->note].control != MLW_CONTROL_RESET)
        m->note++;
    m->next_reset_ns = m->note < image->note_count ? image->event_notes[m->note].time_ns : NEVER_NS;
}

static void next_stop(struct model *m)
{
    uint64_t stop = m->next_reset_ns;
    if (m->bin + 1 < m->bin_count) {
        uint64_t end = m->bin_start_ns + (m->bin + 1) * m->bin_width_ns;
        stop = end < stop ? end : stop;
    }
    if (m->moment < m->moment_count && m->moments[m->moment].time_ns < stop)
        stop = m->moments[m->moment].time_ns;
    m->next_stop_ns = stop;
}

struct model *model_new(const struct trace_image *image, const struct model_filter *filter,
                        struct error *err)
{
    struct model *m = calloc(1, sizeof *m);
    if (!m)
        goto no_memory;
    m->image = image;
    if (filter)
        m->filter = *filter;
    m->in_window = m->filter.from_ns == 0;
    m->young_first = m->young_last = TRACE_NO_SLOT;
    /* A process that begins after the range has nothing in it, and none of its events are read. */
    m->ended = m->filter.to_ns && image->start_ns >= m->filter.to_ns;
    m->inherited_left = m->ended ? 0 : image->inherited;
    next_reset(m);
    m->filtered = has_filter(&m->filter) || m->next_reset_ns != NEVER_NS;

    uint64_t start = image->start_ns, end = image->end_ns;
    if (m->filter.from_ns > start)
        start = m->filter.from_ns;
    if (m->filter.to_ns && m->filter.to_ns < end)
        end = m->filter.to_ns;
    if (end < start)
        end = start;
    m->bin_count = MODEL_BINS;
    m->bin_start_ns = start;
    m->bin_width_ns = (end - start) / MODEL_BINS + 1;
    m->moment_count = image->split_count;

    m->stacks = large_grow(NULL, 0, ((size_t)image->stacks + 2) * sizeof *m->stacks);
    m->places = large_zeroed(((size_t)image->stacks + 1) * sizeof *m->places);
    m->threads = calloc((size_t)image->thread_count + 1, sizeof *m->threads);
    m->pendings = calloc((size_t)image->thread_count + 1, sizeof *m->pendings);
    m->bins = calloc(m->bin_count, sizeof *m->bins);
    m->moments = calloc(m->moment_count + 1, sizeof *m->moments);
    if (!m->stacks || !m->places || !m->threads || !m->pendings || !m->bins || !m->moments)
        goto no_memory;
    m->stacks[0] = (struct model_stack){0};
    for (size_t i = 0; i < m->moment_count; i++)
        m->moments[i].time_ns = image->splits[i].clock;
    threshold_begin(&m->threshold, image);
    next_stop(m);
    return m;
no_memory:
    error_memory_for(err, "the figures of process %u (%u stacks)", image->pid, image->stacks);
    model_free(m);
    return NULL;
}

void model_observe(struct model *m, const struct model_observer *observer)
{
    m->observer = observer;
    m->filtered = m->filtered || observer;
}

static void forget_blocks(struct model *m)
{
    free(m->blocks);
    free(m->links);
    free(m->pendings);
    free(m->scratch);
    m->scratch = NULL;
    m->blocks = NULL;
    m->links = NULL;
    m->pendings = NULL;
    m->block_room = 0;
}

void model_shrink(struct model *m)
{
    forget_blocks(m);
    free(m->stacks);
    free(m->places);
    m->stacks = NULL;
    m->places = NULL;
}

void model_free(struct model *m)
{
    if (!m)
        return;
    model_shrink(m);
    free(m->threads);
    free(m->bins);
    free(m->moments);
    mapped_free(m->mapped);
    threshold_release(&m->threshold);
    free(m);
}

static int model_room(struct model *m, uint32_t slots, struct error *err)
{
    if (slots <= m->block_room)
        return 0;
    uint32_t room = m->block_room ? m->block_room : 1024;
    while (room < slots)
        room = room > UINT32_MAX / 2 ? UINT32_MAX : room * 2;
    if (room > m->image->max_slots)
        room = m->image->max_slots;
    struct model_block *blocks =
        large_grow(m->blocks, m->block_room * sizeof *blocks, room * sizeof *blocks);
    if (blocks) {
        memset(blocks + m->block_room, 0, (room - m->block_room) * sizeof *blocks);
        m->blocks = blocks;
    }
    if (blocks && m->filter.min_lifetime_ns) {
        struct link *links = realloc(m->links, room * sizeof *links);
        if (links)
            m->links = links;
        else
            blocks = NULL;
    }
    if (!blocks)
        return error_memory_for(err, "%u live blocks of process %u", slots, m->image->pid);
    m->block_room = room;
    return 0;
}

static uint32_t largest_number(const uint32_t *v, size_t n)
{
    uint32_t most = 0;
    for (size_t i = 0; i < n; i++)
        most = v[i] > most ? v[i] : most;
    return most;
}

int model_check(struct model *m, const struct trace_batch *b, struct error *err)
{
    const bool dense = b->begun_size != NULL;
    if (b->slots && b->slots <= m->image->max_slots)
        return model_room(m, b->slots, err);
    const uint32_t thread = largest_number(b->thread, b->n), stack = largest_number(b->stack, b->n),
                   begun_stack = dense ? largest_number(b->begun_stack, b->begun) : 0;
    uint32_t slots = 0, begun = 0, missing = 0; /* missing: block events without a slot */
    uint8_t op = 0, kind = 0;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t s = b->slot[i] + 1; /* TRACE_NO_SLOT becomes 0 */
        slots = s > slots ? s : slots;
        missing |= (s == 0) & (b->kind[i] <= TRACE_FREE_TEMP || b->kind[i] == TRACE_FREE_INFERRED);
    }
    for (size_t i = 0; i < b->n; i++) {
        op = b->op[i] > op ? b->op[i] : op;
        kind = b->kind[i] > kind ? b->kind[i] : kind;
    }
    for (size_t i = 0; dense && i < b->n; i++)
        begun += b->kind[i] == TRACE_ALLOC;
    if (slots > m->image->max_slots || stack > m->image->stacks || begun_stack > m->image->stacks ||
        (thread >= m->image->thread_count && b->n) || op >= MLW_OP_COUNT || kind > TRACE_OTHER ||
        missing || (dense && begun != b->begun))
        return error_set(err, ERROR_FORMAT,
                         "events from number %llu of process %u on make no sense: a slot, stack, "
                         "thread or operation that does not exist",
                         (unsigned long long)b->first_event, m->image->pid);
    return model_room(m, slots, err);
}

int model_add(struct model *m, const struct trace_batch *b, struct error *err)
{
    INVARIANT(b->first_event >= m->first_event);
    if (model_check(m, b, err))
        return -1;
    m->first_event = b->first_event;
    size_t from = 0, begun = 0;
    if (m->inherited_left) {
        from = m->inherited_left < b->n ? m->inherited_left : b->n;
        begun = model_add_careful(m, b, 0, from, 0, true);
        m->inherited_left -= from;
    }
    if (m->filtered)
        model_add_careful(m, b, from, b->n, begun, false);
    else if (model_add_fast(m, b, from, begun))
        return error_memory_for(err, "the figures of process %u", m->image->pid);
    INVARIANT(m->totals.live_blocks <= m->block_room);
    INVARIANT(!m->in_window || m->totals.peak_bytes >= m->totals.live_bytes);
    INVARIANT(m->stack_count <= (uint64_t)m->image->stacks + 1);
    return 0;
}

/* The program asked to forget the past: blocks that live now do not count any more. */
static void reset_past(struct model *m)
{
    for (uint32_t i = 0; i < m->block_room; i++)
        m->blocks[i].state = BLOCK_NONE;
    m->young_first = m->young_last = TRACE_NO_SLOT;
    memset(m->places, 0, ((size_t)m->image->stacks + 1) * sizeof *m->places);
    m->stack_count = 0;
    memset(m->threads, 0, ((size_t)m->image->thread_count + 1) * sizeof *m->threads);
    memset(m->pendings, 0, ((size_t)m->image->thread_count + 1) * sizeof *m->pendings);
    memset(m->bins, 0, m->bin_count * sizeof *m->bins);
    memset(m->live_usable, 0, sizeof m->live_usable);
    memset(m->counts, 0, sizeof m->counts);
    memset(&m->reallocs, 0, sizeof m->reallocs);
    uint64_t resets = m->totals.resets + 1;
    memset(&m->totals, 0, sizeof m->totals);
    m->totals.resets = resets;
    m->failure_count = 0;
    mapped_free(m->mapped);
    m->mapped = NULL;
    m->version = 0;
    m->bin_max = 0;
    m->bin_events = 0;
}

void model_stop(struct model *m, uint64_t time_ns)
{
    INVARIANT(m->bin < m->bin_count && m->moment <= m->moment_count);
    while (time_ns >= m->next_stop_ns && m->next_stop_ns != NEVER_NS) {
        uint64_t at = m->next_stop_ns;
        if (m->bin + 1 < m->bin_count && at == m->bin_start_ns + (m->bin + 1) * m->bin_width_ns) {
            m->bins[m->bin] = (struct model_bin){m->totals.live_bytes, m->totals.live_blocks,
                                                 m->bin_max, m->events_seen - m->bin_events};
            m->bin_max = m->totals.live_bytes;
            m->bin_events = m->events_seen;
            m->bin++;
        }
        while (m->moment < m->moment_count && m->moments[m->moment].time_ns <= at) {
            struct model_moment *o = &m->moments[m->moment++];
            o->live_bytes = m->totals.live_bytes;
            o->live_blocks = m->totals.live_blocks;
            memcpy(o->live_usable, m->live_usable, sizeof o->live_usable);
        }
        if (m->next_reset_ns <= at) {
            reset_past(m);
            if (m->observer)
                m->observer->reset(m->observer->arg, at);
            m->note++;
            next_reset(m);
        }
        next_stop(m);
    }
}

void model_chain_ended(struct model *m, const struct model_block *block)
{
    struct model_reallocs *r = &m->reallocs;
    struct model_chain *least = &r->longest[0];
    r->chains++;
    r->by_length[32 - __builtin_clz(block->chain)]++;
    for (unsigned i = 0; i < MODEL_CHAINS; i++) {
        struct model_chain *c = &r->longest[i];
        if (c->resizes && c->stack == block->stack) {
            c->chains++;
            if (block->chain > c->resizes) {
                c->resizes = block->chain;
                c->last_bytes = block->size_bytes;
            }
            return;
        }
        if (c->resizes < least->resizes)
            least = c;
    }
    if (block->chain > least->resizes)
        *least = (struct model_chain){block->chain, block->size_bytes, 1, block->stack};
}

void model_realloc_old(struct model *m, uint32_t thread, const struct model_block *old)
{
    m->pendings[thread].size_bytes = old->size_bytes;
    m->pendings[thread].chain = old->chain + 1u;
}

void model_mapping_made(struct model *m, unsigned op, uint64_t size_bytes, uint64_t time_ns)
{
    if (op == MLW_OP_MALLOC || op == MLW_OP_CALLOC) /* others ask for more, or keep what they had */
        threshold_mapped(&m->threshold, size_bytes, time_ns);
}

void model_mapping_freed(struct model *m, unsigned op, const struct model_block *block,
                         uint64_t time_ns)
{
    if (mlw_op_is(op, MLW_CLASS_RELEASE))
        threshold_freed(&m->threshold, block->size_bytes + block->usable_extra, time_ns);
}

void model_release_seldom(struct model *m, uint32_t thread, unsigned op,
                          const struct model_block *block, uint64_t time_ns)
{
    if (block->place & MODEL_MMAPPED)
        model_mapping_freed(m, op, block, time_ns);
    if (mlw_op_is(op, MLW_CLASS_RESIZE_OLD)) {
        model_realloc_old(m, thread, block);
        m->threads[thread].calls--; /* a release, but not a call */
    } else {
        if (op == 0) { /* inferred */
            m->totals.inferred_frees++;
            m->threads[thread].calls--;
        }
        if (block->chain)
            model_chain_ended(m, block);
    }
}

void model_realloc_new(struct model *m, uint32_t thread, struct model_block *fresh)
{
    struct model_pending *p = &m->pendings[thread];
    if (!p->chain)
        return; /* realloc(NULL, n) */
    uint64_t old = p->size_bytes, new = fresh->size_bytes;
    fresh->chain = p->chain > UINT16_MAX ? UINT16_MAX : (uint16_t)p->chain;
    p->chain = 0;
    m->reallocs.resized++;
    m->reallocs.grown += new > old;
    m->reallocs.shrunk += new < old;
    m->reallocs.kept_bytes += new < old ? new : old;
}

#define PAGE_BYTES ((uint64_t)ARCH_PAGE_BYTES)

/* The program's own mappings. */
static void map_program_memory(struct model *m, const struct trace_batch *b, size_t i)
{
    const uint64_t at = b->address ? b->address[i] : 0;
    const uint64_t bytes = (b->size[i] + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1);
    struct model_pending *p = &m->pendings[b->thread[i]];
    if (!b->address || !b->argument || has_filter(&m->filter) || b->path[i] & MLW_PATH_FAILED)
        return;
    bool done = true;
    switch (mlw_op_class(b->op[i])) {
    case MLW_CLASS_MAP:
        done = mapped_add(&m->mapped, m->image->stacks, at, bytes, b->stack[i],
                          b->argument[i] >> 63, b->time_ns[i]);
        break;
    case MLW_CLASS_UNMAP: done = mapped_cut(m->mapped, at, bytes) != UINT64_MAX; break;
    case MLW_CLASS_REMAP_OLD: {
        uint64_t cut = mapped_cut(m->mapped, at, bytes);
        done = cut != UINT64_MAX;
        p->remapped = cut != 0;
        break;
    }
    case MLW_CLASS_REMAP_NEW:
        done = mapped_add(&m->mapped, m->image->stacks, at, bytes, b->stack[i], !p->remapped,
                          b->time_ns[i]);
        p->remapped = false;
        break;
    default: break;
    }
    m->mapped_failed |= !done;
}

void model_add_other(struct model *m, const struct trace_batch *b, size_t i)
{
    struct model_totals *t = &m->totals;
    unsigned op = b->op[i], path = b->path[i];
    t->calls[op]++;
    m->threads[b->thread[i]].calls += (unsigned)mlw_op_is_call(op);
    if (b->kind[i] == TRACE_FREE_UNKNOWN) {
        if (m->image->attached)
            t->before_frees++;
        else
            t->unknown_frees++;
        m->pendings[b->thread[i]].chain = 0; /* the new half of this realloc starts a chain */
        return;
    }
    if (mlw_op_is(op, MLW_CLASS_UNMAP_UNDO) && t->failed[MLW_OP_MUNMAP] < t->calls[MLW_OP_MUNMAP]) {
        t->failed[MLW_OP_MUNMAP]++;
        t->unmapped_bytes -= t->unmapped_bytes < b->size[i] ? t->unmapped_bytes : b->size[i];
        return;
    }
    if (mlw_op_is(op, MLW_CLASS_MAPPING) && !(path & MLW_PATH_FAILED))
        map_program_memory(m, b, i);
    if (path & MLW_PATH_FAILED) {
        t->failed[op]++;
        if (m->failure_count < MODEL_FAILURES)
            m->failures[m->failure_count++] = (struct model_failure){
                b->time_ns[i], b->size[i], b->stack[i], b->thread[i], (uint8_t)op};
    } else if (mlw_op_is(op, MLW_CLASS_MAP)) {
        t->mapped_bytes += b->size[i];
    } else if (mlw_op_is(op, MLW_CLASS_UNMAP)) {
        t->unmapped_bytes += b->size[i];
    } else if (mlw_op_is(op, MLW_CLASS_RELEASE)) {
        t->null_frees++;
    }
    if (mlw_op_is(op, MLW_CLASS_RESIZE_NEW))
        m->pendings[b->thread[i]].chain = 0; /* failed, or realloc(p, 0) */
}

static int by_resizes(const void *a, const void *b)
{
    uint64_t x = ((const struct model_chain *)a)->resizes,
             y = ((const struct model_chain *)b)->resizes;
    return x < y ? 1 : x > y ? -1 : 0;
}

#ifdef MALLOW_INVARIANTS
/* The sums over stacks, blocks and times are those of the image, in each of the two loops. */
static void check_settled(const struct model *m)
{
    const struct model_totals *t = &m->totals;
    const struct model_count *forever = &m->counts[MODEL_SIZE_COUNTS + MODEL_LIFETIMES];
    struct model_stack sum = {0};
    for (uint32_t i = 0; i <= m->stack_count; i++) {
        sum.calls += m->stacks[i].calls;
        sum.live_bytes += m->stacks[i].live_bytes;
        sum.live_blocks += m->stacks[i].live_blocks;
        sum.peak_bytes += m->stacks[i].peak_bytes;
        sum.peak_blocks += m->stacks[i].peak_blocks;
    }
    INVARIANT(sum.live_bytes == t->live_bytes && sum.live_blocks == t->live_blocks);
    INVARIANT(sum.peak_bytes == t->peak_bytes && sum.peak_blocks == t->peak_blocks);
    INVARIANT(sum.calls == t->allocations);
    INVARIANT(forever->bytes == t->live_bytes && forever->count == t->live_blocks);
    INVARIANT(!m->in_window || t->peak_bytes >= t->live_bytes);
}
#endif

int model_finish(struct model *m, struct error *err)
{
    uint64_t end = m->image->end_ns;
    if (m->filter.to_ns && m->filter.to_ns < end)
        end = m->filter.to_ns;
    if (m->filtered)
        model_end_careful(m, end);
    else
        model_stop(m, end);
    if (m->inherited_left && m->image->complete)
        return error_set(err, ERROR_FORMAT,
                         "process %u: %llu inherited blocks are missing from the recording",
                         m->image->pid, (unsigned long long)m->inherited_left);

    if (m->mapped_failed)
        return error_memory_for(err, "the mappings of process %u", m->image->pid);
    mapped_finish(m->mapped);

    struct model_totals *t = &m->totals;
    struct model_bin last = {t->live_bytes, t->live_blocks, m->bin_max,
                             m->events_seen - m->bin_events};
    for (; m->bin < m->bin_count; m->bin++) {
        m->bins[m->bin] = last;
        last.max_live_bytes = t->live_bytes;
        last.events = 0;
    }
    for (; m->moment < m->moment_count; m->moment++) {
        struct model_moment *o = &m->moments[m->moment];
        o->live_bytes = t->live_bytes;
        o->live_blocks = t->live_blocks;
        memcpy(o->live_usable, m->live_usable, sizeof o->live_usable);
    }
    struct model_count *forever = &m->counts[MODEL_SIZE_COUNTS + MODEL_LIFETIMES];
    for (uint32_t i = 0; i < m->block_room; i++) {
        const struct model_block *block = &m->blocks[i];
        if (block->state != BLOCK_COUNTED)
            continue;
        forever->count++;
        forever->bytes += block->size_bytes;
        if (block->chain)
            model_chain_ended(m, block);
    }
    for (uint32_t i = 1; i <= m->stack_count; i++) {
        struct model_stack *s = model_touch(&m->stacks[i], m->version);
        s->live_bytes += s->allocated_bytes;
        s->live_blocks += s->calls;
        m->distinct_stacks += model_stack_counts(s);
    }
    for (unsigned op = 0; op < MLW_OP_COUNT; op++) {
        if (!mlw_op_is_call(op))
            t->calls[op] = 0;
        t->events += t->calls[op];
        t->failed_calls += t->failed[op];
    }
    for (uint32_t i = 0; i < m->image->thread_count; i++) {
        struct model_thread *thread = &m->threads[i];
        thread->calls += thread->allocations + thread->releases;
        thread->live_bytes += thread->allocated_bytes;
    }
    qsort(m->reallocs.longest, MODEL_CHAINS, sizeof m->reallocs.longest[0], by_resizes);
#ifdef MALLOW_INVARIANTS
    check_settled(m);
#endif
    model_settled(m);
    return 0;
}

void model_settled(struct model *m) { forget_blocks(m); }

const struct trace_image *model_image(const struct model *m) { return m->image; }
const struct model_totals *model_totals(const struct model *m) { return &m->totals; }
struct model_stacks model_stacks(const struct model *m)
{
    return (struct model_stacks){m->places, m->stacks};
}
uint64_t model_distinct_stacks(const struct model *m) { return m->distinct_stacks; }
const struct model_thread *model_threads(const struct model *m) { return m->threads; }
const struct model_count *model_sizes(const struct model *m) { return m->counts; }
const struct model_count *model_lifetimes(const struct model *m)
{
    return m->counts + MODEL_SIZE_COUNTS;
}
uint64_t model_lifetime_min_ns(unsigned lifetime_class) { return model_decades[lifetime_class]; }
const struct model_reallocs *model_reallocs(const struct model *m) { return &m->reallocs; }

const struct model_bin *model_timeline(const struct model *m, uint64_t *start_ns,
                                       uint64_t *width_ns, size_t *count)
{
    *start_ns = m->bin_start_ns;
    *width_ns = m->bin_width_ns;
    *count = m->bin_count;
    return m->bins;
}

const struct model_moment *model_moments(const struct model *m, size_t *count)
{
    *count = m->moment_count;
    return m->moments;
}

const struct mapped *model_mapped(const struct model *m) { return m->mapped; }
const struct threshold *model_threshold(const struct model *m) { return &m->threshold; }
void model_window(const struct model *m, uint64_t *from_ns, uint64_t *to_ns)
{
    *from_ns = m->filter.from_ns;
    *to_ns = m->filter.to_ns ? m->filter.to_ns : UINT64_MAX;
    for (uint32_t i = 0; i < m->image->note_count; i++) {
        const struct trace_event_note *n = &m->image->event_notes[i];
        if (n->control == MLW_CONTROL_RESET && n->time_ns > *from_ns && n->time_ns < *to_ns)
            *from_ns = n->time_ns;
    }
}

bool model_filtered(const struct model *m) { return has_filter(&m->filter); }

const struct model_failure *model_failures(const struct model *m, size_t *count)
{
    *count = m->failure_count;
    return m->failures;
}
