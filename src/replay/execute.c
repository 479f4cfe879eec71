/* execute.c - Decodes the records of a thread and makes the calls. The loop is compiled once for
 * each combination of modes, so that a mode costs nothing when it is off. Slots are atomic
 * words; a thread waits until the slot has the generation that the record names. */
#include "replay/execute.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/rseq.h>

#include "arch/clock.h"
#include "arch/page.h"
#include "arch/rseq.h"
#include "base/fetch.h"
#include "replay/pool.h"

#define POINTER_BITS 44
#define POINTER_MASK (((uint64_t)1 << POINTER_BITS) - 1)
#define NO_BLOCK     1u /* stands for the address of a call that failed here */
#define DRY_BLOCK    2u

#define MANY   1u  /* threads */
#define TIMED  2u  /* every call */
#define SAMPLE 4u  /* one in SAMPLE_EVERY, at random */
#define VERIFY 8u  /* every slot's word is what it must be when it changes */
#define POOLS  16u /* some blocks are not the allocator's */

#define SAMPLE_EVERY 64u

/* Only newer C libraries and some allocators have them. */
extern void free_sized(void *p, size_t size_bytes) __attribute__((weak));
extern void free_aligned_sized(void *p, size_t alignment, size_t size_bytes) __attribute__((weak));

uint64_t execute_overhead(void)
{
    uint64_t least[16], sum = 0;
    for (unsigned i = 0; i < 16; i++) {
        least[i] = UINT64_MAX;
        for (unsigned k = 0; k < 2000; k++) {
            uint64_t t = arch_clock_before(), d = arch_clock_after() - t;
            if (d < least[i])
                least[i] = d;
        }
        sum += least[i];
    }
    return sum / 16;
}

/* --- was the thread switched out during a call? ---
 *
 * The kernel clears a thread's rseq_cs when it switches the thread out while that names a critical
 * section that the thread is not in. So a section that nothing ever enters, set before the call and
 * gone after it, reveals a switch, for two stores and a load. A call during which the thread was
 * switched out against its will (not because it waited for something) says nothing about the
 * allocator and is left out of the times. */
ARCH_RSEQ_NEVER(replay_never_begin, replay_never_abort);

static struct rseq_cs never __attribute__((aligned(32)));

static __thread struct engine_seat *seat_here;

void execute_begin(struct engine_seat *s)
{
    seat_here = s;
    s->rseq_cs = NULL;
    if (__rseq_size) { /* glibc registered it */
        never.start_ip = (uint64_t)(uintptr_t)replay_never_begin;
        never.post_commit_offset = ARCH_RSEQ_NEVER_BYTES;
        never.abort_ip = (uint64_t)(uintptr_t)replay_never_abort;
        void *at =
            (char *)__builtin_thread_pointer() + __rseq_offset + offsetof(struct rseq, rseq_cs);
        s->rseq_cs = at;
    }
    execute_waited(s);
}

void execute_end(struct engine_seat *s)
{
    seat_here = NULL;
    if (s->rseq_cs)
        *s->rseq_cs = 0;
}

void execute_waited(struct engine_seat *s)
{
    struct rusage u;
    getrusage(RUSAGE_THREAD, &u);
    s->waits = u.ru_nvcsw;
}

static inline __attribute__((always_inline)) void watch_switches(struct engine_seat *s)
{
    if (s->rseq_cs)
        *s->rseq_cs = (uint64_t)(uintptr_t)&never;
}

/* True if the thread was switched out since watch_switches and did not itself wait. */
static inline __attribute__((always_inline)) bool was_preempted(struct engine_seat *s)
{
    if (__builtin_expect(!s->rseq_cs || *s->rseq_cs != 0, 1))
        return false;
    long before = s->waits;
    execute_waited(s);
    return s->waits == before;
}

