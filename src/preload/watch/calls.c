/* calls.c - a call that hit a sampled byte, or that may take back a sampled block.
 *
 * Reached from entry.c (rsp and rbp of the caller in sp and bp). The allocator serves every call,
 * with the program's arguments, and errno is what it left; guarded blocks alone are ours
 * (guarded.c). A sample ends before its block goes back, since another thread may get the address
 * the moment after. It ends exactly once: the thread that exchanges its address for 0 has ended
 * it. */
#include <string.h>

#include "arch/page.h"
#include "static_probe.h"
#include "watcher.h"

PROBE_SEMAPHORE(mallow_sample_semaphore);
PROBE_SEMAPHORE(mallow_free_semaphore);
PROBE_SEMAPHORE(mallow_realloc_semaphore);
PROBE_SEMAPHORE(otel_alloc_semaphore);
PROBE_SEMAPHORE(otel_free_semaphore);

/* ---- the end of a sample ---- */

static void probes_end(uint64_t address, const struct sample *s, uint32_t kind, uint64_t new_size)
{
    if (kind == MLW_WATCH_FREE && unlikely(mallow_free_semaphore))
        PROBE3(MALLOW_USDT_PROVIDER, "free", mallow_free_semaphore, address, s->size, s->weight);
    if (kind == MLW_WATCH_REALLOC && unlikely(mallow_realloc_semaphore))
        PROBE4(MALLOW_USDT_PROVIDER, "realloc", mallow_realloc_semaphore, address, s->size,
               s->weight, new_size);
    if (unlikely(otel_free_semaphore))
        PROBE1(MALLOW_USDT_OTEL, "free", otel_free_semaphore, address);
}

struct sample *calls_take(const void *p, uint32_t *index)
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

void calls_note_end(uint32_t index, uint64_t address, uint32_t kind, uint64_t new_size, uint64_t sp,
                    uint64_t bp, uint64_t now, uint32_t *free_site)
{
    *free_site = sp ? stack_site(sp, bp, now) : NO_INDEX;
    tables_ended(index, address, kind, *free_site, now, new_size);
    probes_end(address, tables_sample(index), kind, new_size);
}

void calls_taken(uint32_t index, const struct sample *s, const void *p, uint32_t kind,
                 uint64_t new_size, uint64_t sp, uint64_t bp)
{
    const uint32_t site = s->site;
    uint32_t free_site = NO_INDEX;
    if (watch_ready()) /* else no segment of its own: nothing is counted */
        calls_note_end(index, (uint64_t)p, kind, new_size, sp, bp, guest_clock(), &free_site);
    tables_give_sample(index);
    tables_drop_site(site);
    if (free_site != NO_INDEX)
        tables_drop_site(free_site);
}

void calls_end(const void *p, uint32_t kind, uint64_t new_size, uint64_t sp, uint64_t bp)
{
    uint32_t index;
    const struct sample *s = calls_take(p, &index);
    if (s)
        calls_taken(index, s, p, kind, new_size, sp, bp);
}

