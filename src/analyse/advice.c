/* advice.c - Derives remedies from the parts of a resident size, each with a lower and an upper
 * bound of its saving. A remedy is listed only if it could save a twentieth of the resident
 * size. The table of texts is what reports print. */
#include "analyse/advice.h"

#include <stdlib.h>

#define PAGES_OF_HUGE 512 /* how many pages a huge one replaces */
#define WORTH         20  /* a remedy is reported when it could save a 20th of the resident size */

static const struct {
    const char *setting, *environment, *text;
} kinds[ADVICE_KINDS] = {
    [ADVICE_TRIM] = {"malloc_trim", NULL,
                     "call malloc_trim(0) after the program has freed much memory: it returns "
                     "whole free pages to the kernel"},
    [ADVICE_TRIM_THRESHOLD] = {"glibc.malloc.trim_threshold=131072",
                               "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072",
                               "return the top of the heap to the kernel once 128 KB of it are "
                               "free; frees of large blocks have raised that limit"},
    [ADVICE_MMAP_THRESHOLD] = {"glibc.malloc.mmap_threshold=131072",
                               "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072",
                               "keep large blocks out of the heap: frees have raised the size from "
                               "which a block gets a mapping of its own"},
    [ADVICE_ARENA_MAX] =
        {"glibc.malloc.arena_max=1", "GLIBC_TUNABLES=glibc.malloc.arena_max=1",
         "let threads share arenas: free memory of one arena cannot serve another"},
    [ADVICE_TCACHE] = {"glibc.malloc.tcache_count=0", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
                       "keep no freed chunks in the caches of threads; calls take longer"},
    [ADVICE_FASTBINS] = {"glibc.malloc.mxfast=0", "GLIBC_TUNABLES=glibc.malloc.mxfast=0",
                         "keep no freed chunks of up to 128 bytes in fastbins, where they do not "
                         "merge with free neighbors; calls take longer"},
    [ADVICE_POOL] = {"pool", NULL,
                     "allocate the blocks of this call site from a pool of their own: they keep "
                     "pages resident from which other blocks have been freed"},
    [ADVICE_ALLOCATOR] = {"allocator", NULL,
                          "try another allocator (mallow compare): glibc cannot return free chunks "
                          "on pages that also hold live blocks"},
    [ADVICE_RELEASE] = {"release", NULL,
                        "most of it is live: release the blocks of this call site when they are no "
                        "longer used"},
    [ADVICE_SHRINK] = {"shrink", NULL,
                       "request less at this call site: part of these blocks was never touched. "
                       "This saves address space and live bytes, not resident memory"},
    [ADVICE_STACKS] = {"stacks", NULL,
                       "use fewer threads, or less stack: pages that a deep call touched stay "
                       "resident until the thread ends"},
    [ADVICE_FILES] = {"files", NULL,
                      "unmap files, or return their pages with madvise(MADV_DONTNEED), once they "
                      "are read. Under memory pressure the kernel does this by itself"},
    [ADVICE_HUGE] = {"thp", NULL,
                     "avoid huge pages where few bytes of each are used: madvise(MADV_NOHUGEPAGE), "
                     "or prctl(PR_SET_THP_DISABLE) for all"},
    [ADVICE_DONTNEED] =
        {"dontneed", NULL,
         "return pages at once, with MADV_DONTNEED instead of MADV_FREE (in jemalloc: "
         "muzzy_decay_ms:0). Under memory pressure the kernel takes them by itself"},
};

const char *advice_setting(enum advice_kind kind) { return kinds[kind].setting; }
const char *advice_environment(enum advice_kind kind) { return kinds[kind].environment; }
const char *advice_text(enum advice_kind kind) { return kinds[kind].text; }

bool advice_has_site(enum advice_kind kind)
{
    return kind == ADVICE_POOL || kind == ADVICE_RELEASE || kind == ADVICE_SHRINK;
}

static uint64_t positive(int64_t bytes) { return bytes > 0 ? (uint64_t)bytes : 0; }

/* Free in the arenas that another number of arenas would not have: all but what the one with the
 * most has free. */
