/* guarded.c - sampled blocks of our own, against guard pages.
 *
 * Such a block must come back to us: the allocator would not know it. So a block is guarded only
 * where every way of releasing one leads to us, and what stands against that is said in the
 * segment. A block's address lies in one range, so that entry.c knows it, whatever is done with it:
 * also one inside it, or one that was released before. It ends as the allocator's do: by the
 * exchange of the address in its sample for 0. */
#include <string.h>

#include "watcher.h"

/* ---- what stands against it ---- */

void guarded_begin(void) { guest_namespaces_begin(); }

void guarded_refuse(uint32_t reasons)
{
    const uint32_t now = __atomic_or_fetch(&watcher.unguarded, reasons, __ATOMIC_RELAXED);
    if (watcher.segment)
        __atomic_store_n(&watcher.segment->unguarded, now, __ATOMIC_RELAXED);
}

bool guarded_look(void)
{
    /* A second namespace has a libc of its own, whose free never leads to us. */
    const bool second = guest_next_namespace(0) != 0;
    if (second)
        guarded_refuse(MLW_WATCH_UNGUARDED_NAMESPACE);
    return second;
}

/* ---- making one ---- */

/* A program that gets no more memory counts on the blocks that it has released, also on ours. */
static bool is_drawn(void)
{
    const uint32_t share =
        __atomic_load_n(&watcher.segment->settings.guard_share, __ATOMIC_RELAXED);
    return watcher.starved || (share && (draw_random(&watch_thread.random) & 0xffff) < share);
}

static bool in_front(void)
{
    const uint32_t side = __atomic_load_n(&watcher.segment->settings.guard_side, __ATOMIC_RELAXED);
    return side == MLW_WATCH_SIDE_LEFT ||
           (side == MLW_WATCH_SIDE_BOTH && draw_random(&watch_thread.random) >> 63);
}

void *guarded_make(const struct call *c)
{
    if (watcher.unguarded || !guard_range.bytes || !watch_ready() || !is_drawn())
        return 0;
    if (guarded_look() || !fault_install())
        return 0;
    const uint32_t index = tables_take_sample();
    if (index == NO_INDEX)
        return 0;
    struct guard_slot *g = guard_take(c->size, c->align, in_front(), c->zero);
    if (!g) {
        tables_give_sample(index);
        return 0;
    }
    struct call guarded = *c;
    guarded.flags |= guard_is_armed() ? MLW_WATCH_SAMPLE_GUARDED : 0u;
    g->sample = index;
    calls_fill(index, g->address, guard_index(g), &guarded);
    return (void *)g->address;
}

/* ---- finding it again ---- */

struct found {
    uint64_t address;
    struct guard_slot *guard;
    uint32_t index;   /* the sample that has the slot; NO_INDEX: none */
    struct sample *s; /* the live one of exactly that address, or NULL */
};

/* False: the address is no business of ours. */
static bool find_guarded(const void *p, struct found *f)
{
    f->address = (uint64_t)p;
    f->guard = guard_find(f->address);
    if (!f->guard)
        return false;
    f->index = __atomic_load_n(&f->guard->state, __ATOMIC_ACQUIRE) == GUARD_LIVE ? f->guard->sample
                                                                                 : NO_INDEX;
    f->s = tables_sample(f->index);
    if (f->s && f->s->address != f->address)
        f->s = 0;
    return true;
}

/* ---- errors ---- */

static void describe_live(struct error_facts *e, const struct guard_slot *g, const struct sample *s)
{
    e->flags |= MLW_WATCH_ERROR_BLOCK | MLW_WATCH_ERROR_GUARDED;
    e->address = g->address;
    e->size = g->size;
    e->allocated_ns = s->time_ns;
    e->allocated_tid = s->tid;
    e->allocation = tables_stack(s->site);
}

static void describe_freed(struct error_facts *e, const struct guard_slot *g)
{
    e->flags |= MLW_WATCH_ERROR_BLOCK | MLW_WATCH_ERROR_GUARDED | MLW_WATCH_ERROR_FREED;
    e->address = g->address;
    e->size = g->size;
    e->allocated_ns = g->time_ns;
    e->allocated_tid = g->tid;
    e->freed_ns = g->free_ns;
    e->freed_tid = g->free_tid;
    e->allocation = g->site == NO_INDEX ? 0 : tables_stack(g->site);
    e->release = g->free_site == NO_INDEX ? 0 : tables_stack(g->free_site);
}

