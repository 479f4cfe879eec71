/* sample.c - a call that hit a sampled byte, or that touches a sampled block.
 *
 * Reached from entry.c (rsp and rbp of the caller in sp and bp). A call that makes a block and was
 * not hit after all, or whose sample finds no room, goes on to the allocator behind us as if we
 * were not there. A sampled block ends exactly once: the thread that exchanges its address for 0
 * has ended it. */
#include <errno.h>
#include <string.h>

#include "arch/page.h"
#include "format/op.h"
#include "static_probe.h"
#include "watcher.h"

#define PAD       0xb9
#define PAD_BYTES 16u
#define LARGE     65536u /* blocks above have room to grow in place */

PROBE_SEMAPHORE(mallow_sample_semaphore);
PROBE_SEMAPHORE(mallow_free_semaphore);
PROBE_SEMAPHORE(mallow_realloc_semaphore);
PROBE_SEMAPHORE(otel_alloc_semaphore);
PROBE_SEMAPHORE(otel_free_semaphore);

/* What a sampled call is. */
struct call {
    uint64_t size, align; /* align 0: malloc's */
    uint64_t sp, bp;
    uint64_t gap, period; /* that led to the sample, and what it was drawn with */
    uint32_t flags;       /* enum mlw_watch_sample_flags */
    bool zero;
};

/* ---- drawing ---- */

/* A call made `left` borrow. Whether its block is to be sampled; sets c->gap, c->period. */
static bool hit(uint64_t size, struct call *c) { return look_hit(size, &c->gap, &c->period); }

/* For the calls that are written in C: takes n off; true when it is more than there is. */
static inline bool spend(uint64_t n)
{
    return unlikely(__builtin_sub_overflow(watch_thread.left, n, &watch_thread.left));
}

static bool in_range(const void *p) { return (uint64_t)p - block_range.start < block_range.bytes; }

/* ---- padding: what lies between the end of a block and the end of its memory ---- */

static uint64_t pad_of(uint64_t behind, uint64_t end)
{
    if ((behind & (PAGE - 1)) == 0) /* would cost a page */
        return 0;
    return end - behind < PAD_BYTES ? end - behind : PAD_BYTES;
}

static void pad(uint64_t behind, uint64_t end) { memset((void *)behind, PAD, pad_of(behind, end)); }

static uint64_t pad_damage(uint64_t behind, uint64_t end)
{
    for (uint64_t i = 0; i < pad_of(behind, end); i++)
        if (((const uint8_t *)behind)[i] != PAD)
            return behind + i;
    return 0;
}

/* ---- making a sampled block ---- */

static void *dropped(uint64_t *counter, uint64_t weight)
{
    count(counter, 1);
    count(&watcher.segment->counters.dropped_weight, weight);
    return 0;
}

/* Where the block is to be; the sample receives its memory. 0: not guarded. */
static uint64_t take_guarded(const struct call *c, struct sample *s, uint32_t index)
{
    uint32_t share = __atomic_load_n(&watcher.segment->settings.guard_share, __ATOMIC_RELAXED);
    if (!share)
        return 0;
    uint64_t r = draw_random(&watch_thread.random);
    if ((r & 0xffff) >= share)
        return 0;
    if (!fault_install())
        return 0;
    struct guard_slot *g = guard_take(c->size, c->align, r >> 63, c->zero);
    if (!g)
        return 0;
    g->sample = index;
    s->class_ = GUARD_CLASS;
    s->index = guard_index(g);
    return g->address;
}

/* The same beside the others. 0: no room. */
static uint64_t take_plain(const struct call *c, struct sample *s, uint32_t index)
{
    struct block b;
    uint64_t slack = c->align > 16 ? c->align - 16 : 0, bytes = c->size + slack;
    if (bytes <= LARGE) /* larger ones end at a page's end more often than not */
        bytes += PAD_BYTES / 2;
    if (c->size >> ARCH_ADDRESS_BITS || slack >> 30 || !blocks_take(bytes, &b))
        return 0;
    uint64_t at = c->align > 16 ? (b.start + c->align - 1) & ~(c->align - 1) : b.start;
    if (c->zero && !b.clean)
        memset((void *)at, 0, c->size);
    pad(at + c->size, b.start + b.room);
    s->class_ = b.class_;
    s->index = b.index;
    blocks_own(&b, index);
    return at;
}

