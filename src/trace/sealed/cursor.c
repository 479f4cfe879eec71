#include "cursor_impl.h"

#include "base/array.h"

bool cursor_arrays_make(struct arrays *a, size_t n)
{
    a->kind = malloc(n);
    a->op = malloc(n);
    a->path = calloc(n, 1);
    a->slot = malloc(n * 4);
    a->thread = calloc(n, 4);
    a->stack = malloc(n * 4);
    a->size = malloc(n * 8);
    a->time = malloc(n * 8);
    a->address = calloc(n, 8);
    a->usable = malloc(n * 8);
    a->argument = malloc(n * 8);
    return a->kind && a->op && a->path && a->slot && a->thread && a->stack && a->size && a->time &&
           a->address && a->usable && a->argument;
}

void cursor_arrays_free(struct arrays *a)
{
    free(a->kind);
    free(a->op);
    free(a->path);
    free(a->slot);
    free(a->thread);
    free(a->stack);
    free(a->size);
    free(a->time);
    free(a->address);
    free(a->usable);
    free(a->argument);
}

struct cursor *cursor_open(struct store *s, uint32_t image, unsigned columns, uint64_t to_ns,
                           struct error *err)
{
    struct cursor *c = calloc(1, sizeof *c);
    if (!c) {
        no_memory(err);
        return NULL;
    }
    c->store = s;
    c->image = &s->images[image];
    c->detail = &s->details[image];
    c->image_index = image;
    c->columns = columns ? columns : TRACE_COL_ALL;
    c->to_ns = to_ns;
    c->state_number = c->detail->first_block;
    c->z = ZSTD_createDCtx();
    c->ref_temp = malloc((BATCH + 16) * sizeof *c->ref_temp);
    c->u64_temp = malloc((BATCH + 16) * sizeof *c->u64_temp);
    if (!c->z || !c->ref_temp || !c->u64_temp || !cursor_arrays_make(&c->a, CURSOR_ENTRIES)) {
        no_memory(err);
        cursor_close(c);
        return NULL;
    }
    return c;
}

void cursor_close(struct cursor *c)
{
    if (!c)
        return;
    ZSTD_freeDCtx(c->z);
    struct bytes *b[] = {&c->code,    &c->threads_text, &c->address, &c->path,
                         &c->scratch, &c->far,          &c->other,   &c->argument};
    for (size_t i = 0; i < sizeof b / sizeof *b; i++)
        bytes_free(b[i]);
    struct numbers *n[] = {&c->thread, &c->reference, &c->size, &c->stack, &c->time, &c->usable};
    for (size_t i = 0; i < sizeof n / sizeof *n; i++)
        numbers_free(n[i]);
    free(c->thread_of);
    free(c->thread_last);
    free(c->free_slots);
    free(c->known);
    free(c->ended);
    free(c->recent);
    free(c->slots);
    free(c->ref_temp);
    free(c->u64_temp);
    free(c->keep);
    free(c->source);
    free(c->found.items);
    cursor_arrays_free(&c->a);
    cursor_arrays_free(&c->b);
    free(c);
}

/* --- a block: the state before it --- */

/* Puts the slots that this block uses first under the stack, so that they come when all others are
 * taken. */
static int prepare_stack(struct cursor *c, struct error *err)
{
    uint32_t fresh = c->head.block.new_slots;
    /* allocations of this block may pop, releases push; one batch may overshoot */
    size_t need = (size_t)c->top + fresh + c->head.block.events;
    if (!cursor_stack_room(c, need))
        return no_memory(err);
    uint32_t *stack = c->free_slots + SPARE;
    uint32_t ring = 1024;
    while (ring < c->head.block.allocs + BATCH)
        ring *= 2;
    if (!c->recent || ring - 1 > c->recent_mask) {
        free(c->recent);
        c->recent_mask = ring - 1;
        if (!(c->recent = malloc(ring * sizeof *c->recent)))
            return no_memory(err);
    }
    memset(c->recent, 0xfe, ((size_t)c->recent_mask + 1) * sizeof *c->recent); /* no slots */
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
        if (!ARRAY_ROOM(c->slots, c->used, c->slot_cap))
            return no_memory(err);
        memset(c->slots + had, 0, (c->slot_cap - had) * sizeof *c->slots);
    }
    if (c->degraded && !cursor_known_room(c, c->used))
        return no_memory(err);
    return 0;
}

/* --- what reading finds out --- */