static uint64_t in_idle_arenas(const struct pinned *p)
{
    uint64_t sum = 0, most = 0;
    for (size_t i = 0; i < p->arena_count; i++) {
        const struct pinned_arena *a = &p->arenas[i];
        const uint64_t used = a->live_bytes + a->header_bytes,
                       extent = i ? a->extent_bytes : a->span_bytes,
                       free_bytes = extent > used ? extent - used : 0;
        sum += free_bytes;
        most = free_bytes > most ? free_bytes : most;
    }
    return sum - most;
}

/* How much must be free at the top for glibc to give it back. */
#define TRIM_BYTES ((uint64_t)128 << 10)

uint64_t advice_trim_bytes(const struct threshold *t, uint64_t time_ns)
{
    uint64_t bytes = TRIM_BYTES;
    if (t->doubt)
        return UINT64_MAX;
    for (size_t i = 1; !t->fixed && i < t->count && t->steps[i].time_ns <= time_ns; i++)
        bytes = 2 * t->steps[i].bytes; /* glibc raises both */
    return bytes;
}

static int by_saving(const void *a, const void *b)
{
    const struct advice *x = a, *y = b;
    if (x->saves_bytes != y->saves_bytes)
        return x->saves_bytes < y->saves_bytes ? 1 : -1;
    if (x->most_bytes != y->most_bytes)
        return x->most_bytes < y->most_bytes ? 1 : -1;
    if (x->kind == y->kind)
        return x->stack < y->stack ? -1 : x->stack > y->stack;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* The advice, as far as it goes. */
struct finding {
    const struct explained *e;
    const struct advice_sites *sites;
    uint64_t worth, pages, tops, shared; /* bytes; shared: free on shared pages, and resident */
    uint64_t trim_bytes;
    struct advice *list;
    size_t n;
};

static uint64_t less_or_zero(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* The saving lies between these. If they are far apart it is not known. */
static struct advice *add_advice(struct finding *f, enum advice_kind kind, uint64_t low,
                                 uint64_t high)
{
    struct advice *a = &f->list[f->n];
    if (high < f->worth)
        return NULL;
    f->n++;
    low = least(low, high);
    *a = (struct advice){.kind = kind, .most_bytes = high};
    if (low >= high - low)
        a->saves_bytes = low + (high - low) / 2;
    return a;
}

static void set_site(struct advice *a, const struct advice_site *s)
{
    a->stack = s->stack;
    a->site = s->site;
    a->blocks = s->blocks;
}

/* A pool gives back what its blocks kept, but holds what it ever held at once: what its own freed
 * blocks leave is free there and not here. */
static void add_pools(struct finding *f)
{
    const uint64_t most = f->pages + f->shared;
    for (size_t i = 0; i < f->e->found.pool_count; i++) {
        const struct advice_site *s = &f->e->found.pools[i];
        const uint64_t own = s->most_low - s->heap_bytes,
                       freed = less_or_zero(s->alone_bytes + least(s->below_bytes, f->pages),
                                            s->most_low),
                       kept = less_or_zero(s->bytes, own),
                       high = least(freed > kept ? freed : kept, most);
        /* chunks in fastbins do not join, and are not given back */
        const bool joins = f->e->pinned.fast_bytes < f->worth;
        if (s->live_bytes * 4 >= s->bytes)
            continue;
        struct advice *a = add_advice(f, ADVICE_POOL,
                                      joins ? less_or_zero(s->above_bytes, s->most_high) : 0, high);
        if (a)
            set_site(a, s);
    }
}

static void add_live_advice(struct finding *f)
{
    struct advice_site first;
    const struct explained *e = f->e;
    const struct advice_site *s = &e->found.live;
    const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
    const uint64_t untouched = 0 - (uint64_t)e->parts[EXPLAIN_UNTOUCHED],
                   live = e->live_bytes > untouched ? e->live_bytes - untouched : 0;
    if (live >= program / 4 * 3 && s->blocks) {
        struct advice *a =
            add_advice(f, ADVICE_RELEASE, s->alone_bytes + less_or_zero(s->mapped_bytes, untouched),
                       least(s->bytes, live));
        if (a)
            set_site(a, s);
    }
    const uint64_t never = less_or_zero(untouched, positive(e->parts[EXPLAIN_LAZY]));
    if (never < e->live_bytes / WORTH + 1 || never < f->worth ||
        !advice_site_first(&e->pinned, f->sites, advice_mapped, &first))
        return;
    struct advice *a = &f->list[f->n++];
    *a = (struct advice){.kind = ADVICE_SHRINK, .saves_address_bytes = least(first.bytes, never)};
    set_site(a, &first);
}

/* Reasons outside of the allocator. */
static void add_other(struct finding *f)
{
    const struct explained *e = f->e;
    /* one byte of a huge page may be in use */
    const uint64_t huge = less_or_zero(e->huge_bytes, e->huge_bytes / PAGES_OF_HUGE);
    add_advice(f, ADVICE_STACKS, 0, positive(e->parts[EXPLAIN_STACKS]));
    add_advice(f, ADVICE_FILES, 0, positive(e->parts[EXPLAIN_MAPPED]));
    add_advice(f, ADVICE_HUGE, 0, least(huge, e->resident_bytes));
    add_advice(f, ADVICE_DONTNEED, positive(e->parts[EXPLAIN_LAZY]),
               positive(e->parts[EXPLAIN_LAZY]));
}

/* Frees have raised the size from which blocks have a mapping of their own, and how much stays free
 * at the top. */
static void add_thresholds(struct finding *f)
{
    const struct explained *e = f->e;
    const struct pinned *p = &e->pinned;
    const uint64_t whole = f->pages + f->tops;
    /* small blocks alone would have needed no more than they ever had at once */
    const uint64_t low = less_or_zero(e->heap_bytes, p->large_bytes + p->small_most_bytes),
                   high = least(whole, p->large_most_bytes),
                   tops = less_or_zero(f->tops, p->arena_count * TRIM_BYTES),
                   held = p->sum[PINNED_MAIN].held_bytes + p->sum[PINNED_ARENA].held_bytes,
                   least_tops = less_or_zero(tops, held);
    add_advice(f, ADVICE_MMAP_THRESHOLD, low, high);
    if (f->tops >= f->worth)
        add_advice(f, ADVICE_TRIM_THRESHOLD, least_tops > low ? least_tops : low,
                   tops > high ? tops : high);
}

static void add_glibc_advice(struct finding *f, const struct threshold *threshold)
{
    const struct explained *e = f->e;
    const uint64_t idle = in_idle_arenas(&e->pinned), whole = f->pages + f->tops,
                   free_bytes = whole + f->shared, trimmed = whole - e->kept_tops_bytes;
    const bool raised = !threshold->doubt && threshold->count > 1 && !threshold->fixed;
    add_advice(f, ADVICE_TRIM, trimmed, trimmed);
    if (raised)
        add_thresholds(f);
    if (e->pinned.arena_count > 2) /* one would hold at least what all ever held at once */
        add_advice(f, ADVICE_ARENA_MAX, less_or_zero(e->heap_bytes, e->pinned.heap_most_bytes),
                   least(idle, free_bytes));
    add_advice(f, ADVICE_TCACHE, 0, positive(e->parts[EXPLAIN_TCACHE]));
    if (e->pinned.fast_bytes >= f->worth) /* pages below live blocks would stay as they are */
        add_advice(f, ADVICE_FASTBINS,
                   f->tops >= f->trim_bytes ? least(f->tops, e->pinned.fast_bytes) : 0, f->tops);
    add_pools(f);
    if (f->shared >= f->worth)
        f->list[f->n++] = (struct advice){.kind = ADVICE_ALLOCATOR};
    add_live_advice(f);
}

size_t advice_find(const struct explained *e, const struct threshold *threshold,
                   const struct advice_sites *sites, struct advice list[ADVICE_MOST])
{
    const uint64_t free_on_shared = positive(e->parts[EXPLAIN_FRAGMENTATION]),
                   gone = 0 - (uint64_t)e->parts[EXPLAIN_NOT_RESIDENT];
    struct finding f = {.e = e,
                        .sites = sites,
                        .worth = e->resident_bytes / WORTH + 1,
                        .pages = positive(e->parts[EXPLAIN_FREE_PAGES]),
                        .tops = positive(e->parts[EXPLAIN_TOPS]),
                        .shared = free_on_shared > gone ? free_on_shared - gone : 0,
                        .trim_bytes = advice_trim_bytes(threshold, e->measured_ns),
                        .list = list};
    if (!e->measured_ns)
        return 0;
    if (e->glibc)
        add_glibc_advice(&f, threshold);
    add_other(&f);
    qsort(list, f.n, sizeof *list, by_saving);
    return f.n;
}