static unsigned cycles_bucket(uint64_t cycles)
{
    if (cycles < 32)
        return (unsigned)cycles;
    unsigned e = 63 - (unsigned)__builtin_clzll(cycles);
    unsigned b = 32 + (e - 5) * 16 + (unsigned)(cycles >> (e - 4) & 15);
    return b < ENGINE_BUCKETS ? b : ENGINE_BUCKETS - 1;
}

static __attribute__((noinline)) void note_slow(struct engine_seat *s, unsigned code,
                                                uint64_t cycles, uint64_t size_bytes)
{
    unsigned least = 0;
    for (unsigned i = 1; i < ENGINE_SLOWEST; i++)
        if (s->slowest[i].cycles < s->slowest[least].cycles)
            least = i;
    s->slowest[least] = (struct engine_slow){cycles, size_bytes, code};
    uint64_t low = UINT64_MAX;
    for (unsigned i = 0; i < ENGINE_SLOWEST; i++)
        if (s->slowest[i].cycles < low)
            low = s->slowest[i].cycles;
    s->slow_from = low;
}

static __attribute__((noinline)) void note(struct engine_seat *s, unsigned code, uint64_t cycles,
                                           uint64_t size_bytes)
{
    uint64_t over = s->engine->overhead_cycles;
    cycles = cycles > over ? cycles - over : 0;
    struct engine_times *t = &s->times[code];
    if (was_preempted(s)) {
        t->preempted++;
        return;
    }
    t->timed++;
    t->cycles += cycles;
    t->buckets[cycles_bucket(cycles)]++;
    if (cycles > t->max_cycles)
        t->max_cycles = cycles;
    if (cycles > s->slow_from)
        note_slow(s, code, cycles, size_bytes);
}

static __attribute__((noinline)) void draw(struct engine_seat *s)
{
    uint64_t x = s->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    s->random = x;
    s->countdown = 1 + (uint32_t)(x % (2 * SAMPLE_EVERY - 1));
}

/* True if this call is timed. */
static inline __attribute__((always_inline)) bool timed(struct engine_seat *s, const unsigned mode)
{
    if (mode & TIMED)
        return true;
    if (!(mode & SAMPLE) || __builtin_expect(--s->countdown != 0, 1))
        return false;
    draw(s);
    return true;
}

/* --- waiting for a slot --- */

struct want {
    struct engine_slot *slot;
    uint64_t generation;
    bool full;
};

static bool there(void *arg)
{
    const struct want *w = arg;
    uint64_t word = atomic_load_explicit(&w->slot->word, memory_order_acquire);
    return word >> POINTER_BITS == w->generation && ((word & POINTER_MASK) != 0) == w->full;
}

static inline __attribute__((always_inline)) void wait_for(struct engine_seat *s, uint32_t slot,
                                                           uint64_t generation, bool full)
{
    struct want w = {&s->engine->slots[slot], generation, full};
    if (__builtin_expect(!there(&w), 0))
        engine_wait(s, ENGINE_SLEEP_BLOCK, slot, there, &w);
}

/* --- counting live bytes --- */

static __attribute__((noinline)) void settle(struct engine_seat *s)
{
    struct engine *e = s->engine;
    if (!e->many || e->options.order == ENGINE_RECORDED) { /* exact: one thread at a time */
        if (s->live > s->high)
            s->high = s->live;
        return;
    }
    int64_t now = atomic_fetch_add_explicit(&e->live, s->live, memory_order_relaxed) + s->live;
    s->live = 0;
    int64_t peak = atomic_load_explicit(&e->peak, memory_order_relaxed);
    while (now > peak && !atomic_compare_exchange_weak(&e->peak, &peak, now))
        ;
}

static inline __attribute__((always_inline)) void add_live(struct engine_seat *s, int64_t bytes)
{
    s->live += bytes;
    if (__builtin_expect(s->live > s->high || s->live < s->low, 0))
        settle(s);
}

/* --- calls --- */

