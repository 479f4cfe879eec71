/* cursor_repair.c - going on behind a damaged block.
 *
 * A block says what the one before did to the stack of free slots (SEAL_COL_RESYNC), and which
 * slots it gave to blocks that are still live (SEAL_COL_BEGUN). So when one is lost, the state is
 * known exactly: blocks whose slot is free, or another's, have ended. When more is lost, nothing is
 * certain: all blocks are taken to have ended, and later releases of them are unknown ones. */
#include "cursor_impl.h"

#include "base/array.h"

bool cursor_stack_room(struct cursor *c, size_t entries)
{
    size_t need = entries + 2 * SPARE;
    if (need <= c->stack_cap)
        return true;
    size_t cap = c->stack_cap + c->stack_cap / 2;
    if (cap < need)
        cap = need;
    uint32_t *s = realloc(c->free_slots, cap * sizeof *s);
    if (!s)
        return false;
    for (size_t i = 0; !c->stack_cap && i < SPARE; i++)
        s[i] = POISON; /* who takes more than there is finds no slot */
    c->free_slots = s;
    c->stack_cap = cap;
    return true;
}

bool cursor_known_room(struct cursor *c, size_t slots)
{
    const size_t had = c->known_cap;
    if (slots <= had)
        return true;
    if (!ARRAY_ROOM(c->known, slots, c->known_cap))
        return false;
    memset(c->known + had, 0, c->known_cap - had);
    return true;
}

static bool slot_has_ended(struct cursor *c, uint32_t slot)
{
    if (slot >= c->known_cap || !c->known[slot])
        return true;
    c->known[slot] = 0;
    uint32_t *e = ARRAY_ADD(c->ended, c->ended_n, c->ended_cap);
    if (e)
        *e = slot;
    return e != NULL;
}

/* The stack by the columns of the current block. 1: done, 0: they cannot be read, -1: no memory. */
static int exact_state(struct cursor *c)
{
    const struct seal_block *b = &c->in->head.block;
    uint32_t *stack = c->free_slots + SPARE;
    struct numbers r = {0};
    struct bytes begun = {0};
    struct error ignored;
    int status = 0;
    /* How many numbers there are is not in the head, but in the length of their first plane. */
    const struct seal_stream *plane = section_stream(&c->in->head, SEAL_COL_RESYNC, 0);
    size_t n = plane ? plane->raw_bytes : 1;
    uint32_t *v = n && n <= (size_t)b->free_slots + 1 ? malloc(n * sizeof *v) : NULL;
    if (!v ||
        numbers_load(&r, c->store->fd, &c->in->head, SEAL_COL_RESYNC, n, c->in->z, &c->in->scratch,
                     &ignored) ||
        numbers_take_u32(&r, v, n) || v[0] + (n - 1) != b->free_slots || v[0] > c->top)
        goto out;
    if (section_read(c->store->fd, &c->in->head, SEAL_COL_BEGUN, SEAL_PART_BYTES,
                     SEAL_BLOCK_MAX * 10, c->in->z, &c->in->scratch, &begun, &ignored) < 0)
        goto out;
    for (size_t i = 1; i < n; i++)
        if (v[i] >= b->used_slots)
            goto out;
    status = 1;
    for (size_t i = 1; i < n; i++) {
        stack[v[0] + i - 1] = v[i];
        if (!slot_has_ended(c, v[i]))
            status = -1;
    }
    struct span s = span_of(begun.data, begun.n);
    for (uint64_t slot = 0; span_left(&s) && !s.bad;) {
        slot += mlw_unzigzag(span_varint(&s));
        if (slot < UINT32_MAX && !slot_has_ended(c, (uint32_t)slot))
            status = -1;
    }
out:
    free(v);
    numbers_free(&r);
    bytes_free(&begun);
    return status;
}

int cursor_resync(struct cursor *c, bool exact, struct error *err)
{
    const struct seal_block *b = &c->in->head.block;
    size_t slots = (size_t)b->used_slots + b->new_slots;
    if (!cursor_known_room(c, slots > c->used ? slots : c->used) ||
        !cursor_stack_room(c, b->used_slots))
        return no_memory(err);
    uint32_t *stack = c->free_slots + SPARE;
    if (!c->degraded) {
        c->degraded = true;
        if (c->used)
            memset(c->known, 1, c->used);
        for (uint32_t i = 0; i < c->top; i++)
            if (stack[i] < c->known_cap)
                c->known[stack[i]] = 0;
        if (!c->b.kind && !cursor_arrays_make(&c->b, CURSOR_DEGRADED_ENTRIES))
            return no_memory(err);
        c->source = c->source ? c->source : malloc(CURSOR_DEGRADED_ENTRIES * sizeof *c->source);
        c->keep = c->keep ? c->keep : calloc(BATCH, 1);
        if (!c->source || !c->keep)
            return no_memory(err);
    }
    int k = exact ? exact_state(c) : 0;
    if (!k) {
        for (uint32_t i = 0; i < b->free_slots; i++)
            stack[i] = POISON;
        for (size_t i = 0; i < c->known_cap && !k; i++)
            k = slot_has_ended(c, (uint32_t)i) ? 0 : -1;
    }
    if (k < 0)
        return no_memory(err);
    c->top = b->free_slots;
    c->used = b->used_slots;
    c->address_lost = true;
    return 0;
}

void cursor_give_ended(struct cursor *c, struct trace_batch *batch)
{
    struct arrays *b = &c->b;
    size_t n = c->ended_n < BATCH ? c->ended_n : BATCH;
    uint64_t time = tick_to_ns(c->tick, c->detail->tick_ns);
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = c->ended[--c->ended_n];
        bool address = wants(c, TRACE_COL_ADDRESS) && slot < c->slot_cap;
        b->kind[i] = TRACE_FREE_INFERRED;
        b->op[i] = b->path[i] = b->route[i] = 0;
        b->slot[i] = slot;
        b->thread[i] = b->stack[i] = 0;
        b->size[i] = b->usable[i] = b->argument[i] = 0;
        b->address[i] = address ? c->slots[slot].address : 0;
        b->time[i] = time;
    }
    b->begun = 0;
    b->each = b->argued = true;
    cursor_give(c, b, n, batch);
}
