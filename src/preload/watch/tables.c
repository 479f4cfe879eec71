/* tables.c - samples and sites, ours in private memory, and what readers see of them.
 *
 * A site is a call stack that samples share. It is found by its hash in one of two sets of WAYS
 * entries; an entry that nothing live holds can be given to another stack, the longest unused one
 * first. `refs` decides: a lookup holds an entry before it looks at the stack in it, and a writer
 * takes it by turning 0 into WRITING, so a stack never changes under a hold. */
#include <string.h>

#include "watcher.h"

#define WAYS    8u
#define WRITING 0x80000000u
#define STEPS   32u /* steps of the table of samples; each in the second half doubles the period */

struct site {
    volatile uint32_t refs; /* holders, or WRITING */
    uint32_t version;       /* the version of the mirror */
    uint32_t given;         /* how often it was given to a stack */
    uint64_t hash;          /* 0: never used */
    volatile uint64_t used_ns;
    struct mlw_watch_stack stack;
};

static struct {
    uint32_t samples, sites;
    struct sample *sample;
    struct site *site;
    volatile uint64_t free_list; /* counter << 32 | index + 1 */
    volatile uint32_t used;
    volatile uint32_t taken;
    volatile uint32_t sites_used;
} tables;

bool tables_init(uint32_t samples, uint32_t sites)
{
    tables.sample = watch_map(samples * sizeof *tables.sample);
    tables.site = watch_map(sites * sizeof *tables.site);
    tables.samples = samples;
    tables.sites = sites - 1;
    watcher.kept[0] =
        (struct watch_kept){(uint64_t)(uintptr_t)tables.sample, samples * sizeof *tables.sample};
    if (!tables.sample || !tables.site)
        return false;
    struct site *rest = &tables.site[tables.sites]; /* stands for the stacks that find no room */
    rest->refs = 1;                                 /* held for ever */
    rest->hash = 1;
    rest->stack.flags = MLW_WATCH_STACK_NO_ROOM;
    return true;
}

uint64_t tables_bytes(void)
{
    return tables.used * (sizeof(struct sample) + sizeof(struct mlw_watch_sample)) +
           tables.sites_used * (sizeof(struct site) + sizeof(struct mlw_watch_site));
}

struct sample *tables_sample(uint32_t index)
{
    return index < tables.samples ? &tables.sample[index] : 0;
}