static __attribute__((noinline)) void touch(const struct engine_seat *s, uint8_t *p, uint64_t from,
                                            uint64_t to)
{
    if (s->engine->options.touch == ENGINE_TOUCH_BYTES) {
        memset(p + from, 0x5a, to - from);
        return;
    }
    if (from < to)
        *(volatile uint8_t *)(p + from) = 1;
    for (uint64_t at = (from | (ARCH_PAGE_BYTES - 1)) + 1; at < to; at += ARCH_PAGE_BYTES)
        *(volatile uint8_t *)(p + at) = 1;
}

/* Puts a call's request in the words of another function that stands in for it. False: the call
 * itself would have failed. */
static bool put_otherwise(unsigned code, uint64_t *alignment, uint64_t *size)
{
    const bool pages = code == MLW_OP_VALLOC || code == MLW_OP_PVALLOC;
    if (pages)
        *alignment = ARCH_PAGE_BYTES;
    if (code == MLW_OP_PVALLOC && __builtin_add_overflow(*size, ARCH_PAGE_BYTES - 1, size))
        return false;
    if (code == MLW_OP_PVALLOC)
        *size &= ~(uint64_t)(ARCH_PAGE_BYTES - 1);
    if (code == MLW_OP_MEMALIGN && (*alignment & (*alignment - 1))) /* it rounds */
        *alignment = *alignment >> 63 ? 0 : (uint64_t)2 << (63 - __builtin_clzll(*alignment));
    if (code == MLW_OP_POSIX_MEMALIGN && *alignment < sizeof(void *))
        return false;
    if (code != MLW_OP_POSIX_MEMALIGN && *alignment < sizeof(void *))
        *alignment = sizeof(void *);
    return !(*alignment & (*alignment - 1));
}

static __attribute__((noinline)) void *call_rare(const struct engine *e, unsigned code,
                                                 uint64_t alignment, uint64_t size)
{
    void *p = NULL;
    if (code < ENGINE_CODES && e->nearest[code] != code) {
        if (!put_otherwise(code, &alignment, &size))
            return NULL;
        code = e->nearest[code];
    }
    switch (code) {
    case MLW_OP_REALLOC: return realloc(NULL, size);
    case MLW_OP_REALLOCARRAY: return reallocarray(NULL, 1, size);
    case MLW_OP_POSIX_MEMALIGN: return posix_memalign(&p, alignment, size) ? NULL : p;
    case MLW_OP_ALIGNED_ALLOC: return aligned_alloc(alignment, size);
    case MLW_OP_MEMALIGN: return memalign(alignment, size);
    case MLW_OP_VALLOC: return valloc(size);
    case MLW_OP_PVALLOC: return pvalloc(size);
    default: return malloc(size); /* PRESENT */
    }
}

static inline __attribute__((always_inline)) void *
call_allocate(const struct engine *e, unsigned code, uint64_t alignment, uint64_t size)
{
    if (code == MLW_OP_MALLOC)
        return malloc(size);
    if (code == MLW_OP_CALLOC)
        return calloc(1, size);
    return call_rare(e, code, alignment, size);
}

/* --- blocks of call sites that are served otherwise --- */

static bool in_pools(const struct engine_seat *s, unsigned pools)
{
    return s->pool && pools >> (s->pool - 1) & 1;
}

static bool is_none(const void *block) { return (uintptr_t)block <= DRY_BLOCK << 3; }

static size_t usable_in_pool(const struct engine_seat *s, const void *block)
{
    const struct pools *pools = s->engine->pools;
    return pools && !is_none(block) ? pools_usable(pools, block) : 0;
}

/* NULL: the allocator is to make it. */
static __attribute__((noinline)) void *allocate_otherwise(struct engine_seat *s, uint64_t alignment,
                                                          uint64_t size)
{
    const struct engine_options *o = &s->engine->options;
    void *block = NULL;
    if (in_pools(s, o->left_out))
        block = (void *)(uintptr_t)(DRY_BLOCK << 3);
    else if (in_pools(s, o->pooled) && alignment <= 16)
        block = pools_allocate(s->engine->pools, s->pool, size);
    s->pool = 0;
    return block;
}

