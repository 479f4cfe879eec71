/* fast.c - the loop for the common question: everything, no filter.
 *
 * What can be derived afterwards is not counted here: a stack or a thread holds its allocated bytes
 * less the released ones, so an event touches only one of the two (model_finish puts them
 * together). Blocks and stacks of later events are fetched ahead. */
#include "model/state.h"

/* Those figures that change with every event, in registers if there is room. */
struct hot {
    uint64_t live_bytes, live_blocks, peak_bytes, bin_max, version;
};

static inline void load(struct hot *h, const struct model *m)
{
    h->live_bytes = m->totals.live_bytes;
    h->live_blocks = m->totals.live_blocks;
    h->peak_bytes = m->totals.peak_bytes;
    h->bin_max = m->bin_max;
    h->version = m->version;
}

static inline void store(const struct hot *h, struct model *m)
{
    m->totals.live_bytes = h->live_bytes;
    m->totals.live_blocks = h->live_blocks;
    m->totals.peak_bytes = h->peak_bytes;
    m->bin_max = h->bin_max;
    m->version = h->version;
}

#define AHEAD 24u /* events */

static inline __attribute__((always_inline)) void
add_all(struct model *m, const struct trace_batch *b, size_t from, const bool many_threads)
{
    const uint8_t *const kinds = b->kind, *const ops = b->op, *const paths = b->path;
    const uint32_t *const slots = b->slot, *const stack_ids = b->stack, *const threads = b->thread;
    const uint64_t *const sizes = b->size, *const times = b->time_ns, *const usables = b->usable;
    const uint32_t last_block = m->block_room ? m->block_room - 1 : 0;
    struct model_block *const blocks = m->blocks;
    struct model_stack *const stacks = m->stacks;
    uint64_t stop_ns = m->next_stop_ns;
    uint64_t requested = 0, usable_sum = 0, allocations = 0, releases = 0, temporary = 0;
    uint64_t foreign_frees = 0;
    struct hot h;
    load(&h, m);

    for (size_t i = from; i < b->n; i++) {
        const uint64_t time_ns = times[i];
        const unsigned kind = kinds[i], op = ops[i];
        if (i + AHEAD < b->n) {
            const uint32_t slot = slots[i + AHEAD];
            __builtin_prefetch(&blocks[slot < last_block ? slot : last_block], 1);
            __builtin_prefetch(&stacks[stack_ids[i + AHEAD]], 1);
            const uint32_t near = slots[i + AHEAD/2];
            __builtin_prefetch(&stacks[blocks[near < last_block ? near : last_block].stack], 1);
        }
        if (__builtin_expect(time_ns >= stop_ns, 0)) {
            store(&h, m);
            m->events_seen = b->first_event + i;
            model_stop(m, time_ns);
            load(&h, m);
            stop_ns = m->next_stop_ns;
        }
        if (kind == TRACE_ALLOC) {
            const uint64_t size_bytes = sizes[i];
            const uint64_t usable_bytes = usables[i] > size_bytes ? usables[i] : size_bytes;
            const uint64_t extra = usable_bytes - size_bytes;
            const unsigned place = model_place_of(paths[i]);
            struct model_block *const block = &blocks[slots[i]];
            struct model_stack *const s = model_touch(&stacks[stack_ids[i]], h.version);
            struct model_count *const count = &m->counts[model_size_index(size_bytes)];
            m->totals.calls[op]++;
            s->calls++;
            s->allocated_bytes += size_bytes;
            count->count++;
            count->bytes += size_bytes;
            m->live_usable[place] += usable_bytes;
            allocations++;
            requested += size_bytes;
            usable_sum += usable_bytes;
            if (many_threads) {
                m->threads[threads[i]].allocations++;
                m->threads[threads[i]].allocated_bytes += size_bytes;
            }
            *block = (struct model_block){.size_bytes = size_bytes,
                                          .time_ns = time_ns,
                                          .stack = stack_ids[i],
                                          .usable_extra =
                                              extra < UINT32_MAX ? (uint32_t)extra : UINT32_MAX,
                                          .thread = threads[i],
                                          .place = (uint8_t)place,
                                          .state = BLOCK_COUNTED};
            if (__builtin_expect(mlw_op_is(op, MLW_CLASS_RESIZE_NEW), 0))
                model_realloc_new(m, threads[i], block);
            if (__builtin_expect(place & MODEL_MMAPPED, 0))
                model_mapping_made(m, op, size_bytes, time_ns);
            h.live_blocks++;
            h.live_bytes += size_bytes;
            h.bin_max = h.live_bytes > h.bin_max ? h.live_bytes : h.bin_max;
            if (h.live_bytes > h.peak_bytes) {
                h.peak_bytes = h.live_bytes;
                h.version++;
                m->totals.peak_blocks = h.live_blocks;
                m->totals.peak_time_ns = time_ns;
                __builtin_memcpy(m->totals.peak_usable, m->live_usable, sizeof m->live_usable);
            }
        } else if (__builtin_expect(kind <= TRACE_FREE_TEMP || kind == TRACE_FREE_INFERRED, 1)) {
            struct model_block *const block = &blocks[slots[i]];
            const uint64_t size_bytes = block->size_bytes;
            const uint64_t one = block->state; /* 0 when there was no block: size is 0 then, too */
            const bool temp = kind == TRACE_FREE_TEMP;
            struct model_stack *const s = model_touch(&stacks[block->stack], h.version);
            struct model_count *const count =
                &m->counts[MODEL_SIZE_COUNTS + model_lifetime_class(time_ns - block->time_ns)];
            m->totals.calls[op]++;
            s->live_blocks -= one;
            s->live_bytes -= size_bytes;
            s->temporary += temp;
            count->count += one;
            count->bytes += size_bytes;
            m->live_usable[block->place] -= size_bytes + block->usable_extra;
            h.live_blocks -= one;
            h.live_bytes -= size_bytes;
            releases += one;
            temporary += temp;
            if (many_threads) {
                const uint32_t thread = threads[i], owner = block->thread;
                struct model_thread *const t = &m->threads[thread];
                t->releases += one;
                t->temporary += temp;
                if (owner != NO_THREAD) {
                    m->threads[owner].live_bytes -= size_bytes;
                    if (owner != thread && kind != TRACE_FREE_INFERRED && one) {
                        foreign_frees++;
                        t->foreign_frees++;
                        m->threads[owner].freed_elsewhere++;
                    }
                }
            }
            const unsigned seldom = block->chain | (block->place & MODEL_MMAPPED);
            if (__builtin_expect(seldom | (op != MLW_OP_FREE), 0))
                model_release_seldom(m, threads[i], op, block, time_ns);
            block->size_bytes = 0;
            block->usable_extra = 0;
            block->state = BLOCK_NONE;
        } else {
            model_add_other(m, b, i);
        }
    }
    store(&h, m);
    m->totals.requested_bytes += requested;
    m->totals.usable_bytes += usable_sum;
    m->totals.allocations += allocations;
    m->totals.releases += releases;
    m->totals.temporary += temporary;
    m->totals.cross_thread_frees += foreign_frees;
    m->events_seen = b->first_event + b->n;
}

void model_add_fast(struct model *m, const struct trace_batch *b, size_t from)
{
    if (m->image->thread_count > 1)
        add_all(m, b, from, true);
    else
        add_all(m, b, from, false);
}