void calls_stays(uint32_t index, struct sample *s, void *p)
{
    __atomic_store_n(&s->address, (uint64_t)p, __ATOMIC_RELEASE);
    if (!held_put((uint64_t)p, index)) {
        __atomic_store_n(&s->address, 0, __ATOMIC_RELEASE);
        calls_taken(index, s, p, MLW_WATCH_FREE, 0, 0, 0);
    }
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

/* ---- its beginning ---- */

static void probes_sample(const struct sample *s, uint64_t address)
{
    if (unlikely(mallow_sample_semaphore))
        PROBE4(MALLOW_USDT_PROVIDER, "sample", mallow_sample_semaphore, address, s->size, s->weight,
               s->drawn);
    if (unlikely(otel_alloc_semaphore))
        PROBE3(MALLOW_USDT_OTEL, "alloc", otel_alloc_semaphore, address, s->size, s->weight);
}

static void count_dropped(uint64_t weight)
{
    count(&watcher.segment->counters.dropped_full, 1);
    count(&watcher.segment->counters.dropped_weight, weight);
}

/* The address makes it live: a fork copies the state of that moment, and cancelled threads leave
 * it. Readers are given it, too. */
void calls_fill(uint32_t index, uint64_t address, uint32_t guard, const struct call *c)
{
    const uint64_t now = guest_clock();
    uint32_t site = stack_site(c->sp, c->bp, now);
    if (unlikely(site == NO_INDEX))
        site = tables_rest();
    struct sample *s = tables_sample(index);
    s->size = c->size;
    s->weight = draw_weight(c->size, c->period);
    s->align = (uint32_t)c->align;
    s->drawn = c->gap;
    s->time_ns = now;
    s->tid = watch_tid();
    s->site = site;
    s->guard = guard;
    __atomic_store_n(&s->address, address, __ATOMIC_RELEASE);
    tables_publish(index, c->flags);
    probes_sample(s, address);
}

void calls_enter(void *p, const struct call *c)
{
    if (!watch_ready())
        return;
    calls_end(p, MLW_WATCH_FREE, 0, 0, 0); /* if it was freed by a call that got past us */
    const uint32_t index = tables_take_sample();
    if (index == NO_INDEX) {
        count_dropped(draw_weight(c->size, c->period));
        return;
    }
    calls_fill(index, (uint64_t)p, NO_INDEX, c);
    if (held_put((uint64_t)p, index))
        return;
    struct sample *s = tables_sample(index);
    uint64_t address = (uint64_t)p;
    count_dropped(s->weight);
    if (__atomic_compare_exchange_n(&s->address, &address, 0, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        calls_taken(index, s, p, MLW_WATCH_FREE, 0, 0, 0);
}

/* ---- the calls ---- */

/* A call that made `left` borrow: a guarded block, or the allocator's answer, which is entered when
 * it is to be. */
#define MADE(bytes, alignment, zeroed, asked)                                                      \
    do {                                                                                           \
        struct call c = {                                                                          \
            .size = (bytes), .align = (alignment), .sp = sp, .bp = bp, .zero = (zeroed)};          \
        const bool yes = call_hit(&c);                                                             \
        void *p = yes ? guarded_make(&c) : 0;                                                      \
        if (p)                                                                                     \
            return p;                                                                              \
        p = asked;                                                                                 \
        if (yes && p)                                                                              \
            calls_enter(p, &c);                                                                    \
        return p;                                                                                  \
    } while (0)

void *watch_malloc(size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, 0, false, next.malloc(size));
}

void *watch_calloc(size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    /* entry.c has seen that it does not overflow */
    MADE(n * size, 0, true, next.calloc(n, size));
}

/* A call that is not looked at has borrowed nothing: else `left` would not run out again. */
static void give_back_bytes(uint64_t size) { watch_thread.left += size; }

static bool power_of_two(uint64_t v) { return v && !(v & (v - 1)); }

void *watch_aligned_alloc(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    if (!power_of_two(align)) { /* the allocator's to refuse, or to round */
        give_back_bytes(size);
        return next.aligned_alloc(align, size);
    }
    MADE(size, align, false, next.aligned_alloc(align, size));
}

void *watch_memalign(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    if (!power_of_two(align)) {
        give_back_bytes(size);
        return next.memalign(align, size);
    }
    MADE(size, align, false, next.memalign(align, size));
}

void *watch_valloc(size_t size, uint64_t sp, uint64_t bp)
{
    MADE(size, PAGE, false, next.valloc(size));
}

void *watch_pvalloc(size_t size, uint64_t sp, uint64_t bp)
{
    struct call c = {.size = size, .align = PAGE, .sp = sp, .bp = bp};
    const bool yes = call_hit(&c);
    c.size = (size + PAGE - 1) & ~(PAGE - 1); /* all of which may be used */
    void *p = yes ? guarded_make(&c) : 0;
    if (p)
        return p;
    p = next.pvalloc(size);
    if (yes && p)
        calls_enter(p, &c);
    return p;
}

int watch_posix_memalign(void **to, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    struct call c = {.size = size, .align = align, .sp = sp, .bp = bp};
    if (!power_of_two(align) || align < sizeof(void *)) {
        give_back_bytes(size);
        return next.posix_memalign(to, align, size); /* fails as it should */
    }
    const bool yes = call_hit(&c);
    void *p = yes ? guarded_make(&c) : 0;
    if (p) {
        *to = p;
        return 0;
    }
    const int r = next.posix_memalign(to, align, size);
    if (yes && !r && *to)
        calls_enter(*to, &c);
    return r;
}

bool calls_release(void *p, uint64_t sp, uint64_t bp)
{
    if (guard_maybe(p) && guarded_release(p, sp, bp))
        return true;
    calls_end(p, MLW_WATCH_FREE, 0, sp, bp);
    return false;
}

void watch_free(void *p, uint64_t sp, uint64_t bp)
{
    if (!calls_release(p, sp, bp))
        next.free(p);
}

void watch_free_sized(void *p, size_t size, uint64_t sp, uint64_t bp)
{
    if (!calls_release(p, sp, bp))
        next.free_sized(p, size);
}

void watch_free_aligned_sized(void *p, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    if (!calls_release(p, sp, bp))
        next.free_aligned_sized(p, align, size);
}

size_t watch_malloc_usable_size(void *p, uint64_t sp, uint64_t bp)
{
    size_t bytes;
    (void)sp, (void)bp;
    return guard_maybe(p) && guarded_usable(p, &bytes) ? bytes : next.malloc_usable_size(p);
}

/* ---- realloc: a release and an allocation ---- */

/* The new block is guarded, the old one the allocator's. NULL: it is not to be. */
static void *into_guarded(void *old, const struct call *c)
{
    const size_t have = old ? next.malloc_usable_size(old) : 0;
    void *p = have || !old ? guarded_make(c) : 0;
    if (p && old) {
        memcpy(p, old, have < c->size ? have : c->size);
        calls_end(old, MLW_WATCH_REALLOC, c->size, c->sp, c->bp);
        next.free(old);
    }
    return p;
}

static void *resized(void *old, size_t size, bool borrowed, uint64_t sp, uint64_t bp)
{
    struct call c = {
        .size = size, .sp = sp, .bp = bp, .flags = old ? MLW_WATCH_SAMPLE_REALLOC : 0u};
    uint32_t index;
    const bool yes = borrowed && call_hit(&c);
    void *p = yes && guard_range.bytes ? into_guarded(old, &c) : 0;
    if (p)
        return p;
    struct sample *s = calls_take(old, &index);
    p = next.realloc(old, size);
    if (s && !p && size)
        calls_stays(index, s, old);
    else if (s)
        calls_taken(index, s, old, MLW_WATCH_REALLOC, size, sp, bp);
    if (yes && p)
        calls_enter(p, &c);
    return p;
}

/* entry.c comes here with an address that may be ours or sampled before it spends, or with what
 * borrowed. Which of them it was, `left` says: another thread may have changed the filter since. */
void *watch_realloc(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    void *p;
    if (guard_maybe(old) && guarded_realloc(old, size, sp, bp, &p))
        return p;
    return resized(old, size, (int64_t)watch_thread.left < 0 || call_spend(size), sp, bp);
}

void *watch_reallocarray(void *old, size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    size_t total;
    void *p;
    if (__builtin_mul_overflow(n, size, &total)) {
        if (guard_maybe(old) && guarded_realloc(old, SIZE_MAX, sp, bp, &p))
            return p; /* which no allocator can serve: it fails as it should */
        return next.reallocarray(old, n, size);
    }
    if (guard_maybe(old) && guarded_realloc(old, total, sp, bp, &p))
        return p;
    const bool borrowed = call_spend(total);
    if (!borrowed && !held_maybe(old))
        return next.realloc(old, total);
    return resized(old, total, borrowed, sp, bp);
}