static __attribute__((noinline)) bool free_otherwise(struct engine_seat *s, void *block)
{
    if (!usable_in_pool(s, block))
        return false;
    pools_free(s->engine->pools, block);
    return true;
}

static void free_any(struct engine_seat *s, void *block)
{
    if (!is_none(block) && !free_otherwise(s, block))
        free(block);
}

/* A block is left out, or moves into a pool, within it, or out of it. False: the allocator is to do
 * it. A block that was left out stays so. */
static __attribute__((noinline)) bool reallocate_otherwise(struct engine_seat *s, void *block,
                                                           uint64_t size, void **fresh)
{
    const size_t usable = usable_in_pool(s, block);
    const bool out = (uintptr_t)block == DRY_BLOCK << 3 || in_pools(s, s->engine->options.left_out),
               pooled = in_pools(s, s->engine->options.pooled);
    if (out || (!usable && !pooled)) {
        s->pool = 0;
        if (out) {
            free_any(s, block);
            *fresh = size ? (void *)(uintptr_t)(DRY_BLOCK << 3) : NULL;
        }
        return out;
    }
    *fresh = block;
    if (usable && size && size <= usable && size >= usable / 2) {
        s->pool = 0;
        return true;
    }
    *fresh = size ? allocate_otherwise(s, 0, size) : NULL; /* which forgets the pool */
    if (!*fresh && !usable)
        return false;
    if (!*fresh && size)
        *fresh = malloc(size);
    const size_t had = usable ? usable : is_none(block) ? 0 : malloc_usable_size(block);
    if (*fresh)
        memcpy(*fresh, block, had < size ? had : size);
    free_any(s, block);
    return true;
}

static inline __attribute__((always_inline)) uint64_t word_of(const void *p, uint64_t generation)
{
    uint64_t bits = p ? (uint64_t)(uintptr_t)p >> 3 : NO_BLOCK;
    return bits | generation << POINTER_BITS;
}

/* `before` is the word that the slot must have: another means that two threads use it at once. */
static inline __attribute__((always_inline)) void
publish(struct engine_seat *s, uint32_t slot, uint64_t before, uint64_t word, const unsigned mode)
{
    _Atomic uint64_t *at = &s->engine->slots[slot].word;
    if (!(mode & VERIFY))
        atomic_store_explicit(at, word, memory_order_release);
    else if (atomic_exchange(at, word) != before)
        engine_die("two threads used one slot at once");
    if (mode & MANY)
        park_wake(&s->engine->park, slot);
}

static inline __attribute__((always_inline)) const uint8_t *
allocate(struct engine_seat *s, const uint8_t *p, unsigned code, unsigned variant,
         const unsigned mode)
{
    struct engine_slot *slots = s->engine->slots;
    uint32_t slot = 0;
    uint64_t generation = 0, alignment = 0;
    if (__builtin_expect(variant == WORKLOAD_OWN, 1)) {
        slot = s->last_slot = s->own;
        s->own = (uint32_t)slots[slot].size_bytes;
        generation = atomic_load_explicit(&slots[slot].word, memory_order_relaxed) >> POINTER_BITS;
    } else if (variant != WORKLOAD_FAILED) {
        slot = s->last_slot = workload_get_difference(&p, s->last_slot);
        if (variant == WORKLOAD_TAKEN) {
            generation = s->last_generation = workload_get_difference(&p, s->last_generation);
            if (mode & MANY)
                wait_for(s, slot, generation, false);
        }
    }
    if (__builtin_expect(workload_aligned(code), 0))
        alignment = workload_get(&p);
    uint64_t size = workload_get_short(&p);
    bool call = code != WORKLOAD_PRESENT;
    void *block;
    if (__builtin_expect(s->engine->options.dry, 0)) {
        block = variant == WORKLOAD_FAILED ? NULL : (void *)(uintptr_t)(DRY_BLOCK << 3);
    } else if ((mode & POOLS) && s->pool && (block = allocate_otherwise(s, alignment, size))) {
        /* it was made */
    } else if (call && timed(s, mode)) {
        watch_switches(s);
        uint64_t t = arch_clock_before();
        block = call_allocate(s->engine, code, alignment, size);
        note(s, code, arch_clock_after() - t, size);
    } else {
        block = call_allocate(s->engine, code, alignment, size);
    }
    if (call)
        s->times[code].count++;
    if (__builtin_expect(variant == WORKLOAD_FAILED, 0)) {
        s->times[code].failed += !block;
        s->unexpected += block != NULL;
        free(block);
        return p;
    }
    if (__builtin_expect(!block, 0)) {
        s->times[code].failed++;
        s->unexpected++;
    } else if (__builtin_expect(s->engine->options.touch != ENGINE_TOUCH_NONE, 0) &&
               !s->engine->options.dry && !((mode & POOLS) && is_none(block))) {
        touch(s, block, 0, size);
    }
    slots[slot].size_bytes = size;
    publish(s, slot, generation << POINTER_BITS, word_of(block, generation + 1), mode);
    add_live(s, (int64_t)size);
    return p;
}