static void find(struct cursor *c, struct cursor_finding finding)
{
    struct cursor_finding *f = ARRAY_ADD(c->found.items, c->found.count, c->found.cap);
    if (f)
        *f = finding;
    else
        c->found.failed = true;
}

static void count_damaged(struct cursor *c, struct store_block *b)
{
    find(c, (struct cursor_finding){.block = b, .damaged = true});
}

void cursor_settle(struct cursor *c, struct cursor_found *found)
{
    struct trace_image *m = &c->store->images[c->image_index];
    for (size_t i = 0; i < found->count; i++) {
        const struct cursor_finding *f = &found->items[i];
        struct store_block *b = f->block;
        if (f->damaged && !b->damaged) {
            __atomic_store_n(&b->damaged, true, __ATOMIC_RELAXED);
            c->store->info.damaged_runs++;
            m->lost_calls += b->calls;
            m->complete = false;
        }
        if (!b->counted) /* once, however often the block is read */
            m->lost_calls += f->lost_calls;
        b->counted |= f->read;
    }
    found->count = 0;
}

/* Makes the next sound block current. 1, 0 at the end, -1. */
static int next_block(struct cursor *c, struct error *err)
{
    while (c->next_block < c->detail->block_count) {
        struct store_block *b = &c->detail->blocks[c->next_block++];
        if (c->to_ns && tick_to_ns(b->first_tick, c->detail->tick_ns) > c->to_ns)
            return 0;
        int k = section_head_read(c->store->fd, b->offset, c->store->file_bytes, &c->head, err);
        if (k < 0)
            return -1;
        const struct seal_block *h = &c->head.block;
        if (__atomic_load_n(&b->damaged, __ATOMIC_RELAXED) || !k ||
            c->head.header.type != SEAL_BLOCK || h->events != b->events ||
            h->used_slots != b->used_slots || h->new_slots != b->new_slots ||
            h->first_tick != b->first_tick || h->last_tick != b->last_tick) {
            count_damaged(c, b);
            continue;
        }
        if ((b->number != c->state_number || h->used_slots != c->used || h->free_slots != c->top) &&
            cursor_resync(c, b->number == c->state_number + 1, err))
            return -1;
        c->state_number = b->number;
        struct error why = {.kind = ERROR_NONE};
        if (cursor_load_columns(c, &why)) {
            if (why.kind == ERROR_MEMORY || why.kind == ERROR_SYSTEM) {
                *err = why;
                return -1;
            }
            count_damaged(c, b);
            continue;
        }
        c->state_number++; /* what it will be when all of its events are given out */
        if (prepare_stack(c, err))
            return -1;
        c->block = b;
        c->at = 0;
        c->alloc_at = 0;
        c->tick = h->first_tick;
        c->other_last = 0;
        memset(&c->predict, 0, sizeof c->predict);
        if (h->address_epoch) {
            c->epoch++;
            c->address_lost = false;
            c->dropped = false;
        }
        return 1;
    }
    return 0;
}

/* --- a batch --- */

/* Slots by the mirror, for n events, without a branch that data decides. Constant `threaded` and
 * `distances` make four loops of it. Returns how low the stack went. */