/* An address in the range, given to free or realloc, at which no live block begins. */
static __attribute__((noinline)) void bad_free(const struct found *f, uint64_t sp, uint64_t bp)
{
    struct mlw_watch_stack access;
    struct error_facts e = {.kind = MLW_WATCH_INVALID_FREE,
                            .flags = MLW_WATCH_ERROR_AT_FREE,
                            .access_address = f->address,
                            .access = &access};
    const struct sample *s = tables_sample(f->index);
    stack_take(sp, bp, 0, &access);
    if (f->guard->state == GUARD_FREED) {
        describe_freed(&e, f->guard);
        if (f->address == f->guard->address)
            e.kind = MLW_WATCH_DOUBLE_FREE;
    } else if (s && s->address) {
        describe_live(&e, f->guard, s);
    }
    error_report(&e);
    error_consequence();
}

static uint32_t side_of(const struct guard_slot *g, uint64_t at)
{
    return at < g->address ? MLW_WATCH_UNDERFLOW : MLW_WATCH_OVERFLOW;
}

/* Bytes beside the block have been written to. */
static __attribute__((noinline)) void damaged(const struct found *f, uint64_t at, uint64_t sp,
                                              uint64_t bp)
{
    struct mlw_watch_stack access;
    struct error_facts e = {.kind = side_of(f->guard, at),
                            .flags = MLW_WATCH_ERROR_AT_FREE | MLW_WATCH_ERROR_WRITE,
                            .access_address = at,
                            .access = &access};
    stack_take(sp, bp, 0, &access);
    describe_live(&e, f->guard, f->s);
    error_report(&e);
    error_consequence();
}

/* ---- blocks that are still live when the process ends ---- */

static volatile uint32_t checking;

static bool is_live(const struct guard_slot *g, const struct sample *s, uint64_t since)
{
    return g->state == GUARD_LIVE && s->address == g->address && s->time_ns == since;
}

/* Other threads may release the block, and make another, at any moment. */
static bool check_slot(struct guard_slot *g, uint8_t *copy)
{
    const struct sample *s = tables_sample(g->sample);
    const uint64_t since = s ? s->time_ns : 0;
    if (!s || !is_live(g, s, since) || g->reported == GUARD_DAMAGE_KNOWN)
        return false;
    const uint64_t at = guard_damage_now(g, copy);
    if (!at || !is_live(g, s, since) ||
        __atomic_exchange_n(&g->reported, GUARD_DAMAGE_KNOWN, __ATOMIC_ACQ_REL) ==
            GUARD_DAMAGE_KNOWN)
        return false;
    struct error_facts e = {.kind = side_of(g, at),
                            .flags = MLW_WATCH_ERROR_AT_END | MLW_WATCH_ERROR_WRITE,
                            .access_address = at};
    describe_live(&e, g, s);
    error_report(&e);
    return true;
}

bool guarded_check(void)
{
    static uint8_t copy[PAGE];
    bool found = false;
    /* vfork's child shares our memory: it is not the process that joined */
    if (!watch_wiped.joined || watcher.off ||
        (!sys_closed && (uint32_t)sys_getpid() != watcher.pid) ||
        __atomic_exchange_n(&checking, 1, __ATOMIC_ACQUIRE))
        return false;
    for (uint32_t i = 0; i < guard_slots(); i++)
        found |= check_slot(guard_slot(i), copy);
    __atomic_store_n(&checking, 0, __ATOMIC_RELEASE);
    return found;
}

/* Forgets errors in blocks that the parent made: the parent reports them. */
void guarded_after_fork(void)
{
    guard_after_fork();
    checking = 0;
    for (uint32_t i = 0; i < guard_slots(); i++) {
        struct guard_slot *g = guard_slot(i);
        if (g->state == GUARD_LIVE && guard_damage(g))
            g->reported = GUARD_DAMAGE_KNOWN;
    }
}

/* ---- its end ---- */