static void probes_sample(const struct sample *s, uint64_t address)
{
    if (unlikely(mallow_sample_semaphore))
        PROBE4(MALLOW_USDT_PROVIDER, "sample", mallow_sample_semaphore, address, s->size, s->weight,
               s->drawn);
    if (unlikely(otel_alloc_semaphore))
        PROBE3(MALLOW_USDT_OTEL, "alloc", otel_alloc_semaphore, address, s->size, s->weight);
}

/* Fills and enters a sample whose memory is there. The site is held from here on. The address makes
 * it live: a fork copies the state of that moment, and cancelled threads leave it. */
static void enter(struct sample *s, uint32_t index, uint64_t address, const struct call *c,
                  uint32_t site, uint64_t now)
{
    s->size = c->size;
    s->align = (uint32_t)c->align;
    s->drawn = c->gap;
    s->time_ns = now;
    s->tid = watch_tid();
    s->site = site;
    __atomic_store_n(&s->address, address, __ATOMIC_RELEASE);
    bool guarded = s->class_ == GUARD_CLASS && guard_is_armed();
    tables_publish(index, c->flags | (guarded ? MLW_WATCH_SAMPLE_GUARDED : 0));
    probes_sample(s, address);
}

/* The site of the call, held. */
static uint32_t site_of(const struct call *c, uint64_t now)
{
    uint32_t site = stack_site(c->sp, c->bp, now);
    return likely(site != NO_INDEX) ? site : tables_rest();
}

/* The block; NULL: no room for the sample, ask the allocator behind us. */
static void *make(const struct call *c)
{
    struct mlw_watch_counters *n = &watcher.segment->counters;
    uint64_t weight = c->size >> ARCH_ADDRESS_BITS ? c->size : draw_weight(c->size, c->period);
    uint32_t index = tables_take_sample();
    if (index == NO_INDEX)
        return dropped(&n->dropped_full, weight);
    uint64_t now = guest_clock();
    uint32_t site = site_of(c, now);
    struct sample *s = tables_sample(index);
    s->weight = weight;
    uint64_t address = take_guarded(c, s, index);
    if (!address)
        address = take_plain(c, s, index);
    if (!address) {
        tables_drop_site(site);
        tables_give_sample(index);
        return dropped(&n->dropped_memory, weight);
    }
    enter(s, index, address, c, site, now);
    return (void *)address;
}

static void *sampled(uint64_t size, uint64_t align, bool zero, uint32_t flags, uint64_t sp,
                     uint64_t bp)
{
    struct call c = {
        .size = size, .align = align, .sp = sp, .bp = bp, .flags = flags, .zero = zero};
    if (likely(!hit(size, &c)))
        return 0;
    return make(&c);
}

/* ---- finding a block again ---- */

struct found {
    uint64_t address;
    struct guard_slot *guard; /* NULL: none */
    struct block block;
    uint32_t index; /* the sample; NO_INDEX: none owns the memory */
};

/* False: the address is no business of ours. */
static bool find(const void *p, struct found *f)
{
    f->address = (uint64_t)p;
    f->guard = 0;
    if (blocks_find(f->address, &f->block)) {
        f->index = blocks_owner(&f->block);
        return true;
    }
    f->guard = guard_find(f->address);
    if (!f->guard)
        return false;
    f->index = __atomic_load_n(&f->guard->state, __ATOMIC_ACQUIRE) == GUARD_LIVE ? f->guard->sample
                                                                                 : NO_INDEX;
    return true;
}

/* The live sample of exactly that address, or NULL. */
static struct sample *live(const struct found *f)
{
    struct sample *s = tables_sample(f->index);
    return s && s->address == f->address ? s : 0;
}

/* ---- errors that a call shows ---- */

static void describe_live(struct error_facts *e, const struct sample *s)
{
    e->flags |= MLW_WATCH_ERROR_BLOCK;
    e->address = s->address;
    e->size = s->size;
    e->allocated_ns = s->time_ns;
    e->allocated_tid = s->tid;
    e->allocation = tables_stack(s->site);
}

