/* cursor_events.c - the events of a block, a batch at a time: slots by the mirror, addresses by the
 * guesses, everything else out of the columns. See cursor_impl.h. */
#include "cursor_impl.h"

#include "base/array.h"
#include "base/large.h"

/* ---- before the first events of a block ---- */

static void next_argument(struct cursor *c)
{
    uint32_t from = c->argument_event == UINT32_MAX ? 0 : c->argument_event + 1;
    c->argument_event = UINT32_MAX;
    if (!span_left(&c->argument_rest))
        return;
    uint64_t gap = span_varint(&c->argument_rest);
    c->argument_value = span_varint(&c->argument_rest);
    if (!c->argument_rest.bad && gap < c->block->events - from)
        c->argument_event = from + (uint32_t)gap;
}

/* Puts the slots that this block uses first under the stack, so that they come when all others are
 * taken. */
static int prepare_slot_stack(struct cursor *c, const struct seal_block *h, struct error *err)
{
    const uint32_t fresh = h->new_slots;
    /* allocations of this block may pop, releases push; one batch may overshoot */
    if (!cursor_stack_room(c, (size_t)c->top + fresh + h->events))
        return no_memory(err);
    uint32_t *stack = c->free_slots + SPARE;
    uint32_t ring = 1024;
    while (ring < h->allocs + BATCH)
        ring *= 2;
    if (!c->recent || ring - 1 > c->recent_mask) {
        free(c->recent);
        c->recent_mask = ring - 1;
        if (!(c->recent = malloc(ring * sizeof *c->recent)))
            return no_memory(err);
        memset(c->recent, 0xfe, ring * sizeof *c->recent); /* no slots */
    }
    c->slot_allocs = 0;
    if (fresh) {
        memmove(stack + fresh, stack, c->top * sizeof *stack);
        for (uint32_t i = 0; i < fresh; i++)
            stack[i] = c->used + fresh - 1 - i;
        c->top += fresh;
        c->used += fresh;
    }
    if (wants(c, TRACE_COL_ADDRESS) && c->used > c->slot_cap) {
        const size_t had = c->slot_cap;
        if (!LARGE_ROOM(c->slots, c->used, c->slot_cap))
            return no_memory(err);
        memset(c->slots + had, 0, (c->slot_cap - had) * sizeof *c->slots);
    }
    if (c->degraded && !cursor_known_room(c, c->used))
        return no_memory(err);
    return 0;
}

int cursor_take_begin(struct cursor *c, struct error *err)
{
    struct loaded *in = c->in;
    const struct seal_block *h = &in->head.block;
    if (!ARRAY_ROOM(c->thread_last, in->threads, c->thread_cap) || prepare_slot_stack(c, h, err))
        return no_memory(err);
    for (uint32_t i = 0; i < in->threads; i++)
        c->thread_last[i] = POISON;
    c->block = in->block;
    c->at = 0;
    c->alloc_at = 0;
    c->tick = h->first_tick;
    c->other_last = 0;
    c->far_rest = span_of(in->far.data, in->far.n);
    c->other_rest = span_of(in->other.data, in->other.n);
    c->argument_rest = span_of(in->argument.data, in->argument.n);
    c->argument_event = UINT32_MAX;
    next_argument(c);
    memset(&c->predict, 0, sizeof c->predict);
    if (h->address_epoch) {
        c->epoch++;
        c->address_lost = false;
        c->dropped = false;
    }
    return 0;
}

/* ---- slots ---- */

/* By the mirror, for n events, without a branch that data decides. Constant flags make eight loops
 * of it. others: some have no slot. What lies under the stack is no slot, and is found by who looks
 * at the slots. */