uint32_t tables_take_sample(void)
{
    uint64_t head = __atomic_load_n(&tables.free_list, __ATOMIC_ACQUIRE);
    while ((uint32_t)head) {
        uint32_t at = (uint32_t)head - 1;
        uint64_t after =
            ((head >> 32) + 1) << 32 | __atomic_load_n(&tables.sample[at].next, __ATOMIC_RELAXED);
        if (__atomic_compare_exchange_n(&tables.free_list, &head, after, true, __ATOMIC_ACQ_REL,
                                        __ATOMIC_ACQUIRE)) {
            __atomic_fetch_add(&tables.taken, 1, __ATOMIC_RELAXED);
            return at;
        }
    }
    uint32_t used = __atomic_load_n(&tables.used, __ATOMIC_RELAXED);
    do {
        if (used >= tables.samples)
            return NO_INDEX;
    } while (!__atomic_compare_exchange_n(&tables.used, &used, used + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
    __atomic_fetch_add(&tables.taken, 1, __ATOMIC_RELAXED);
    return used;
}

/* Weights are those of the period that a gap was drawn with, so estimates stay unbiased whatever
 * the period was when; only their intervals become wider. */
uint64_t tables_period(uint64_t period)
{
    uint64_t full = (uint64_t)__atomic_load_n(&tables.taken, __ATOMIC_RELAXED) * STEPS;
    uint64_t step = tables.samples ? full / tables.samples : 0;
    if (step >= STEPS / 2)
        period <<= step - STEPS / 2 + 1;
    if (period > MLW_WATCH_PERIOD_MAX)
        period = MLW_WATCH_PERIOD_MAX;
    /* The memory that we hold would be the program's own without us: it gets it, block by block. */
    if (unlikely(watcher.starved))
        period = MLW_WATCH_PERIOD_MIN;
    uint64_t *now = &watcher.segment->period_now;
    if (unlikely(__atomic_load_n(now, __ATOMIC_RELAXED) != period))
        __atomic_store_n(now, period, __ATOMIC_RELAXED);
    return period;
}

void tables_give_sample(uint32_t index)
{
    __atomic_fetch_sub(&tables.taken, 1, __ATOMIC_RELAXED);
    uint64_t head = __atomic_load_n(&tables.free_list, __ATOMIC_RELAXED), after;
    do {
        __atomic_store_n(&tables.sample[index].next, (uint32_t)head, __ATOMIC_RELAXED);
        after = ((head >> 32) + 1) << 32 | (index + 1);
    } while (!__atomic_compare_exchange_n(&tables.free_list, &head, after, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_RELAXED));
}

/* ---- the segment's tables ---- */

static struct mlw_watch_site *mirror_site(uint32_t i)
{
    struct mlw_watch_site *s = &watcher.site[i];
    return segment_touch(s, sizeof *s) ? s : 0;
}

static struct mlw_watch_sample *mirror_sample(uint32_t i)
{
    struct mlw_watch_sample *s = &watcher.sample[i];
    return segment_touch(s, sizeof *s) ? s : 0;
}

/* ---- sites ---- */

static uint64_t hash_stack(const struct mlw_watch_stack *s)
{
    uint64_t h = s->frames * 0x9e3779b97f4a7c15 ^ s->flags;
    for (uint32_t i = 0; i < s->frames; i++) {
        h = (h ^ s->frame[i]) * 0xd6e8feb86659fd93;
        h ^= h >> 32;
    }
    return h ? h : 1;
}

static bool same_stack(const struct mlw_watch_stack *a, const struct mlw_watch_stack *b)
{
    return a->frames == b->frames && a->flags == b->flags &&
           !memcmp(a->frame, b->frame, a->frames * sizeof a->frame[0]);
}

/* Holds the entry, unless it is being written. */
static bool hold(struct site *s)
{
    uint32_t refs = __atomic_load_n(&s->refs, __ATOMIC_RELAXED);
    do {
        if (refs & WRITING)
            return false;
    } while (!__atomic_compare_exchange_n(&s->refs, &refs, refs + 1, true, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED));
    return true;
}

void tables_drop_site(uint32_t site)
{
    __atomic_fetch_sub(&tables.site[site].refs, 1, __ATOMIC_RELEASE);
}

const struct mlw_watch_stack *tables_stack(uint32_t site) { return &tables.site[site].stack; }

/* Writes the mirror of a site that begins anew. */
static void mirror_new_site(uint32_t index)
{
    struct site *s = &tables.site[index];
    struct mlw_watch_site *m = mirror_site(index);
    if (!m)
        return;
    uint32_t v = seqlock_begin(&m->version);
    memset((uint8_t *)m + offsetof(struct mlw_watch_site, live), 0,
           sizeof *m - offsetof(struct mlw_watch_site, live));
    m->hash = s->hash;
    m->stack = s->stack;
    seqlock_end(&m->version, v);
    s->version = v + 1;
}

/* The i-th place where that stack may be: set by set. */
static uint32_t stack_place(uint64_t hash, uint32_t i)
{
    uint32_t sets = tables.sites / WAYS, set = (uint32_t)(i < WAYS ? hash : hash >> 32) % sets;
    return set * WAYS + i % WAYS;
}

uint32_t tables_site(const struct mlw_watch_stack *stack, uint64_t now)
{
    uint64_t hash = hash_stack(stack);
    for (uint32_t i = 0; i < 2 * WAYS; i++) {
        struct site *s = &tables.site[stack_place(hash, i)];
        if (__atomic_load_n(&s->hash, __ATOMIC_RELAXED) != hash || !hold(s))
            continue;
        if (s->hash == hash && same_stack(&s->stack, stack)) {
            s->used_ns = now;
            return stack_place(hash, i);
        }
        tables_drop_site(stack_place(hash, i));
    }
    for (unsigned round = 0; round < 4; round++) {
        uint32_t oldest = NO_INDEX;
        for (uint32_t i = 0; i < 2 * WAYS; i++) {
            uint32_t at = stack_place(hash, i);
            if (!__atomic_load_n(&tables.site[at].refs, __ATOMIC_RELAXED) &&
                (oldest == NO_INDEX || tables.site[at].used_ns < tables.site[oldest].used_ns))
                oldest = at;
        }
        if (oldest == NO_INDEX)
            return NO_INDEX;
        struct site *s = &tables.site[oldest];
        uint32_t none = 0;
        if (!__atomic_compare_exchange_n(&s->refs, &none, WRITING, false, __ATOMIC_ACQUIRE,
                                         __ATOMIC_RELAXED))
            continue;
        if (s->hash)
            count(&watcher.segment->counters.evicted_sites, 1);
        else
            __atomic_fetch_add(&tables.sites_used, 1, __ATOMIC_RELAXED);
        s->given++;
        __atomic_store_n(&s->hash, hash, __ATOMIC_RELAXED);
        s->stack.frames = stack->frames;
        s->stack.flags = stack->flags;
        memcpy(s->stack.frame, stack->frame, stack->frames * sizeof stack->frame[0]);
        memset(s->stack.frame + stack->frames, 0,
               (MLW_WATCH_FRAMES - stack->frames) * sizeof stack->frame[0]);
        s->used_ns = now;
        mirror_new_site(oldest);
        __atomic_store_n(&s->refs, 1, __ATOMIC_RELEASE);
        return oldest;
    }
    return NO_INDEX;
}

bool tables_hold_again(uint32_t index, uint32_t given, uint64_t now)
{
    struct site *s = &tables.site[index];
    if (!given || !hold(s))
        return false;
    if (likely(s->given == given)) {
        s->used_ns = now;
        return true;
    }
    tables_drop_site(index);
    return false;
}

uint32_t tables_site_given(uint32_t index) { return tables.site[index].given; }

uint32_t tables_rest(void)
{
    struct site *rest = &tables.site[tables.sites];
    if (!rest->version) /* concurrent threads write the same value */
        mirror_new_site(tables.sites);
    __atomic_fetch_add(&rest->refs, 1, __ATOMIC_ACQUIRE);
    count(&watcher.segment->counters.crowded, 1);
    return tables.sites;
}

/* ---- samples ---- */

static uint64_t sample_blocks_q8(const struct sample *s)
{
    return s->size ? (s->weight * 256 + s->size / 2) / s->size : 0;
}

void tables_publish(uint32_t index, uint32_t flags)
{
    struct sample *s = &tables.sample[index];
    struct mlw_watch *w = watcher.segment;
    struct mlw_watch_site *site = mirror_site(s->site);
    struct mlw_watch_sample *m = mirror_sample(index);
    if (site) {
        count(&site->samples, 1);
        count(&site->bytes, s->size);
        count(&site->weight, s->weight);
        count(&site->blocks_q8, sample_blocks_q8(s));
        __atomic_fetch_add(&site->live, 1, __ATOMIC_RELAXED);
        __atomic_store_n(&site->used_ns, s->time_ns, __ATOMIC_RELAXED);
    }
    if (m) {
        uint32_t v = seqlock_begin(&m->version);
        m->flags = flags | MLW_WATCH_SAMPLE_LIVE;
        m->address = s->address;
        m->size = s->size;
        m->weight = s->weight;
        m->drawn = s->drawn;
        m->time_ns = s->time_ns;
        m->site = s->site;
        m->tid = s->tid;
        m->site_version = tables.site[s->site].version;
        m->align = s->align;
        seqlock_end(&m->version, v);
        uint32_t used = __atomic_load_n(&w->samples_used, __ATOMIC_RELAXED);
        while (used <= index &&
               !__atomic_compare_exchange_n(&w->samples_used, &used, index + 1, true,
                                            __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
    }
    count(&w->counters.samples, 1);
    count(&w->counters.sample_bytes, s->size);
    count(&w->counters.sample_weight, s->weight);
    if (flags & MLW_WATCH_SAMPLE_GUARDED)
        count(&w->counters.guarded, 1);
}

static void note_sample_free(const struct sample *s, uint64_t address, uint32_t kind,
                             uint32_t free_site, uint32_t tid, uint64_t now, uint64_t new_size)
{
    struct mlw_watch *w = watcher.segment;
    uint64_t number = __atomic_fetch_add(&w->next_free, 1, __ATOMIC_RELAXED);
    struct mlw_watch_free *f = &watcher.free_[number % watcher.plan.frees];
    if (!segment_touch(f, sizeof *f))
        return;
    uint32_t v = seqlock_begin(&f->version);
    f->kind = kind;
    f->number = number;
    f->address = address;
    f->size = s->size;
    f->weight = s->weight;
    f->allocated_ns = s->time_ns;
    f->freed_ns = now;
    f->new_size = new_size;
    f->site = s->site;
    f->site_version = tables.site[s->site].version;
    f->free_site = free_site;
    f->free_site_version = free_site == NO_INDEX ? 0 : tables.site[free_site].version;
    f->allocated_tid = s->tid;
    f->freed_tid = tid;
    seqlock_end(&f->version, v);
}

void tables_ended(uint32_t index, uint64_t address, uint32_t kind, uint32_t free_site, uint64_t now,
                  uint64_t new_size)
{
    struct sample *s = &tables.sample[index];
    struct mlw_watch *w = watcher.segment;
    struct mlw_watch_site *site = mirror_site(s->site);
    struct mlw_watch_sample *m = mirror_sample(index);
    uint32_t tid = watch_tid();
    if (site) {
        uint64_t us = now > s->time_ns ? (now - s->time_ns) / 1000 : 0, byte_us;
        if (__builtin_mul_overflow(s->weight, us, &byte_us))
            byte_us = UINT64_MAX >> 8;
        count(&site->freed_samples, 1);
        count(&site->freed_bytes, s->size);
        count(&site->freed_weight, s->weight);
        count(&site->freed_blocks_q8, sample_blocks_q8(s));
        count(&site->freed_byte_us, byte_us);
        if (tid != s->tid)
            count(&site->freed_elsewhere, 1);
        __atomic_fetch_sub(&site->live, 1, __ATOMIC_RELAXED);
    }
    if (m) {
        uint32_t v = seqlock_begin(&m->version);
        m->flags = 0;
        seqlock_end(&m->version, v);
    }
    count(&w->counters.frees, 1);
    count(&w->counters.free_bytes, s->size);
    count(&w->counters.free_weight, s->weight);
    if (kind == MLW_WATCH_REALLOC)
        count(&w->counters.reallocs, 1);
    note_sample_free(s, address, kind, free_site, tid, now, new_size);
}

void tables_after_fork(void)
{
    for (uint32_t i = 0; i <= tables.sites; i++) {
        struct site *s = &tables.site[i];
        if (s->refs & WRITING) /* by a thread that is not here any more */
            s->refs = 0, s->hash = 0;
        if (s->hash)
            mirror_new_site(i);
    }
    for (uint32_t i = 0; i < tables.used; i++)
        if (tables.sample[i].address)
            tables_publish(i,
                           MLW_WATCH_SAMPLE_INHERITED |
                               (tables.sample[i].guard != NO_INDEX ? MLW_WATCH_SAMPLE_GUARDED : 0));
}