static void describe_guarded(struct error_facts *e, const struct guard_slot *g)
{
    e->flags |= MLW_WATCH_ERROR_BLOCK | MLW_WATCH_ERROR_GUARDED;
    e->address = g->address;
    e->size = g->size;
    if (g->state != GUARD_FREED)
        return;
    e->flags |= MLW_WATCH_ERROR_FREED;
    e->allocated_ns = g->time_ns;
    e->allocated_tid = g->tid;
    e->freed_ns = g->free_ns;
    e->freed_tid = g->free_tid;
    e->allocation = g->site == NO_INDEX ? 0 : tables_stack(g->site);
    e->release = g->free_site == NO_INDEX ? 0 : tables_stack(g->free_site);
}

/* An address in the range, given to free or realloc, at which no sampled block begins. */
static __attribute__((noinline)) void bad_free(const struct found *f, uint64_t sp, uint64_t bp)
{
    struct mlw_watch_stack access;
    struct mlw_watch_free last;
    struct error_facts e = {.kind = MLW_WATCH_INVALID_FREE,
                            .flags = MLW_WATCH_ERROR_AT_FREE,
                            .access_address = f->address,
                            .access = &access};
    const struct sample *s = tables_sample(f->index);
    stack_take(sp, bp, 0, &access);
    if (f->guard && f->guard->state == GUARD_FREED) {
        describe_guarded(&e, f->guard);
        if (f->address == f->guard->address)
            e.kind = MLW_WATCH_DOUBLE_FREE;
    } else if (s && s->address) {
        describe_live(&e, s);
        if (f->guard)
            e.flags |= MLW_WATCH_ERROR_GUARDED;
    } else if (tables_last_free(f->address, &last, &e.allocation, &e.release)) {
        e.kind = MLW_WATCH_DOUBLE_FREE;
        e.flags |= MLW_WATCH_ERROR_BLOCK | MLW_WATCH_ERROR_FREED;
        e.address = last.address;
        e.size = last.size;
        e.allocated_ns = last.allocated_ns;
        e.allocated_tid = last.allocated_tid;
        e.freed_ns = last.freed_ns;
        e.freed_tid = last.freed_tid;
    }
    error_report(&e);
    error_consequence();
}

/* Bytes beside the block have been written to. */
static __attribute__((noinline)) void damaged(const struct found *f, const struct sample *s,
                                              uint64_t at, uint64_t sp, uint64_t bp)
{
    struct mlw_watch_stack access;
    struct error_facts e = {.kind = at < f->address ? MLW_WATCH_UNDERFLOW : MLW_WATCH_OVERFLOW,
                            .flags = MLW_WATCH_ERROR_AT_FREE | MLW_WATCH_ERROR_WRITE,
                            .access_address = at,
                            .access = &access};
    stack_take(sp, bp, 0, &access);
    describe_live(&e, s);
    e.address = f->address;
    if (f->guard)
        e.flags |= MLW_WATCH_ERROR_GUARDED;
    error_report(&e);
    error_consequence();
}

/* ---- the end of a sampled block ---- */

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

/* The memory of a block whose sample we have ended; the sites are held. */
static void give_memory(const struct found *f, const struct sample *s, uint32_t free_site,
                        uint64_t now)
{
    if (!f->guard) {
        uint64_t used = f->address + s->size - f->block.start;
        used += pad_of(f->address + s->size, f->block.start + f->block.room);
        blocks_give(s->class_, s->index, used);
        tables_drop_site(s->site);
        if (free_site != NO_INDEX)
            tables_drop_site(free_site);
        return;
    }
    struct guard_slot *g = f->guard; /* keeps both sites */
    g->site = s->site;
    g->free_site = free_site;
    g->tid = s->tid;
    g->free_tid = watch_tid();
    g->time_ns = s->time_ns;
    g->free_ns = now;
    guard_give(g);
}