/* False: it was ended by another thread at the same time. */
static bool end_guarded(const struct found *f, uint32_t kind, uint64_t new_size, uint64_t sp,
                        uint64_t bp)
{
    struct guard_slot *g = f->guard;
    uint64_t address = f->address;
    if (!__atomic_compare_exchange_n(&f->s->address, &address, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    const uint64_t at = g->reported == GUARD_DAMAGE_KNOWN ? 0 : guard_damage(g);
    if (unlikely(at))
        damaged(f, at, sp, bp);
    if (unlikely(!watch_ready())) /* no segment of its own: nothing is counted */
        return true;
    const struct sample was = *f->s;
    g->free_ns = guest_clock();
    calls_note_end(f->index, f->address, kind, new_size, sp, bp, g->free_ns, &g->free_site);
    g->site = was.site; /* the slot keeps both */
    g->tid = was.tid;
    g->free_tid = watch_tid();
    g->time_ns = was.time_ns;
    tables_give_sample(f->index);
    guard_give(g);
    return true;
}

bool guarded_release(void *p, uint64_t sp, uint64_t bp)
{
    struct found f;
    watch_ready();
    if (!find_guarded(p, &f))
        return false;
    if (unlikely(!f.s || !end_guarded(&f, MLW_WATCH_FREE, 0, sp, bp)) && !watcher.off)
        bad_free(&f, sp, bp);
    return true;
}

bool guarded_usable(const void *p, size_t *bytes)
{
    struct found f;
    if (!find_guarded(p, &f))
        return false;
    *bytes = f.s ? f.s->size : 0;
    return true;
}

/* ---- resizing it ---- */

static void end_resized(const struct found *f, uint64_t size, uint64_t sp, uint64_t bp)
{
    if (!end_guarded(f, MLW_WATCH_REALLOC, size, sp, bp))
        bad_free(f, sp, bp);
}

static void *resize_guarded(const struct found *f, size_t size, uint64_t sp, uint64_t bp)
{
    if (!f->s) {
        bad_free(f, sp, bp);
        return size ? next.malloc(size) : 0;
    }
    if (!size) {
        end_resized(f, 0, sp, bp);
        return strncmp(next_facts.name, "glibc", 5) ? next.malloc(0) : 0;
    }
    struct call c = {.size = size, .sp = sp, .bp = bp, .flags = MLW_WATCH_SAMPLE_REALLOC};
    const bool yes = call_spend(size) && call_hit(&c);
    void *p = yes ? guarded_make(&c) : 0;
    if (!p && (p = next.malloc(size)) && yes)
        calls_enter(p, &c);
    if (!p)
        return 0;
    memcpy(p, (const void *)f->address, f->s->size < size ? f->s->size : size);
    end_resized(f, size, sp, bp);
    return p;
}

bool guarded_realloc(void *old, size_t size, uint64_t sp, uint64_t bp, void **result)
{
    struct found f;
    watch_ready();
    if (!find_guarded(old, &f))
        return false;
    *result = resize_guarded(&f, size, sp, bp);
    return true;
}

void guarded_replaced(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    struct found f;
    if (!find_guarded(old, &f))
        return;
    if (f.s)
        end_resized(&f, size, sp, bp);
    else
        bad_free(&f, sp, bp);
}

/* A block of the allocator's with the contents of a guarded one, as aligned as that is, and with
 * zeros behind them, which functions that clear what they add expect. */
static void *copy_of(const struct sample *s, uint64_t address)
{
    const uint64_t align = address & -address;
    void *p = next.memalign(align < PAGE ? align : PAGE, s->size ? s->size : 1);
    if (p) {
        memcpy(p, (const void *)address, s->size);
        memset((char *)p + s->size, 0, next.malloc_usable_size(p) - s->size);
    }
    return p;
}

bool guarded_moves(watch_move *real, unsigned at, bool releases, uint64_t argument[6], uint64_t sp,
                   uint64_t bp, void **result)
{
    struct found f;
    void *copy = 0;
    watch_ready();
    if (!find_guarded((void *)argument[at], &f))
        return false;
    *result = 0;
    if (f.s && !(copy = copy_of(f.s, f.address)))
        return true;
    if (!f.s)
        bad_free(&f, sp, bp);
    argument[at] = (uint64_t)copy;
    void *p = real(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    *result = p;
    if (copy && !p && !releases) /* the block stays as it is */
        next.free(copy);
    else if (copy)
        end_resized(&f, p ? next.malloc_usable_size(p) : 0, sp, bp);
    return true;
}