static inline __attribute__((always_inline)) int64_t
mirror(struct cursor *c, const uint8_t *restrict code, const uint32_t *restrict thread, uint32_t n,
       const bool threaded, const bool distances)
{
    /* By kind: how the stack moves; whether the slot is written. */
    static const int8_t move[8] = {-1, 1, 1, 0, 1, 0, 1, 0};
    static const uint8_t written[8] = {0, 1, 0, 0, 1, 0, 1, 0};
    uint32_t *restrict stack = c->free_slots + SPARE, *restrict slot = c->a.slot;
    uint32_t *restrict recent = c->recent, *restrict lasts = c->thread_last;
    const uint32_t *restrict ref = c->ref_temp;
    const uint32_t mask = c->recent_mask;
    uint32_t allocs = c->slot_allocs, last = lasts[0];
    int64_t top = c->top, least = 0;
    for (uint32_t i = 0; i < n; i++) {
        unsigned kind = code[i] >> 5;
        uint32_t popped = stack[top - 1], r = *ref;
        if (threaded)
            last = lasts[thread[i]];
        if (distances) {
            uint32_t near = recent[(allocs - 1 - (r >> 1)) & mask];
            r = r & 1 ? r >> 1 : near;
        }
        uint32_t s = kind == TRACE_ALLOC ? popped : kind == TRACE_FREE_TEMP ? last : r;
        s = move[kind] ? s : TRACE_NO_SLOT;
        ref += written[kind];
        stack[top] = s;
        top += move[kind];
        least = top < least ? top : least;
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
    return least;
}

/* False when the block cannot be (a malicious one: its checksum holds). */
static bool take_slots(struct cursor *c, const uint8_t *code, const uint32_t *thread, uint32_t n)
{
    bool distances = c->head.block.reference == SEAL_REFERENCE_DISTANCE;
    int64_t least = thread      ? distances ? mirror(c, code, thread, n, true, true)
                                            : mirror(c, code, thread, n, true, false)
                         : distances ? mirror(c, code, thread, n, false, true)
                                : mirror(c, code, thread, n, false, false);
    const uint32_t *slot = c->a.slot;
    uint32_t bad = 0, used = c->used;
    for (uint32_t i = 0; i < n; i++)
        bad |= slot[i] >= used && slot[i] != TRACE_NO_SLOT;
    /* kinds 3, 5 and 7 have no slot, the others have */
    for (uint32_t i = 0; i < n; i++)
        bad |= (slot[i] == TRACE_NO_SLOT) & (0x57u >> (code[i] >> 5));
    return !(bad & 1) && least >= 0 && c->top <= used;
}

/* A call of this block that cannot be decoded. */
static void lose(struct cursor *c, unsigned calls)
{
    struct cursor_found *f = &c->found;
    if (f->count && f->items[f->count - 1].block == c->block && !f->items[f->count - 1].damaged)
        f->items[f->count - 1].lost_calls += calls;
    else if (calls)
        find(c, (struct cursor_finding){.block = c->block, .lost_calls = calls});
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
                lose(c, 1);
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
                if (c->head.block.reference == SEAL_REFERENCE_DISTANCE)
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
                    lose(c, kind != TRACE_FREE_INFERRED);
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

/* Of the next event that is neither an allocation nor a release of a known slot. */
static uint64_t take_other_address(struct cursor *c)
{
    uint64_t v = span_varint(&c->other_rest);
    if (!v)
        return 0;
    uint64_t z = v == UINT64_MAX ? UINT64_MAX - 1 + (span_varint(&c->other_rest) & 1) : v - 1;
    c->other_last += mlw_unzigzag(z);
    return mlw_rol4(c->other_last);
}

/* Those of n events alone. Most blocks have none. */
static bool take_other_addresses(struct cursor *c, const uint8_t *code, uint32_t n)
{
    for (uint32_t i = 0; c->other.n && i < n; i++)
        switch (code[i] >> 5) {
        case TRACE_ALLOC:
        case TRACE_FREE:
        case TRACE_FREE_TEMP:
        case TRACE_FREE_INFERRED:
        case SEAL_KIND_TEMP_WRITTEN: break;
        default: c->a.address[i] = take_other_address(c); break;
        }
    return !c->other_rest.bad;
}

#define PLACES_AHEAD 24u /* events */

/* Addresses of n events; sizes and usable are decoded. */
static bool take_addresses(struct cursor *c, const uint8_t *code, uint32_t n)
{
    uint64_t *out = c->a.address;
    for (uint32_t i = 0; i < n; i++) {
        unsigned kind = code[i] >> 5;
        uint32_t s = c->a.slot[i];
        uint64_t address = 0;
        if (i + PLACES_AHEAD < n && c->a.slot[i + PLACES_AHEAD] < c->used)
            __builtin_prefetch(&c->slots[c->a.slot[i + PLACES_AHEAD]], 1);
        switch (kind) {
        case TRACE_ALLOC: {
            unsigned k = c->address.data[c->alloc_at++];
            if (k > PREDICT_NONE)
                return false;
            uint64_t usable = c->a.usable[i];
            uint64_t difference = k == PREDICT_NONE ? span_varint(&c->far_rest) : 0;
            address = predict_address(&c->predict, k, usable, difference);
            if (c->address_lost)
                address = 0;
            if (s < c->used) {
                c->slots[s] =
                    (struct slot_place){address, c->epoch, (uint8_t)predict_class(usable)};
            }
            break;
        }
        case TRACE_FREE:
        case TRACE_FREE_TEMP:
        case TRACE_FREE_INFERRED:
        case SEAL_KIND_TEMP_WRITTEN:
            if (s >= c->used)
                break;
            address = c->slots[s].address;
            if (c->slots[s].epoch == c->epoch)
                predict_release(&c->predict, address, c->slots[s].class);
            break;
        default: address = take_other_address(c); break;
        }
        out[i] = address;
    }
    return !c->far_rest.bad && !c->other_rest.bad;
}

struct op_bits {
    uint8_t size[256], stack[256], alloc[256], kind[256];
};

static struct op_bits bits;

__attribute__((constructor)) static void fill_bits(void)
{
    for (unsigned k = 0; k < 256; k++) {
        bits.size[k] = seal_has_size(k & 31);
        bits.stack[k] = seal_has_stack(k & 31);
        bits.alloc[k] = k >> 5 == TRACE_ALLOC;
        bits.kind[k] = (uint8_t)(k >> 5 == SEAL_KIND_TEMP_WRITTEN ? TRACE_FREE_TEMP : k >> 5);
    }
}

static uint32_t count(const uint8_t table[256], const uint8_t *code, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        k += table[code[i]];
    return k;
}

/* Gives each event that has a value (by table) the next of `values`, the others 0. */
static void spread_u64(const uint8_t table[256], const uint8_t *restrict code, uint32_t n,
                       const uint64_t *restrict values, uint64_t *restrict out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t has = table[code[i]];
        out[i] = *values & -has;
        values += has;
    }
}

static void spread_u32(const uint8_t table[256], const uint8_t *restrict code, uint32_t n,
                       const uint32_t *restrict values, uint32_t *restrict out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t has = table[code[i]];
        out[i] = *values & -has;
        values += has;
    }
}