static inline __attribute__((always_inline)) void
mirror(struct cursor *c, const uint8_t *restrict code, const uint32_t *restrict thread, uint32_t n,
       const bool threaded, const bool distances, const bool others)
{
    /* By kind: how the stack moves; whether the slot is written. */
    static const int8_t move[8] = {-1, 1, 1, 0, 1, 0, 1, 0};
    static const uint8_t written[8] = {0, 1, 0, 0, 1, 0, 1, 0};
    uint32_t *restrict stack = c->free_slots + SPARE, *restrict slot = c->a.slot;
    uint32_t *restrict recent = c->recent, *restrict lasts = c->thread_last;
    const uint32_t *restrict ref = c->ref_temp;
    const uint32_t mask = c->recent_mask;
    uint32_t allocs = c->slot_allocs, last = lasts[0];
    int64_t top = c->top;
    for (uint32_t i = 0; i < n; i++) {
        const unsigned kind = code[i] >> 5;
        const uint32_t popped = stack[top - 1];
        uint32_t r = *ref;
        if (threaded)
            last = lasts[thread[i]];
        if (distances) {
            const uint32_t near = recent[(allocs - 1 - (r >> 1)) & mask];
            r = r & 1 ? r >> 1 : near;
        }
        uint32_t s = kind == TRACE_ALLOC ? popped : kind == TRACE_FREE_TEMP ? last : r;
        if (others)
            s = move[kind] ? s : TRACE_NO_SLOT;
        ref += written[kind];
        stack[top] = s;
        top += others ? move[kind] : kind == TRACE_ALLOC ? -1 : 1;
        if (distances) {
            recent[allocs & mask] = s;
            allocs += kind == TRACE_ALLOC;
        }
        last = kind == TRACE_ALLOC ? s : last;
        if (threaded)
            lasts[thread[i]] = last;
        slot[i] = s;
    }
    if (!threaded)
        lasts[0] = last;
    c->slot_allocs = allocs;
    c->top = top < 0 ? 0 : (uint32_t)top;
}

/* False when the block cannot be (a malicious one: its checksum holds). */
static bool take_slots(struct cursor *c, const uint8_t *code, const uint32_t *thread, uint32_t n,
                       uint32_t others)
{
    switch ((thread ? 4 : 0) | (c->in->head.block.reference == SEAL_REFERENCE_DISTANCE ? 2 : 0) |
            (others ? 1 : 0)) {
    case 0: mirror(c, code, thread, n, false, false, false); break;
    case 1: mirror(c, code, thread, n, false, false, true); break;
    case 2: mirror(c, code, thread, n, false, true, false); break;
    case 3: mirror(c, code, thread, n, false, true, true); break;
    case 4: mirror(c, code, thread, n, true, false, false); break;
    case 5: mirror(c, code, thread, n, true, false, true); break;
    case 6: mirror(c, code, thread, n, true, true, false); break;
    default: mirror(c, code, thread, n, true, true, true); break;
    }
    const uint32_t *slot = c->a.slot, used = c->used;
    uint32_t bad = 0, none = 0;
    for (uint32_t i = 0; i < n; i++) {
        bad |= slot[i] + 1 > used; /* TRACE_NO_SLOT + 1 is 0 */
        none += slot[i] == TRACE_NO_SLOT;
    }
    return !bad && none == others && c->top <= used;
}

/* The same after damage: events of blocks that the caller does not know are turned into unknown
 * releases, or dropped. Fills kind, slot and source (index of the event, or UINT32_MAX - slot's
 * release is inferred), and returns how many there are; -1 when the block cannot be. */