/* Ends the block at f. False: it was ended by another thread at the same time. */
static bool end(const struct found *f, struct sample *s, uint32_t kind, uint64_t new_size,
                uint64_t sp, uint64_t bp, bool keep_memory)
{
    uint64_t address = f->address;
    if (!__atomic_compare_exchange_n(&s->address, &address, 0, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_RELAXED))
        return false;
    uint64_t at = f->guard ? guard_damage(f->guard)
                           : pad_damage(f->address + s->size, f->block.start + f->block.room);
    if (unlikely(at))
        damaged(f, s, at, sp, bp);
    if (unlikely(watcher.off ||
                 !watch_wiped.joined)) { /* no segment of its own: nothing is counted */
        if (!f->guard)
            blocks_give(s->class_, s->index, f->block.room);
        return true;
    }
    uint64_t now = guest_clock();
    uint32_t free_site = stack_site(sp, bp, now);
    tables_ended(f->index, f->address, kind, free_site, now, new_size);
    probes_end(f->address, s, kind, new_size);
    if (keep_memory) {
        tables_drop_site(s->site);
        if (free_site != NO_INDEX)
            tables_drop_site(free_site);
        return true;
    }
    struct sample was = *s;
    tables_give_sample(f->index);
    give_memory(f, &was, free_site, now);
    return true;
}

/* True: p was ours, and has been dealt with. */
static bool release(void *p, uint64_t sp, uint64_t bp)
{
    struct found f;
    watch_ready();
    if (!find(p, &f))
        return false;
    struct sample *s = live(&f);
    if (unlikely(!s || !end(&f, s, MLW_WATCH_FREE, 0, sp, bp, false)) && !watcher.off)
        bad_free(&f, sp, bp);
    return true;
}

/* ---- the calls; see entry.c for the two extra arguments ---- */

void *watch_malloc(size_t size, uint64_t sp, uint64_t bp)
{
    void *p = sampled(size, 0, false, 0, sp, bp);
    return p ? p : next.malloc(size);
}

void *watch_calloc(size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    void *p =
        sampled(n * size, 0, true, 0, sp, bp); /* entry.c has seen that it does not overflow */
    return p ? p : next.calloc(n, size);
}

void watch_free(void *p, uint64_t sp, uint64_t bp)
{
    if (!release(p, sp, bp))
        next.free(p);
}

void watch_free_sized(void *p, size_t size, uint64_t sp, uint64_t bp)
{
    if (!release(p, sp, bp))
        next.free_sized(p, size);
}

void watch_free_aligned_sized(void *p, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    if (!release(p, sp, bp))
        next.free_aligned_sized(p, align, size);
}

static bool power_of_two(uint64_t v) { return v && !(v & (v - 1)); }

int watch_posix_memalign(void **to, size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    void *p = 0;
    if (power_of_two(align) && align >= sizeof(void *))
        p = sampled(size, align, false, 0, sp, bp);
    if (!p)
        return next.posix_memalign(to, align, size);
    *to = p;
    return 0;
}

void *watch_aligned_alloc(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    void *p = power_of_two(align) ? sampled(size, align, false, 0, sp, bp) : 0;
    return p ? p : next.aligned_alloc(align, size);
}

void *watch_memalign(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    void *p = power_of_two(align) ? sampled(size, align, false, 0, sp, bp) : 0;
    return p ? p : next.memalign(align, size);
}

void *watch_valloc(size_t size, uint64_t sp, uint64_t bp)
{
    void *p = sampled(size, PAGE, false, 0, sp, bp);
    return p ? p : next.valloc(size);
}

void *watch_pvalloc(size_t size, uint64_t sp, uint64_t bp)
{
    struct call c = {.align = PAGE, .sp = sp, .bp = bp};
    void *p = 0;
    if (hit(size, &c)) {
        c.size = (size + PAGE - 1) & ~(PAGE - 1); /* all of which may be used */
        p = make(&c);
    }
    return p ? p : next.pvalloc(size);
}

size_t watch_malloc_usable_size(void *p, uint64_t sp, uint64_t bp)
{
    struct found f;
    (void)sp, (void)bp;
    if (!find(p, &f))
        return next.malloc_usable_size(p);
    const struct sample *s = live(&f);
    return s ? s->size : 0;
}

/* ---- realloc: a release and an allocation ---- */

