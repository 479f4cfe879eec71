/* careful.c - the loop that knows every rule: filters, inherited blocks, resets.
 *
 * Same figures as fast.c, event by event, and their reference: without a filter both must agree. */
#include "model/state.h"

static bool thread_passes(const struct model *m, uint32_t thread)
{
    return !m->filter.thread_pass || m->filter.thread_pass[thread];
}

static bool block_passes(const struct model *m, uint64_t size_bytes, uint32_t stack)
{
    const struct model_filter *f = &m->filter;
    return size_bytes >= f->min_bytes && (!f->below_bytes || size_bytes < f->below_bytes) &&
           (!f->stack_pass || f->stack_pass[stack]);
}

static struct model_life life_of(const struct model_block *block)
{
    return (struct model_life){.size_bytes = block->size_bytes,
                               .usable_bytes = block->size_bytes + block->usable_extra,
                               .born_ns = block->time_ns,
                               .stack = block->stack,
                               .thread = block->thread,
                               .place = block->place};
}

static void look_at_peak(struct model *m, uint64_t time_ns, bool at_least)
{
    struct model_totals *t = &m->totals;
    if (t->live_bytes > m->bin_max)
        m->bin_max = t->live_bytes;
    if (t->live_bytes > t->peak_bytes || at_least) {
        t->peak_bytes = t->live_bytes;
        t->peak_blocks = t->live_blocks;
        t->peak_time_ns = time_ns;
        __builtin_memcpy(t->peak_usable, m->live_usable, sizeof m->live_usable);
        m->version++;
    }
}

/* A block begins to count. carried: it is no call. */
static void count_block(struct model *m, struct model_block *block, unsigned op, bool carried,
                        uint64_t time_ns)
{
    struct model_totals *t = &m->totals;
    struct model_stack *s = model_touch(model_figures(m, block->stack), m->version);
    struct model_thread *owner = block->thread == NO_THREAD ? NULL : &m->threads[block->thread];
    uint64_t usable = block->size_bytes + block->usable_extra;
    block->state = BLOCK_COUNTED;
    t->live_bytes += block->size_bytes;
    t->live_blocks++;
    m->live_usable[block->place] += usable;
    if (carried) {
        s->live_bytes += block->size_bytes;
        s->live_blocks++;
        if (owner)
            owner->live_bytes += block->size_bytes;
        t->carried_bytes += block->size_bytes;
        t->carried_blocks++;
    } else {
        struct model_count *count = &m->counts[model_size_index(block->size_bytes)];
        s->calls++;
        s->allocated_bytes += block->size_bytes;
        t->calls[op]++;
        t->allocations++;
        t->requested_bytes += block->size_bytes;
        t->usable_bytes += usable;
        count->count++;
        count->bytes += block->size_bytes;
        if (owner) {
            owner->allocations++;
            owner->allocated_bytes += block->size_bytes;
        }
    }
    if (m->in_window)
        look_at_peak(m, time_ns, false);
    if (m->observer) {
        const struct model_life life = life_of(block);
        m->observer->began(m->observer->arg, &life, time_ns, carried);
    }
}

static void unlink_young(struct model *m, uint32_t slot)
{
    struct link *l = &m->links[slot];
    if (l->before == TRACE_NO_SLOT)
        m->young_first = l->after;
    else
        m->links[l->before].after = l->after;
    if (l->after == TRACE_NO_SLOT)
        m->young_last = l->before;
    else
        m->links[l->after].before = l->before;
}

/* Blocks that have reached the minimum lifetime at time_ns begin to count. */
static void grow_old(struct model *m, uint64_t time_ns)
{
    while (m->young_first != TRACE_NO_SLOT) {
        uint32_t slot = m->young_first;
        struct model_block *block = &m->blocks[slot];
        if (time_ns - block->time_ns < m->filter.min_lifetime_ns)
            break;
        uint64_t old_ns = block->time_ns + m->filter.min_lifetime_ns;
        if (old_ns >= m->next_stop_ns) {
            model_stop(m, old_ns);
            continue; /* it may have been forgotten */
        }
        unlink_young(m, slot);
        count_block(m, block, m->links[slot].op, m->links[slot].carried, old_ns);
    }
}