static int64_t take_slots_degraded(struct cursor *c, const uint8_t *code, const uint32_t *thread,
                                   uint32_t n)
{
    uint32_t *stack = c->free_slots + SPARE, *out = c->source;
    const uint32_t *ref = c->ref_temp;
    uint32_t m = 0;
    for (uint32_t i = 0; i < n; i++) {
        unsigned kind = code[i] >> 5;
        uint32_t *last = &c->thread_last[thread ? thread[i] : 0], s = TRACE_NO_SLOT;
        if (kind == TRACE_ALLOC) {
            if (!c->top)
                return -1;
            s = stack[--c->top];
            *last = s;
            c->recent[c->slot_allocs++ & c->recent_mask] = s;
            if (s == POISON) { /* a block whose slot is lost: so is the call */
                c->dropped = true;
                c->block_lost++;
                c->keep[i] = 0;
                continue;
            }
            if (s >= c->used)
                return -1;
            if (c->known[s]) { /* the previous owner's free is in the lost range */
                c->b.kind[m] = TRACE_FREE_INFERRED;
                c->b.slot[m] = s;
                out[m++] = i | 0x80000000u;
            }
            c->known[s] = 1;
        } else if (kind == TRACE_FREE || kind == TRACE_FREE_TEMP || kind == TRACE_FREE_INFERRED ||
                   kind == SEAL_KIND_TEMP_WRITTEN) {
            s = kind == TRACE_FREE_TEMP ? *last : *ref;
            if (kind != TRACE_FREE_TEMP) {
                if (c->in->head.block.reference == SEAL_REFERENCE_DISTANCE)
                    s = *ref & 1 ? *ref >> 1
                                 : c->recent[(c->slot_allocs - 1 - (*ref >> 1)) & c->recent_mask];
                ref++;
            }
            if (c->top >= c->used || (s >= c->used && s != POISON))
                return -1;
            stack[c->top++] = s;
            c->keep[i] = 0;
            if (s == POISON || !c->known[s]) {
                if (c->dropped || s == POISON)
                    c->address_lost = true;
                if (s == POISON || kind == TRACE_FREE_INFERRED) {
                    c->block_lost += kind != TRACE_FREE_INFERRED;
                    continue;
                }
                kind = TRACE_FREE_UNKNOWN;
                s = TRACE_NO_SLOT;
            } else {
                c->known[s] = 0;
                if (c->dropped)
                    c->address_lost = true;
            }
        }
        c->keep[i] = 1;
        c->b.kind[m] = (uint8_t)(kind == SEAL_KIND_TEMP_WRITTEN ? TRACE_FREE_TEMP : kind);
        c->b.slot[m] = s;
        out[m++] = i;
    }
    return m;
}

/* ---- addresses ---- */

/* Takes the address of the next event that is neither an allocation nor a release of a known slot.
 */
static uint64_t take_other_address(struct cursor *c)
{
    uint64_t v = span_varint(&c->other_rest);
    if (!v)
        return 0;
    uint64_t z = v == UINT64_MAX ? UINT64_MAX - 1 + (span_varint(&c->other_rest) & 1) : v - 1;
    c->other_last += mlw_unzigzag(z);
    return mlw_rol4(c->other_last);
}

/* Those of n events alone. */
static bool take_other_addresses(struct cursor *c, const uint8_t *code, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (OTHER_KINDS >> (code[i] >> 5) & 1)
            c->a.address[i] = take_other_address(c);
    return !c->other_rest.bad;
}

#define PLACES_AHEAD 24u /* events */

/* Addresses of n events; the usable bytes of those that begin are decoded. each: of every event,
 * not only of those that begin and of others. */
static inline __attribute__((always_inline)) bool
take_addresses(struct cursor *c, const uint8_t *code, uint32_t n, const bool each)
{
    struct predict *const p = &c->predict;
    struct slot_place *const slots = c->slots;
    const uint32_t *const slot = c->a.slot, used = c->used, epoch = c->epoch;
    const uint64_t *const usables = c->a.begun_usable;
    const uint8_t *const codes = c->in->address.n ? c->in->address.data + c->alloc_at : NULL;
    uint64_t *const out = c->a.address, *const begun = c->a.begun_address;
    const uint64_t known = c->address_lost ? 0 : UINT64_MAX;
    uint32_t j = 0;
    bool bad = false;
    for (uint32_t i = 0; i < n; i++) {
        const unsigned kind = code[i] >> 5;
        const uint32_t s = slot[i];
        uint64_t address;
        if (i + PLACES_AHEAD < n && slot[i + PLACES_AHEAD] < used)
            __builtin_prefetch(&slots[slot[i + PLACES_AHEAD]], 1);
        if (kind == TRACE_ALLOC) {
            const unsigned k = codes[j];
            const uint64_t usable = usables[j];
            const unsigned class = predict_class(usable);
            if (__builtin_expect(k > PREDICT_NONE, 0)) {
                bad = true;
                break;
            }
            const uint64_t difference = k == PREDICT_NONE ? span_varint(&c->far_rest) : 0;
            address = predict_address(p, k, class, usable, difference) & known;
            if (s < used)
                slots[s] = (struct slot_place){address, epoch, (uint8_t) class};
            begun[j++] = address;
        } else if (__builtin_expect(!(OTHER_KINDS >> kind & 1), 1)) {
            if (s >= used) {
                if (each)
                    out[i] = 0;
                continue;
            }
            address = slots[s].address;
            if (slots[s].epoch == epoch)
                predict_release(p, address, slots[s].class);
            if (!each)
                continue;
        } else {
            address = take_other_address(c);
            out[i] = address;
        }
        if (each)
            out[i] = address;
    }
    c->alloc_at += j;
    return !bad && !c->far_rest.bad && !c->other_rest.bad;
}