/* Decodes the next n events of the block into c->a. False when the block cannot be. *given is how
 * many there are in the arrays that *from is set to. */
static bool take_events(struct cursor *c, uint32_t n, struct arrays **from, uint32_t *given)
{
    const uint8_t *restrict code = c->code.data + c->at;
    struct arrays *a = &c->a;
    const uint32_t *local = NULL;
    uint64_t *values = c->u64_temp;
    for (uint32_t i = 0; i < n; i++) {
        a->kind[i] = bits.kind[code[i]];
        a->op[i] = code[i] & 31;
    }
    if (c->threads > 1) {
        if (numbers_take_u32(&c->thread, a->thread, n))
            return false;
        uint32_t most = 0;
        for (uint32_t i = 0; i < n; i++)
            most = a->thread[i] > most ? a->thread[i] : most;
        if (most >= c->threads)
            return false;
        local = a->thread;
    }
    uint32_t refs = 0;
    for (uint32_t i = 0; i < n; i++)
        refs += 0x52 >> (code[i] >> 5) & 1; /* kinds 1, 4, 6 */
    if (numbers_take_u32(&c->reference, c->ref_temp, refs))
        return false;
    c->ref_temp[refs] = 0;
    *from = a;
    *given = n;
    if (c->degraded) {
        int64_t m = take_slots_degraded(c, code, local, n);
        if (m < 0)
            return false;
        *given = (uint32_t)m;
        *from = &c->b;
        for (uint32_t i = 0; i < n; i++)
            a->slot[i] = TRACE_NO_SLOT;
        for (uint32_t i = 0; i < *given; i++)
            if (!(c->source[i] & 0x80000000u))
                a->slot[c->source[i]] = c->b.slot[i];
    } else if (!take_slots(c, code, local, n)) {
        return false;
    }
    if (wants(c, TRACE_COL_THREAD)) {
        if (c->threads > 1)
            for (uint32_t i = 0; i < n; i++)
                a->thread[i] = c->thread_of[a->thread[i]];
        else
            for (uint32_t i = 0; i < n; i++)
                a->thread[i] = c->thread_of[0];
    }
    bool address = wants(c, TRACE_COL_ADDRESS);
    bool usable = address || wants(c, TRACE_COL_USABLE);
    if (usable || wants(c, TRACE_COL_SIZE)) {
        uint32_t k = count(bits.size, code, n);
        if (numbers_take_u64(&c->size, values, k))
            return false;
        values[k] = 0;
        spread_u64(bits.size, code, n, values, a->size);
    }
    if (wants(c, TRACE_COL_STACK)) {
        uint32_t k = count(bits.stack, code, n);
        if (numbers_take_u32(&c->stack, c->ref_temp, k))
            return false;
        c->ref_temp[k] = 0;
        for (uint32_t i = 0; i < k; i++) /* a node that is lost */
            c->ref_temp[i] = c->ref_temp[i] <= c->image->stacks ? c->ref_temp[i] : 0;
        spread_u32(bits.stack, code, n, c->ref_temp, a->stack);
    }
    if (wants(c, TRACE_COL_TIME)) {
        if (numbers_take_u64(&c->time, a->time, n))
            return false;
        uint64_t tick = c->tick, tick_ns = c->detail->tick_ns, last = c->head.block.last_tick;
        uint64_t span = last - c->head.block.first_tick, bad = 0;
        for (uint32_t i = 0; i < n; i++) {
            bad |= a->time[i] > span;
            tick += a->time[i];
            bad |= tick > last;
            a->time[i] = tick_to_ns(tick, tick_ns);
        }
        c->tick = tick;
        if (bad)
            return false;
    }
    if (usable) {
        uint32_t k = count(bits.alloc, code, n);
        if (numbers_take_u64(&c->usable, values, k))
            return false;
        for (uint32_t i = 0, j = 0; i < n; i++) {
            a->usable[i] = 0;
            if (bits.alloc[code[i]]) {
                uint64_t v = values[j++];
                a->usable[i] = mlw_usual_usable(a->size[i]) + (v ? mlw_unzigzag(v - 1) : 0);
            }
        }
    }
    if (address ? !take_addresses(c, code, n)
                : wants(c, TRACE_COL_OTHER_ADDRESS) && !take_other_addresses(c, code, n))
        return false;
    if (wants(c, TRACE_COL_PATH)) {
        if (c->path.n)
            memcpy(a->path, c->path.data + c->at, n);
        else
            memset(a->path, 0, n);
    }
    if (wants(c, TRACE_COL_ARGUMENT)) {
        memset(a->argument, 0, n * sizeof *a->argument);
        while (c->argument_event < c->at + n) {
            a->argument[c->argument_event - c->at] = c->argument_value;
            cursor_next_argument(c);
        }
    }
    return true;
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
}