static void pass_time(struct model *m, uint64_t time_ns)
{
    if (m->filter.min_lifetime_ns)
        grow_old(m, time_ns);
    if (time_ns >= m->next_stop_ns)
        model_stop(m, time_ns);
}

static void open_window(struct model *m)
{
    pass_time(m, m->filter.from_ns);
    m->in_window = true;
    m->bin_max = m->totals.live_bytes;
    m->bin_events = m->events_seen;
    m->totals.carried_bytes = m->totals.live_bytes;
    m->totals.carried_blocks = m->totals.live_blocks;
    look_at_peak(m, m->filter.from_ns, true);
}

/* Brings the window of time to time_ns; false when it has been left. */
static bool advance_window(struct model *m, uint64_t time_ns)
{
    if (!m->in_window && time_ns >= m->filter.from_ns)
        open_window(m);
    if (m->filter.to_ns && time_ns >= m->filter.to_ns) {
        pass_time(m, m->filter.to_ns);
        m->ended = true;
        return false;
    }
    pass_time(m, time_ns);
    return true;
}

void model_end_careful(struct model *m, uint64_t end_ns)
{
    if (m->ended)
        return;
    if (!m->in_window && end_ns >= m->filter.from_ns)
        open_window(m);
    pass_time(m, end_ns);
}

/* begun: of the batch's ALLOCs before. */
static void careful_allocate(struct model *m, const struct trace_batch *b, size_t i, size_t begun,
                             bool inherited)
{
    struct model_block *block = &m->blocks[b->slot[i]];
    const bool dense = b->begun_size != NULL;
    const uint64_t size = dense ? b->begun_size[begun] : b->size[i],
                   usable = dense ? b->begun_usable[begun] : b->usable[i];
    unsigned op = b->op[i];
    uint32_t thread = b->thread[i];
    *block = (struct model_block){.size_bytes = size,
                                  .time_ns = b->time_ns[i],
                                  .stack = dense ? b->begun_stack[begun] : b->stack[i],
                                  .usable_extra = model_usable_extra(size, usable),
                                  .thread = inherited ? NO_THREAD : thread,
                                  .place = (uint8_t)model_place_of(b->path[i])};
    if (!inherited && mlw_op_is(op, MLW_CLASS_RESIZE_NEW)) {
        struct model_reallocs before = m->reallocs;
        model_realloc_new(m, thread, block);
        if (!m->in_window || !thread_passes(m, thread) ||
            !block_passes(m, block->size_bytes, block->stack))
            m->reallocs = before;
    }
    if (block->place & MODEL_MMAPPED && !inherited)
        model_mapping_made(m, op, block->size_bytes, block->time_ns);
    bool carried = inherited || !m->in_window;
    if ((!inherited && !thread_passes(m, thread)) || (inherited && m->filter.thread_pass) ||
        !block_passes(m, block->size_bytes, block->stack) || (carried && m->filter.only_new))
        return;
    if (!m->filter.min_lifetime_ns) {
        count_block(m, block, op, carried, block->time_ns);
        return;
    }
    block->state = BLOCK_YOUNG;
    m->links[b->slot[i]] = (struct link){m->young_last, TRACE_NO_SLOT, (uint8_t)op, carried};
    if (m->young_last == TRACE_NO_SLOT)
        m->young_first = b->slot[i];
    else
        m->links[m->young_last].after = b->slot[i];
    m->young_last = b->slot[i];
}