static inline __attribute__((always_inline)) void
call_free(const struct engine *e, unsigned code, void *block, uint64_t alignment, uint64_t size)
{
    if (__builtin_expect(code == MLW_OP_FREE_SIZED && e->nearest[code] == code, 0))
        free_sized(block, size);
    else if (__builtin_expect(code == MLW_OP_FREE_ALIGNED_SIZED && e->nearest[code] == code, 0))
        free_aligned_sized(block, alignment, size);
    else
        free(block);
}

static inline __attribute__((always_inline)) const uint8_t *release(struct engine_seat *s,
                                                                    const uint8_t *p, unsigned code,
                                                                    unsigned variant,
                                                                    const unsigned mode)
{
    struct engine_slot *slots = s->engine->slots;
    uint32_t slot = 0;
    uint64_t word = 0, alignment = 0, size = 0;
    void *block = NULL;
    if (__builtin_expect(variant != WORKLOAD_NULL, 1)) {
        slot = s->last_slot = workload_get_difference(&p, s->last_slot);
        if (variant & WORKLOAD_FROM_OTHER) {
            s->last_generation = workload_get_difference(&p, s->last_generation);
            if (mode & MANY)
                wait_for(s, slot, s->last_generation, true);
        }
        word = atomic_load_explicit(&slots[slot].word, memory_order_acquire);
        block = (void *)(uintptr_t)((word & POINTER_MASK) << 3);
        add_live(s, -(int64_t)slots[slot].size_bytes);
    }
    if (__builtin_expect(workload_release_aligned(code), 0))
        alignment = workload_get(&p);
    if (__builtin_expect(workload_release_sized(code), 0))
        size = workload_get(&p);
    bool call = code != WORKLOAD_VANISH;
    if (__builtin_expect((uintptr_t)block >= 1 && (uintptr_t)block <= DRY_BLOCK << 3, 0)) {
        /* there is none: it failed here, or nothing is allocated */
    } else if ((mode & POOLS) && free_otherwise(s, block)) {
        /* it is a pool's again */
    } else if (call && timed(s, mode)) {
        watch_switches(s);
        uint64_t t = arch_clock_before();
        call_free(s->engine, code, block, alignment, size);
        note(s, code, arch_clock_after() - t, 0);
    } else {
        call_free(s->engine, code, block, alignment, size);
    }
    if (call)
        s->times[code].count++;
    if (variant == WORKLOAD_NULL)
        return p;
    if (!(variant & WORKLOAD_DONATE)) {
        slots[slot].size_bytes = s->own;
        s->own = slot;
    }
    /* A thread may wait for a slot that is kept, too: it is free for all when this thread has
     * ended. */
    publish(s, slot, word, word & ~POINTER_MASK, mode);
    return p;
}

