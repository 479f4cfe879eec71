/* calls.c - a call that hit a sampled byte, or that may take back a sampled block.
 *
 * Reached from entry.c (rsp and rbp of the caller in sp and bp). The allocator serves every call,
 * with the program's arguments; errno is what it left. A sample ends before its block goes back,
 * since another thread may get the address the moment after. */
#include <string.h>

#include "attach.h"

struct look {
    uint64_t gap, period;
};

/* For the calls that are written in C: takes n off; true when it is more than there is. */
static inline bool spend(uint64_t n)
{
    return unlikely(__builtin_sub_overflow(watch_thread.left, n, &watch_thread.left));
}

/* ---- the end of a sample ---- */

/* Takes the sample of the block away from everybody else. */
static struct sample *take(const void *p, uint32_t *index)
{
    if (!p || !held_maybe(p) || (*index = held_take((uint64_t)p)) == NO_INDEX)
        return 0;
    struct sample *s = tables_sample(*index);
    uint64_t address = (uint64_t)p;
    return s && __atomic_compare_exchange_n(&s->address, &address, 0, false, __ATOMIC_ACQ_REL,
                                            __ATOMIC_RELAXED)
               ? s
               : 0;
}

static void ended(uint32_t index, const struct sample *s, const void *p, uint32_t kind,
                  uint64_t new_size, uint64_t sp, uint64_t bp)
{
    const uint32_t site = s->site;
    uint32_t free_site = NO_INDEX;
    if (watch_ready()) {
        const uint64_t now = guest_clock();
        free_site = sp ? stack_site(sp, bp, now) : NO_INDEX;
        tables_ended(index, (uint64_t)p, kind, free_site, now, new_size);
    }
    tables_give_sample(index);
    tables_drop_site(site);
    if (free_site != NO_INDEX)
        tables_drop_site(free_site);
}

static void release(void *p, uint64_t sp, uint64_t bp)
{
    uint32_t index;
    const struct sample *s = take(p, &index);
    if (s)
        ended(index, s, p, MLW_WATCH_FREE, 0, sp, bp);
}

void calls_forget(void)
{
    held_forget_all();
    for (uint32_t i = 0; i < watcher.plan.samples; i++) {
        struct sample *s = tables_sample(i);
        if (s && __atomic_exchange_n(&s->address, 0, __ATOMIC_ACQ_REL)) {
            tables_drop_site(s->site);
            tables_give_sample(i);
        }
    }
}

/* ---- the beginning ---- */

static void dropped(uint64_t *counter, uint64_t weight)
{
    count(counter, 1);
    count(&watcher.segment->counters.dropped_weight, weight);
}

/* The allocator has made this block for a call that is to be sampled. */
static void enter(void *p, uint64_t size, uint64_t align, uint32_t flags, const struct look *look,
                  uint64_t sp, uint64_t bp)
{
    struct mlw_watch_counters *n = &watcher.segment->counters;
    const uint64_t weight = draw_weight(size, look->period);
    uint32_t index;
    if (!watch_ready())
        return;
    const struct sample *unseen = take(p, &index); /* freed by a call that got past us */
    if (unseen)
        ended(index, unseen, p, MLW_WATCH_FREE, 0, 0, 0);
    index = tables_take_sample();
    if (index == NO_INDEX) {
        dropped(&n->dropped_full, weight);
        return;
    }
    const uint64_t now = guest_clock();
    uint32_t site = stack_site(sp, bp, now);
    if (site == NO_INDEX)
        site = tables_rest();
    struct sample *s = tables_sample(index);
    s->size = size;
    s->weight = weight;
    s->align = (uint32_t)align;
    s->drawn = look->gap;
    s->time_ns = now;
    s->tid = watch_tid();
    s->site = site;
    s->class_ = s->index = 0;
    __atomic_store_n(&s->address, (uint64_t)p, __ATOMIC_RELEASE); /* readers are given it, too */
    tables_publish(index, flags);
    if (held_put((uint64_t)p, index))
        return;
    dropped(&n->dropped_full, weight);
    uint64_t address = (uint64_t)p;
    if (__atomic_compare_exchange_n(&s->address, &address, 0, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        ended(index, s, p, MLW_WATCH_FREE, 0, 0, 0);
}

/* ---- the calls ---- */

/* A call that made `left` borrow: the allocator's answer, entered when it is to be. */
#define MADE(size, align, flags, call)                                                             \
    do {                                                                                           \
        struct look look;                                                                          \
        const bool yes = look_hit(size, &look.gap, &look.period);                                  \
        void *p = call;                                                                            \
        if (yes && p)                                                                              \
            enter(p, size, align, flags, &look, sp, bp);                                           \
        return p;                                                                                  \
    } while (0)

void *watch_malloc(size_t size, uint64_t sp, uint64_t bp) { MADE(size, 0, 0, next.malloc(size)); }

void *watch_calloc(size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    MADE(n * size, 0, 0, next.calloc(n, size)); /* entry.c has seen that it does not overflow */
}

void *watch_aligned_alloc(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, align, 0, next.aligned_alloc(align, size));
}

void *watch_memalign(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, align, 0, next.memalign(align, size));
}

void *watch_valloc(size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, PAGE, 0, next.valloc(size));
}

void *watch_pvalloc(size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, PAGE, 0, next.pvalloc(size));
}

int watch_posix_memalign(void **to, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    struct look look;
    const bool yes = look_hit(size, &look.gap, &look.period);
    const int r = next.posix_memalign(to, align, size);
    if (yes && !r && *to)
        enter(*to, size, align, 0, &look, sp, bp);
    return r;
}

void watch_free(void *p, uint64_t sp, uint64_t bp)
{
    release(p, sp, bp);
    next.free(p);
}

void watch_free_sized(void *p, size_t size, uint64_t sp, uint64_t bp)
{
    release(p, sp, bp);
    next.free_sized(p, size);
}

void watch_free_aligned_sized(void *p, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    release(p, sp, bp);
    next.free_aligned_sized(p, align, size);
}

/* A sample that was taken away is given back: its block is where it was. */
static void put_back(uint32_t index, struct sample *s, void *p)
{
    __atomic_store_n(&s->address, (uint64_t)p, __ATOMIC_RELEASE);
    if (!held_put((uint64_t)p, index)) {
        __atomic_store_n(&s->address, 0, __ATOMIC_RELEASE);
        ended(index, s, p, MLW_WATCH_FREE, 0, 0, 0);
    }
}

static void *resized(void *old, size_t size, bool borrowed, uint64_t sp, uint64_t bp)
{
    struct look look;
    uint32_t index;
    const bool yes = borrowed && look_hit(size, &look.gap, &look.period);
    struct sample *s = take(old, &index);
    void *p = next.realloc(old, size);
    if (s && !p && size)
        put_back(index, s, old);
    else if (s)
        ended(index, s, old, MLW_WATCH_REALLOC, size, sp, bp);
    if (yes && p)
        enter(p, size, 0, old ? MLW_WATCH_SAMPLE_REALLOC : 0, &look, sp, bp);
    return p;
}

/* entry.c comes here with an address that may be sampled before it spends, or with what borrowed.
 */
void *watch_realloc(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    return resized(old, size, !held_maybe(old) || spend(size), sp, bp);
}

void *watch_reallocarray(void *old, size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    size_t total;
    if (__builtin_mul_overflow(n, size, &total))
        return next.reallocarray(old, n, size); /* fails as it should */
    const bool borrowed = spend(total);
    if (!borrowed && !held_maybe(old))
        return next.realloc(old, total);
    return resized(old, total, borrowed, sp, bp);
}