/* ---- columns ---- */

static struct {
    uint8_t size[256], stack[256], alloc[256];
} has;

__attribute__((constructor)) static void fill_has(void)
{
    for (unsigned k = 0; k < 256; k++) {
        has.size[k] = seal_has_size(k & 31);
        has.stack[k] = seal_has_stack(k & 31);
        has.alloc[k] = k >> 5 == TRACE_ALLOC;
    }
}

static uint32_t count_codes(const uint8_t table[256], const uint8_t *code, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        k += table[code[i]];
    return k;
}

/* Gives each event that has a value (by table) the next of `values`, the others 0. */
#define SPREAD(NAME, TYPE)                                                                         \
    static void NAME(const uint8_t table[256], const uint8_t *restrict code, uint32_t n,           \
                     const TYPE *restrict values, TYPE *restrict out)                              \
    {                                                                                              \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            const TYPE there = table[code[i]];                                                     \
            out[i] = *values & -there;                                                             \
            values += there;                                                                       \
        }                                                                                          \
    }
SPREAD(spread_u64, uint64_t)
SPREAD(spread_u32, uint32_t)

/* And back: those of the ALLOCs, one behind the other. */
#define GATHER(NAME, TYPE)                                                                         \
    static void NAME(const uint8_t *restrict code, uint32_t n, const TYPE *restrict values,        \
                     TYPE *restrict out)                                                           \
    {                                                                                              \
        for (uint32_t i = 0; i < n; i++) {                                                         \
            *out = values[i];                                                                      \
            out += code[i] >> 5 == TRACE_ALLOC;                                                    \
        }                                                                                          \
    }
GATHER(gather_u64, uint64_t)
GATHER(gather_u32, uint32_t)

/* The n events that are decoded: their codes, and which columns these have. */
struct taking {
    const uint8_t *code;
    uint32_t n;
    struct code_counts has;
    bool each; /* sizes, stacks, usable bytes and addresses of each event, not only of ALLOCs */
};

static bool take_sizes(struct cursor *c, const struct taking *t)
{
    struct arrays *a = &c->a;
    const uint32_t k = t->has.mixed ? count_codes(has.size, t->code, t->n) : t->has.allocs;
    uint64_t *const values = t->has.mixed ? c->u64_temp : a->begun_size;
    if (numbers_take_u64(&c->in->size, values, k))
        return false;
    values[k] = 0;
    if (t->each)
        spread_u64(has.size, t->code, t->n, values, a->size);
    if (t->has.mixed)
        gather_u64(t->code, t->n, a->size, a->begun_size);
    return true;
}

static bool take_stacks(struct cursor *c, const struct taking *t)
{
    struct arrays *a = &c->a;
    const uint32_t k = t->has.mixed ? count_codes(has.stack, t->code, t->n) : t->has.allocs,
                   stacks = c->image->stacks;
    uint32_t *const values = t->has.mixed ? c->ref_temp : a->begun_stack;
    if (numbers_take_u32(&c->in->stack, values, k))
        return false;
    values[k] = 0;
    for (uint32_t i = 0; i < k; i++) /* 0: a node that is lost */
        values[i] = values[i] <= stacks ? values[i] : 0;
    if (t->each)
        spread_u32(has.stack, t->code, t->n, values, a->stack);
    if (t->has.mixed)
        gather_u32(t->code, t->n, a->stack, a->begun_stack);
    return true;
}