static __attribute__((noinline)) const uint8_t *reallocate(struct engine_seat *s, const uint8_t *p,
                                                           unsigned code, unsigned variant,
                                                           const unsigned mode)
{
    const struct engine_options *o = &s->engine->options;
    uint32_t slot = s->last_slot = workload_get_difference(&p, s->last_slot);
    struct engine_slot *at = &s->engine->slots[slot];
    if (variant == WORKLOAD_HANDED || variant == WORKLOAD_ZERO_HANDED) {
        s->last_generation = workload_get_difference(&p, s->last_generation);
        if (mode & MANY)
            wait_for(s, slot, s->last_generation, true);
    }
    bool zero = variant >= WORKLOAD_ZERO;
    uint64_t size = zero ? 0 : workload_get(&p);
    uint64_t word = atomic_load_explicit(&at->word, memory_order_acquire), old = at->size_bytes;
    void *block = (void *)(uintptr_t)((word & POINTER_MASK) << 3), *fresh;
    bool real = (uintptr_t)block > DRY_BLOCK << 3;
    if (o->dry) {
        fresh = zero ? NULL : block;
    } else if ((mode & POOLS) && reallocate_otherwise(s, block, size, &fresh)) {
        /* it is done */
    } else {
        void *from = real ? block : NULL;
        bool watch = timed(s, mode);
        if (watch)
            watch_switches(s);
        uint64_t t = watch ? arch_clock_before() : 0;
        fresh = code == MLW_OP_REALLOC ? realloc(from, size) : reallocarray(from, 1, size);
        if (watch)
            note(s, code, arch_clock_after() - t, size);
    }
    s->times[code].count++;
    if (zero) {
        /* An allocator may give a block of no bytes back; the program had none. */
        if (fresh) {
            s->unexpected++;
            free(fresh);
        }
        add_live(s, -(int64_t)old);
        publish(s, slot, word, word & ~POINTER_MASK, mode);
        return p;
    }
    if (!fresh) { /* the old block is still there; the workload goes on as if it had grown */
        s->times[code].failed++;
        s->unexpected++;
        fresh = real && size ? block : NULL;
    } else if (o->touch != ENGINE_TOUCH_NONE && !o->dry && size > old && !is_none(fresh)) {
        touch(s, fresh, old, size);
    }
    at->size_bytes = size;
    publish(s, slot, word, word_of(fresh, (word >> POINTER_BITS) + 1), mode);
    add_live(s, (int64_t)size - (int64_t)old);
    return p;
}

/* EARLY, MOVE, START, END, POOL. */
static __attribute__((noinline)) const uint8_t *
act(struct engine_seat *s, const uint8_t *p, unsigned code, unsigned variant, const unsigned mode)
{
    if (code == WORKLOAD_START) {
        uint32_t thread = (uint32_t)workload_get(&p);
        engine_start_thread(s->engine, s, thread);
        return p;
    }
    if (code == WORKLOAD_END) {
        engine_await_begun(s, (uint32_t)workload_get(&p));
        return p;
    }
    if (code == WORKLOAD_POOL) {
        s->pool = (unsigned)workload_get(&p);
        return p;
    }
    struct engine_slot *slots = s->engine->slots;
    uint32_t slot = s->last_slot = workload_get_difference(&p, s->last_slot);
    if (variant & WORKLOAD_FROM_OTHER) {
        s->last_generation = workload_get_difference(&p, s->last_generation);
        if (mode & MANY)
            wait_for(s, slot, s->last_generation, true);
    }
    if (code == WORKLOAD_EARLY) {
        add_live(s, -(int64_t)slots[slot].size_bytes);
        slots[slot].size_bytes = 0;
        return p;
    }
    uint32_t to = s->last_slot = workload_get_difference(&p, s->last_slot);
    uint64_t word = atomic_load_explicit(&slots[slot].word, memory_order_acquire);
    slots[to].size_bytes = slots[slot].size_bytes;
    atomic_store_explicit(&slots[slot].word, word & ~POINTER_MASK, memory_order_release);
    publish(s, to, 0, (word & POINTER_MASK) | (uint64_t)1 << POINTER_BITS, mode);
    return p;
}