/* A large block that is sampled again and stays where it is. */
static void *in_place(const struct found *f, struct sample *s, const struct call *c)
{
    uint64_t room = f->block.start + f->block.room - f->address;
    if (f->guard || s->class_ == GUARD_CLASS || f->block.room <= LARGE || c->size > room ||
        c->size < f->block.room / 4 || watcher.off)
        return 0;
    uint64_t old_end = f->address + s->size;
    uint32_t align = s->align;
    uint32_t site = site_of(c, guest_clock());
    if (!end(f, s, MLW_WATCH_REALLOC, c->size, c->sp, c->bp, true)) {
        tables_drop_site(site);
        return 0;
    }
    blocks_dirty(s->class_, s->index, old_end + PAD_BYTES - f->block.start);
    s->weight = draw_weight(c->size, c->period);
    pad(f->address + c->size, f->block.start + f->block.room);
    struct call again = *c;
    again.align = align;
    enter(s, f->index, f->address, &again, site, guest_clock());
    return (void *)f->address;
}

/* old is ours. */
static void *realloc_sampled(const struct found *f, size_t size, uint64_t sp, uint64_t bp)
{
    struct sample *s = live(f);
    if (!s) {
        bad_free(f, sp, bp);
        return size ? next.malloc(size) : 0;
    }
    if (!size) {
        if (!end(f, s, MLW_WATCH_REALLOC, 0, sp, bp, false))
            bad_free(f, sp, bp);
        return strncmp(next_facts.name, "glibc", 5) ? next.malloc(0) : 0;
    }
    struct call c = {.size = size, .sp = sp, .bp = bp, .flags = MLW_WATCH_SAMPLE_REALLOC};
    void *p = 0;
    if (spend(size) && hit(size, &c)) {
        p = in_place(f, s, &c);
        if (p)
            return p;
        p = make(&c);
    }
    if (!p)
        p = next.malloc(size);
    if (!p)
        return 0;
    memcpy(p, (const void *)f->address, s->size < size ? s->size : size);
    if (!end(f, s, MLW_WATCH_REALLOC, size, sp, bp, false))
        bad_free(f, sp, bp);
    return p;
}

/* old is not ours, and the call made `left` borrow. */
static void *realloc_hit(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    size_t have = old ? next.malloc_usable_size(old) : 0;
    void *p = 0;
    struct call c = {.size = size, .sp = sp, .bp = bp, .flags = MLW_WATCH_SAMPLE_REALLOC};
    if (hit(size, &c) && (have || !old))
        p = make(&c);
    if (!p)
        return next.realloc(old, size);
    if (old) {
        memcpy(p, old, have < size ? have : size);
        next.free(old);
    }
    return p;
}

void *watch_realloc(void *old, size_t size, uint64_t sp, uint64_t bp)
{
    struct found f;
    if (!in_range(old))
        return realloc_hit(old, size, sp, bp);
    watch_ready();
    if (find(old, &f))
        return realloc_sampled(&f, size, sp, bp);
    return next.realloc(old, size);
}

void *watch_reallocarray(void *old, size_t n, size_t size, uint64_t sp, uint64_t bp)
{
    size_t total;
    if (__builtin_mul_overflow(n, size,
                               &total)) /* which no realloc can serve: it fails as it should */
        return in_range(old) ? watch_realloc(old, SIZE_MAX, sp, bp)
                             : next.reallocarray(old, n, size);
    if (!in_range(old) && !spend(total))
        return next.reallocarray(old, n, size);
    return watch_realloc(old, total, sp, bp);
}

/* ---- jemalloc's own functions, on its blocks and ours ---- */

/* NULL: not sampled. Arenas other than the thread's may have memory of a special kind: theirs is
 * not replaced. */
static void *sampled_mallocx(size_t size, int flags, uint32_t sample_flags, uint64_t sp,
                             uint64_t bp)
{
    if (!size || MLW_JEMALLOC_ARENA(flags) || !spend(size))
        return 0;
    return sampled(size, MLW_JEMALLOC_ALIGNMENT(flags), flags & MLW_JEMALLOC_ZERO, sample_flags, sp,
                   bp);
}