static bool take_usable(struct cursor *c, const struct taking *t)
{
    struct arrays *a = &c->a;
    const uint32_t k = t->has.allocs;
    const uint64_t *restrict size = a->begun_size;
    uint64_t *restrict usable = a->begun_usable;
    struct numbers *const v = &c->in->usable;
    if (v->width) {
        if (numbers_take_u64(v, usable, k))
            return false;
        for (uint32_t j = 0; j < k; j++)
            usable[j] = seal_usable_of(size[j], usable[j]);
    } else {
        size_t at;
        uint64_t value;
        for (uint32_t j = 0; j < k; j++)
            usable[j] = mlw_usual_usable(size[j]);
        while (numbers_patch(v, k, &at, &value))
            usable[at] = seal_usable_of(size[at], value);
        if (numbers_pass(v, k))
            return false;
    }
    usable[k] = 0;
    if (t->each && wants(c, TRACE_COL_USABLE))
        spread_u64(has.alloc, t->code, t->n, usable, a->usable);
    return true;
}

static bool take_times(struct cursor *c, uint32_t n)
{
    uint64_t *const time = c->a.time;
    if (numbers_take_u64(&c->in->time, time, n))
        return false;
    const struct seal_block *h = &c->in->head.block;
    const uint64_t tick_ns = c->detail->tick_ns, left = h->last_tick - c->tick;
    uint64_t all = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        all |= time[i];
        sum += time[i];
    }
    if (all >> 50) { /* the sum may have wrapped */
        sum = 0;
        for (uint32_t i = 0; i < n; i++)
            if (time[i] > left - sum)
                return false;
            else
                sum += time[i];
    }
    if (sum > left)
        return false;
    const unsigned __int128 before = (unsigned __int128)c->tick * tick_ns;
    if (tick_ns <= UINT64_MAX / 2 / (sum + 1)) { /* the sums stay in 64 bits */
        const uint64_t ns = (uint64_t)(before >> 32);
        uint64_t part = (uint32_t)before;
        for (uint32_t i = 0; i < n; i++) {
            part += time[i] * tick_ns;
            time[i] = ns + (part >> 32);
        }
    } else {
        uint64_t tick = c->tick;
        for (uint32_t i = 0; i < n; i++) {
            tick += time[i];
            time[i] = tick_to_ns(tick, tick_ns);
        }
    }
    c->tick += sum;
    return true;
}

static void take_codes(const uint8_t *restrict code, uint32_t n, uint8_t *restrict kind,
                       uint8_t *restrict op)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t k = code[i] >> 5;
        kind[i] = k == SEAL_KIND_TEMP_WRITTEN ? TRACE_FREE_TEMP : k;
        op[i] = code[i] & 31;
    }
}

/* The numbers of the image's threads for those of the block. */
static void take_threads(const struct loaded *in, uint32_t *restrict thread, uint32_t n)
{
    const uint32_t *restrict thread_of = in->thread_of, only = thread_of[0];
    if (in->threads > 1)
        for (uint32_t i = 0; i < n; i++)
            thread[i] = thread_of[thread[i]];
    else
        for (uint32_t i = 0; i < n; i++)
            thread[i] = only;
}

static void take_arguments(struct cursor *c, uint32_t n)
{
    struct arrays *a = &c->a;
    if (a->argued)
        memset(a->argument, 0, CURSOR_ENTRIES * sizeof *a->argument);
    a->argued = c->argument_event < c->at + n;
    while (c->argument_event < c->at + n) {
        a->argument[c->argument_event - c->at] = c->argument_value;
        next_argument(c);
    }
}

/* A column of bytes, which is 0 where it is not there. */
static void copy_column(uint8_t *to, const struct bytes *column, uint32_t at, uint32_t n)
{
    if (column->n)
        memcpy(to, column->data + at, n);
    else
        memset(to, 0, n);
}