/* --- looking ahead ---
 *
 * With many live blocks nearly every release names a slot that no cache holds. So the records are
 * read twice, a few at a time: first only for the slots that they will name, which are asked of
 * memory all at once, then to be executed. */

#define GROUP 64u /* records */

/* The slots that a thread's stack of free ones will give, without touching it. */
struct scout {
    const struct engine_slot *slots;
    uint32_t last_slot, own; /* own: the top of what lay there before the group */
    uint32_t pushed[GROUP], depth;
};

FETCHES scout_slot(struct scout *u, uint32_t slot)
{
    u->last_slot = slot;
    __builtin_prefetch(&u->slots[slot], 1);
}

static inline void look_at_named(struct scout *u, const uint8_t **p)
{
    scout_slot(u, workload_get_difference(p, u->last_slot));
}

static inline void look_at_own(struct scout *u)
{
    if (u->depth) {
        u->last_slot = u->pushed[--u->depth];
        return;
    }
    if (u->own == UINT32_MAX)
        return; /* not in a sound file */
    u->last_slot = u->own;
    u->own = (uint32_t)u->slots[u->own].size_bytes;
}

static __attribute__((noinline)) void look_ahead(const struct engine_seat *s, uint32_t n)
{
    const uint8_t *p = s->ops;
    struct scout u = {.slots = s->engine->slots, .last_slot = s->last_slot, .own = s->own};
    for (; n; n--) {
        const uint8_t first = *p++;
        const unsigned code = workload_code(first), variant = workload_variant(first);
        if (workload_releases(code)) {
            if (variant != WORKLOAD_NULL) {
                look_at_named(&u, &p);
                if (variant & WORKLOAD_FROM_OTHER)
                    workload_get(&p);
                if (!(variant & WORKLOAD_DONATE))
                    u.pushed[u.depth++] = u.last_slot;
            }
            if (workload_release_aligned(code))
                workload_get(&p);
            if (workload_release_sized(code))
                workload_get(&p);
        } else if (workload_reallocates(code) && variant >= WORKLOAD_LOCAL) {
            look_at_named(&u, &p);
            if (variant == WORKLOAD_HANDED || variant == WORKLOAD_ZERO_HANDED)
                workload_get(&p);
            if (variant < WORKLOAD_ZERO)
                workload_get(&p);
        } else if (workload_allocates(code) || workload_reallocates(code)) {
            if (variant == WORKLOAD_OWN)
                look_at_own(&u);
            else if (variant != WORKLOAD_FAILED)
                look_at_named(&u, &p);
            if (variant == WORKLOAD_TAKEN)
                workload_get(&p);
            if (workload_aligned(code))
                workload_get(&p);
            workload_get(&p);
        } else if (code == WORKLOAD_START || code == WORKLOAD_END || code == WORKLOAD_POOL) {
            workload_get(&p);
        } else {
            look_at_named(&u, &p);
            if (variant & WORKLOAD_FROM_OTHER)
                workload_get(&p);
            if (code == WORKLOAD_MOVE)
                look_at_named(&u, &p);
        }
    }
}