void *watch_mallocx(size_t size, int flags, uint64_t sp, uint64_t bp)
{
    void *p = sampled_mallocx(size, flags, 0, sp, bp);
    return p ? p : next.mallocx(size, flags);
}

void *watch_rallocx(void *old, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    struct found f;
    const bool ours = in_range(old) && (watch_ready(), find(old, &f));
    struct sample *s = ours ? live(&f) : 0;
    if (ours && !s) {
        bad_free(&f, sp, bp);
        return next.mallocx(size, flags);
    }
    void *p = sampled_mallocx(size, flags, MLW_WATCH_SAMPLE_REALLOC, sp, bp);
    if (!ours && !p)
        return next.rallocx(old, size, flags);
    if (!p && !(p = next.mallocx(size, flags)))
        return 0;
    const size_t have = ours ? s->size : next.sallocx(old, 0);
    memcpy(p, old, have < size ? have : size);
    if (!ours)
        next.dallocx(old, flags);
    else if (!end(&f, s, MLW_WATCH_REALLOC, size, sp, bp, false))
        bad_free(&f, sp, bp);
    return p;
}

/* Ours keep their size: the answer says that it could not be changed in place. */
size_t watch_xallocx(void *p, size_t size, size_t extra, int flags, uint64_t sp, uint64_t bp)
{
    struct found f;
    (void)sp, (void)bp;
    if (!in_range(p) || !find(p, &f))
        return next.xallocx(p, size, extra, flags);
    const struct sample *s = live(&f);
    return s ? s->size : 0;
}

size_t watch_sallocx(const void *p, int flags, uint64_t sp, uint64_t bp)
{
    struct found f;
    (void)sp, (void)bp;
    if (!in_range(p) || !find(p, &f))
        return next.sallocx(p, flags);
    const struct sample *s = live(&f);
    return s ? s->size : 0;
}

void watch_dallocx(void *p, int flags, uint64_t sp, uint64_t bp)
{
    if (!in_range(p) || !release(p, sp, bp))
        next.dallocx(p, flags);
}

void watch_sdallocx(void *p, size_t size, int flags, uint64_t sp, uint64_t bp)
{
    if (!in_range(p) || !release(p, sp, bp))
        next.sdallocx(p, size, flags);
}

/* ---- functions of other allocators ---- */

size_t watch_size(const void *p)
{
    struct found f;
    const struct sample *s = in_range(p) && find(p, &f) ? live(&f) : 0;
    return s ? s->size : 0;
}

/* A block of the allocator's with the contents of a sampled one, as aligned as that is, and with
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

void *watch_moves(watch_move *real, unsigned at, bool releases, uint64_t argument[6], uint64_t sp,
                  uint64_t bp)
{
    struct found f;
    void *old = (void *)argument[at], *copy = 0;
    const bool ours = in_range(old) && (watch_ready(), find(old, &f));
    struct sample *s = ours ? live(&f) : 0;
    if (s && !(copy = copy_of(s, f.address)))
        return 0;
    if (ours && !s)
        bad_free(&f, sp, bp);
    if (ours)
        argument[at] = (uint64_t)copy;
    void *p = real(argument[0], argument[1], argument[2], argument[3], argument[4], argument[5]);
    if (!copy)
        return p;
    if (!p && !releases) { /* the block stays as it is */
        next.free(copy);
        return 0;
    }
    if (!end(&f, s, MLW_WATCH_REALLOC, p ? next.malloc_usable_size(p) : 0, sp, bp, false))
        bad_free(&f, sp, bp);
    return p;
}

/* ---- for cxx.c ---- */

void *guest_new(size_t size, uint64_t sp, uint64_t bp)
{
    return spend(size) ? watch_malloc(size, sp, bp) : next.malloc(size);
}

void *guest_new_aligned(size_t align, size_t size, uint64_t sp, uint64_t bp)
{
    size = (size + align - 1) & ~(align - 1);
    return spend(size) ? watch_aligned_alloc(align, size, sp, bp) : next.aligned_alloc(align, size);
}

void guest_delete(void *p, uint64_t sp, uint64_t bp)
{
    if (in_range(p))
        watch_free(p, sp, bp);
    else
        next.free(p);
}