/* After damage: copies what take_slots_degraded kept from c->a to c->b. */
static void arrange(struct cursor *c, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        bool inferred = c->source[i] >> 31;
        uint32_t k = c->source[i] & 0x7fffffffu;
        struct arrays *a = &c->a, *b = &c->b;
        b->op[i] = inferred ? 0 : a->op[k];
        b->path[i] = inferred ? 0 : a->path[k];
        b->route[i] = inferred ? 0 : a->route[k];
        b->thread[i] = a->thread[k];
        b->stack[i] = inferred ? 0 : a->stack[k];
        b->size[i] = inferred ? 0 : a->size[k];
        b->time[i] = a->time[k];
        b->address[i] = inferred || b->kind[i] == TRACE_FREE_UNKNOWN ? 0 : a->address[k];
        if (b->kind[i] == TRACE_FREE_UNKNOWN && a->kind[k] == TRACE_FREE_UNKNOWN)
            b->address[i] = a->address[k];
        b->usable[i] = inferred ? 0 : a->usable[k];
        b->argument[i] = inferred ? 0 : a->argument[k];
    }
    size_t j = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (c->b.kind[i] != TRACE_ALLOC)
            continue;
        c->b.begun_stack[j] = c->b.stack[i];
        c->b.begun_size[j] = c->b.size[i];
        c->b.begun_usable[j] = c->b.usable[i];
        c->b.begun_address[j++] = c->b.address[i];
    }
    c->b.begun = j;
    c->b.each = c->b.argued = true;
}

/* Slots, and threads as the block numbers them. False when the block cannot be. */
static bool take_event_places(struct cursor *c, const struct taking *t, struct arrays **from,
                              uint32_t *given)
{
    struct arrays *a = &c->a;
    const uint32_t *local = NULL, n = t->n;
    if (c->in->threads > 1) {
        if (numbers_take_u32(&c->in->thread, a->thread, n))
            return false;
        uint32_t most = 0;
        for (uint32_t i = 0; i < n; i++)
            most = a->thread[i] > most ? a->thread[i] : most;
        if (most >= c->in->threads)
            return false;
        local = a->thread;
    }
    if (numbers_take_u32(&c->in->reference, c->ref_temp, t->has.refs))
        return false;
    c->ref_temp[t->has.refs] = 0;
    *from = a;
    *given = n;
    if (!c->degraded)
        return take_slots(c, t->code, local, n, t->has.others);
    int64_t m = take_slots_degraded(c, t->code, local, n);
    if (m < 0)
        return false;
    *given = (uint32_t)m;
    *from = &c->b;
    for (uint32_t i = 0; i < n; i++)
        a->slot[i] = TRACE_NO_SLOT;
    for (uint32_t i = 0; i < *given; i++)
        if (!(c->source[i] & 0x80000000u))
            a->slot[c->source[i]] = c->b.slot[i];
    return true;
}

bool cursor_take(struct cursor *c, uint32_t n, struct arrays **from, uint32_t *given)
{
    const uint8_t *const code = c->in->code.data + c->at;
    struct taking t = {.code = code, .n = n, .has = c->in->counts[c->at / BATCH]};
    struct arrays *a = &c->a;
    const bool address = wants(c, TRACE_COL_ADDRESS),
               usable = wants(c, TRACE_COL_ADDRESS | TRACE_COL_USABLE);
    t.each = !wants(c, TRACE_COL_BEGUN) || t.has.mixed || c->degraded;
    take_codes(code, n, a->kind, a->op);
    if (!take_event_places(c, &t, from, given))
        return false;
    if (wants(c, TRACE_COL_THREAD))
        take_threads(c->in, a->thread, n);
    if (((usable || wants(c, TRACE_COL_SIZE)) && !take_sizes(c, &t)) ||
        (wants(c, TRACE_COL_STACK) && !take_stacks(c, &t)) ||
        (wants(c, TRACE_COL_TIME) && !take_times(c, n)) || (usable && !take_usable(c, &t)))
        return false;
    if (address ? !(t.each ? take_addresses(c, code, n, true) : take_addresses(c, code, n, false))
                : t.has.others && wants(c, TRACE_COL_OTHER_ADDRESS) &&
                      !take_other_addresses(c, code, n))
        return false;
    if (wants(c, TRACE_COL_PATH))
        copy_column(a->path, &c->in->path, c->at, n);
    if (wants(c, TRACE_COL_ROUTE))
        copy_column(a->route, &c->in->route, c->at, n);
    if (wants(c, TRACE_COL_ARGUMENT))
        take_arguments(c, n);
    a->begun = t.has.allocs;
    a->each = t.each;
    if (*from == &c->b)
        arrange(c, *given);
    return true;
}