static inline __attribute__((always_inline)) void run_group(struct engine_seat *s, uint32_t n,
                                                            const unsigned mode)
{
    const uint8_t *p = s->ops;
    for (; n; n--) {
        s->record = p;
        uint8_t first = *p++;
        unsigned code = workload_code(first), variant = workload_variant(first);
        if (code == MLW_OP_FREE)
            p = release(s, p, MLW_OP_FREE, variant, mode);
        else if (code == MLW_OP_MALLOC)
            p = allocate(s, p, MLW_OP_MALLOC, variant, mode);
        else if (workload_reallocates(code) && variant >= WORKLOAD_LOCAL)
            p = reallocate(s, p, code, variant, mode);
        else if (workload_allocates(code) || workload_reallocates(code))
            p = allocate(s, p, code, variant, mode);
        else if (workload_releases(code))
            p = release(s, p, code, variant, mode);
        else
            p = act(s, p, code, variant, mode);
    }
    s->ops = p;
}

static inline __attribute__((always_inline)) void run(struct engine_seat *s, uint32_t n,
                                                      const unsigned mode)
{
    const bool far_away = s->engine->far_away;
    while (n) {
        const uint32_t group = far_away && n > GROUP ? GROUP : n;
        if (far_away)
            look_ahead(s, group);
        run_group(s, group, mode);
        n -= group;
    }
}

/* --- which call was it? --- */

static void skip_numbers(const uint8_t **p, unsigned n)
{
    while (n--)
        workload_get(p);
}

/* Decodes a record, without its slot and generation, and moves behind it. */
static void decode_record(const uint8_t **p, struct execute_call *call)
{
    const uint8_t first = *(*p)++;
    const unsigned code = workload_code(first), variant = workload_variant(first);
    *call = (struct execute_call){.code = code};
    if (workload_releases(code)) {
        if (variant != WORKLOAD_NULL)
            skip_numbers(p, variant & WORKLOAD_FROM_OTHER ? 2 : 1);
        skip_numbers(p, workload_release_aligned(code));
        skip_numbers(p, workload_release_sized(code));
    } else if (workload_reallocates(code) && variant >= WORKLOAD_LOCAL) {
        const bool handed = variant == WORKLOAD_HANDED || variant == WORKLOAD_ZERO_HANDED;
        skip_numbers(p, handed ? 2 : 1);
        call->sized = true;
        if (variant < WORKLOAD_ZERO)
            call->size_bytes = workload_get(p);
    } else if (workload_allocates(code) || workload_reallocates(code)) {
        skip_numbers(p, variant == WORKLOAD_TAKEN ? 2 : variant == WORKLOAD_NEW);
        call->sized = true;
        if (workload_aligned(code))
            call->alignment = workload_get(p);
        call->size_bytes = workload_get(p);
    } else if (code == WORKLOAD_START || code == WORKLOAD_END || code == WORKLOAD_POOL) {
        skip_numbers(p, 1);
    } else {
        skip_numbers(p, (variant & WORKLOAD_FROM_OTHER ? 2u : 1u) + (code == WORKLOAD_MOVE));
    }
}

bool execute_under_way(struct execute_call *call)
{
    const struct engine_seat *s = seat_here;
    if (!s || !s->record)
        return false;
    uint64_t number = s->records_before;
    for (const uint8_t *p = s->buffer; p <= s->record; number++)
        decode_record(&p, call);
    call->record = number;
    call->thread = s->thread + 1;
    return true;
}

void execute_records(struct engine_seat *s, uint32_t n)
{
    if (s->engine->options.verify) {
        run(s, n, MANY | VERIFY);
        return;
    }
    if (s->engine->options.pooled | s->engine->options.left_out) {
        if (s->engine->many)
            run(s, n, MANY | POOLS);
        else
            run(s, n, POOLS);
        return;
    }
    if (!s->engine->many) {
        switch (s->engine->options.timing) {
        case ENGINE_TIMING_ALL: run(s, n, TIMED); return;
        case ENGINE_TIMING_SAMPLE: run(s, n, SAMPLE); return;
        default: run(s, n, 0); return;
        }
    }
    switch (s->engine->options.timing) {
    case ENGINE_TIMING_ALL: run(s, n, MANY | TIMED); return;
    case ENGINE_TIMING_SAMPLE: run(s, n, MANY | SAMPLE); return;
    default: run(s, n, MANY); return;
    }
}