void cursor_give(struct cursor *c, const struct arrays *a, size_t n, struct trace_batch *batch)
{
    memset(batch, 0, sizeof *batch);
    batch->image = c->image_index;
    batch->n = n;
    batch->first_event = c->given;
    c->given += n;
    batch->kind = a->kind;
    batch->op = a->op;
    batch->slot = a->slot;
    batch->thread = wants(c, TRACE_COL_THREAD) ? a->thread : NULL;
    batch->size = wants(c, TRACE_COL_SIZE) ? a->size : NULL;
    batch->stack = wants(c, TRACE_COL_STACK) ? a->stack : NULL;
    batch->time_ns = wants(c, TRACE_COL_TIME) ? a->time : NULL;
    batch->address = wants(c, TRACE_COL_ADDRESS | TRACE_COL_OTHER_ADDRESS) ? a->address : NULL;
    batch->usable = wants(c, TRACE_COL_USABLE) ? a->usable : NULL;
    batch->path = wants(c, TRACE_COL_PATH) ? a->path : NULL;
    batch->argument = wants(c, TRACE_COL_ARGUMENT) ? a->argument : NULL;
}

int cursor_next(struct cursor *c, struct trace_batch *batch, struct error *err)
{
    const int status = cursor_decode(c, batch, err);
    cursor_settle(c, &c->found);
    return status;
}

int cursor_decode(struct cursor *c, struct trace_batch *batch, struct error *err)
{
    for (;;) {
        if (c->found.failed)
            return no_memory(err);
        if (!c->block || c->at >= c->head.block.events) {
            int k = next_block(c, err);
            if (k < 0 || (!k && !c->ended_n))
                return k;
            if (!k)
                c->block = NULL;
        }
        if (c->ended_n) {
            cursor_give_ended(c, batch);
            return 1;
        }
        uint32_t left = c->head.block.events - c->at, n = left < BATCH ? left : BATCH, given;
        struct arrays *a;
        if (c->degraded && !c->keep && !(c->keep = calloc(BATCH, 1)))
            return no_memory(err);
        if (!take_events(c, n, &a, &given)) {
            /* Its checksums hold, but its content is impossible: the rest is not used. */
            count_damaged(c, c->block);
            c->at = c->head.block.events;
            c->state_number = UINT64_MAX; /* it is not known */
            continue;
        }
        c->at += n;
        if (c->at == c->head.block.events)
            find(c, (struct cursor_finding){.block = c->block, .read = true});
        if (a == &c->b)
            arrange(c, given);
        if (!given)
            continue;
        cursor_give(c, a, given, batch);
        return 1;
    }
}