static void careful_release(struct model *m, const struct trace_batch *b, size_t i)
{
    struct model_totals *t = &m->totals;
    struct model_block *block = &m->blocks[b->slot[i]];
    const unsigned op = b->op[i], kind = b->kind[i];
    const uint32_t thread = b->thread[i];
    const bool call = m->in_window && thread_passes(m, thread) &&
                      block_passes(m, block->size_bytes, block->stack) &&
                      (!m->filter.min_lifetime_ns || block->state == BLOCK_COUNTED) &&
                      (!m->filter.only_new || block->time_ns >= m->filter.from_ns);
    if (mlw_op_is(op, MLW_CLASS_RESIZE_OLD))
        model_realloc_old(m, thread, block);
    if (block->place & MODEL_MMAPPED)
        model_mapping_freed(m, op, block, b->time_ns[i]);
    if (call) {
        t->calls[op]++;
        t->inferred_frees += kind == TRACE_FREE_INFERRED;
        m->threads[thread].calls += (unsigned)mlw_op_is_call(op);
        if (block->state == BLOCK_COUNTED) {
            m->threads[thread].releases++;
            m->threads[thread].calls--; /* model_finish adds the releases */
        }
    }
    if (block->state == BLOCK_YOUNG)
        unlink_young(m, b->slot[i]);
    if (block->state == BLOCK_COUNTED) {
        struct model_stack *s = model_touch(model_figures(m, block->stack), m->version);
        struct model_thread *owner = block->thread == NO_THREAD ? NULL : &m->threads[block->thread];
        s->live_bytes -= block->size_bytes;
        s->live_blocks--;
        t->live_bytes -= block->size_bytes;
        t->live_blocks--;
        m->live_usable[block->place] -= block->size_bytes + block->usable_extra;
        if (owner)
            owner->live_bytes -= block->size_bytes;
        if (call) {
            struct model_count *count =
                &m->counts[MODEL_SIZE_COUNTS +
                           model_lifetime_class(b->time_ns[i] - block->time_ns)];
            bool temporary = kind == TRACE_FREE_TEMP;
            count->count++;
            count->bytes += block->size_bytes;
            s->temporary += temporary;
            t->temporary += temporary;
            t->releases++;
            m->threads[thread].temporary += temporary;
            if (owner && block->thread != thread && kind != TRACE_FREE_INFERRED) {
                t->cross_thread_frees++;
                m->threads[thread].foreign_frees++;
                owner->freed_elsewhere++;
            }
            if (block->chain && !mlw_op_is(op, MLW_CLASS_RESIZE_OLD))
                model_chain_ended(m, block);
        }
        if (m->observer) {
            const struct model_life life = life_of(block);
            m->observer->ended(m->observer->arg, &life, b->time_ns[i],
                               kind == TRACE_FREE_INFERRED ? life.thread : thread, call,
                               kind == TRACE_FREE_TEMP);
        }
    }
    block->state = BLOCK_NONE;
}

static void careful_other(struct model *m, const struct trace_batch *b, size_t i)
{
    const struct model_filter *f = &m->filter;
    unsigned fields = mlw_op_fields(b->op[i]);
    bool sized = f->min_bytes || f->below_bytes;
    if (!m->in_window || !thread_passes(m, b->thread[i]) || f->min_lifetime_ns ||
        (sized && !(fields & MLW_F_SIZE)) || (f->stack_pass && !(fields & MLW_F_STACK)) ||
        !block_passes(m, b->size[i] * sized, b->stack[i]))
        return;
    model_add_other(m, b, i);
}

size_t model_add_careful(struct model *m, const struct trace_batch *b, size_t from, size_t to,
                         size_t begun, bool inherited)
{
    for (size_t i = from; i < to && !m->ended; i++) {
        m->events_seen = b->first_event + i;
        if (!inherited && !advance_window(m, b->time_ns[i]))
            break;
        switch (b->kind[i]) {
        case TRACE_ALLOC: careful_allocate(m, b, i, begun++, inherited); break;
        case TRACE_FREE:
        case TRACE_FREE_TEMP:
        case TRACE_FREE_INFERRED: careful_release(m, b, i); break;
        default: careful_other(m, b, i); break;
        }
        m->events_seen = b->first_event + i + 1;
    }
    return begun;
}
