#include "analyse/advice.h"

#include <stdlib.h>

#define WORTH 20 /* a remedy is reported when it could save a 20th of the resident size */

static const struct {
    const char *setting, *environment, *text;
} kinds[ADVICE_KINDS] = {
    [ADVICE_TRIM] =
        {"malloc_trim", NULL,
         "call malloc_trim(0) when the program has freed much: it gives whole free pages "
         "back"},
    [ADVICE_TRIM_THRESHOLD] =
        {"glibc.malloc.trim_threshold=131072", "GLIBC_TUNABLES=glibc.malloc.trim_threshold=131072",
         "give the top of the heap back from 128 KB on; frees of large blocks "
         "have raised that limit"},
    [ADVICE_MMAP_THRESHOLD] = {"glibc.malloc.mmap_threshold=131072",
                               "GLIBC_TUNABLES=glibc.malloc.mmap_threshold=131072",
                               "keep large blocks out of the heap: frees have raised the size from "
                               "which they have a mapping of their own"},
    [ADVICE_ARENA_MAX] = {"glibc.malloc.arena_max=1", "GLIBC_TUNABLES=glibc.malloc.arena_max=1",
                          "let threads share arenas: free memory of one cannot serve another"},
    [ADVICE_TCACHE] = {"glibc.malloc.tcache_count=0", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0",
                       "keep no freed chunks in the caches of threads; calls take longer"},
    [ADVICE_FASTBINS] =
        {"glibc.malloc.mxfast=0", "GLIBC_TUNABLES=glibc.malloc.mxfast=0",
         "keep no freed chunks of up to 128 bytes in fastbins: they do not join their free "
         "neighbors; calls take longer"},
    [ADVICE_POOL] = {"pool", NULL,
                     "allocate the blocks of this call site from a pool of their own, since they "
                     "keep pages that others have left"},
    [ADVICE_ALLOCATOR] =
        {"allocator", NULL,
         "try another allocator: free chunks on shared pages are nothing that glibc "
         "gives back (mallow compare)"},
    [ADVICE_RELEASE] = {"release", NULL,
                        "most of it is live, and no setting makes that smaller: release the blocks "
                        "of this call site when they are no longer used"},
    [ADVICE_SHRINK] = {"shrink", NULL,
                       "ask for less at this call site: part of these blocks was never touched. "
                       "That is address space and live bytes, not resident ones"},
    [ADVICE_STACKS] = {"stacks", NULL,
                       "use fewer threads, or less stack: pages that a deep call touched stay "
                       "resident until the thread ends"},
    [ADVICE_FILES] = {"files", NULL,
                      "unmap files, or give their pages back with madvise(MADV_DONTNEED), once "
                      "they are read. Under pressure the kernel does it by itself"},
    [ADVICE_HUGE] = {"thp", NULL,
                     "do without huge pages where few bytes of each are used: "
                     "madvise(MADV_NOHUGEPAGE), or prctl(PR_SET_THP_DISABLE) for all"},
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

/* ---- call sites ---- */

#define RANKED 256u /* stacks that are looked at, those with most */
#define SITES  64u

/* A figure of a stack. */
typedef uint64_t figure_of(const struct pinned_stack *s);
static uint64_t kept_by(const struct pinned_stack *s) { return s->pinned_bytes + s->below_bytes; }
static uint64_t live_of(const struct pinned_stack *s) { return s->all_bytes; }
static uint64_t mapped_of(const struct pinned_stack *s) { return s->mapped_bytes; }

struct site { /* stacks of the same call site */
    uint32_t site, stack;
    uint64_t most; /* of one stack: `stack` */
    uint64_t bytes, blocks, live_bytes;
};

/* The RANKED stacks with most, in order. */
static size_t rank(const struct trace_image *image, const struct pinned *p, figure_of *figure,
                   uint32_t *list)
{
    size_t n = 0;
    for (uint32_t i = 1; i <= image->stacks; i++) {
        const uint64_t bytes = figure(&p->stacks[i]);
        size_t at = n;
        if (!bytes || (n == RANKED && bytes <= figure(&p->stacks[list[n - 1]])))
            continue;
        if (n < RANKED)
            n++;
        else
            at--;
        for (; at && figure(&p->stacks[list[at - 1]]) < bytes; at--)
            list[at] = list[at - 1];
        list[at] = i;
    }
    return n;
}

static int by_bytes(const void *a, const void *b)
{
    const struct site *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* The call sites with most, in order. */
static size_t find_sites(const struct trace_image *image, const struct pinned *p,
                         const struct advice_sites *sites, figure_of *figure,
                         struct site found[SITES])
{
    uint32_t list[RANKED];
    const size_t ranked = rank(image, p, figure, list);
    size_t n = 0;
    for (size_t i = 0; i < ranked; i++) {
        const struct pinned_stack *s = &p->stacks[list[i]];
        const uint32_t site = sites ? sites->site(sites->arg, list[i]) : list[i];
        size_t k = 0;
        while (k < n && found[k].site != site)
            k++;
        if (k == SITES)
            continue;
        if (k == n)
            found[n++] = (struct site){.site = site, .stack = list[i], .most = figure(s)};
        found[k].bytes += figure(s);
        found[k].blocks += s->all_blocks;
        found[k].live_bytes += s->all_bytes;
    }
    qsort(found, n, sizeof *found, by_bytes);
    return n;
}

static int by_saving(const void *a, const void *b)
{
    const struct advice *x = a, *y = b;
    if (x->saves_bytes != y->saves_bytes)
        return x->saves_bytes < y->saves_bytes ? 1 : -1;
    if (x->kind == y->kind)
        return x->stack < y->stack ? -1 : x->stack > y->stack;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

/* The advice, as far as it goes. */
struct finding {
    const struct trace_image *image;
    const struct explained *e;
    const struct advice_sites *sites;
    uint64_t worth, pages, tops, shared; /* bytes; shared: free on shared pages, and resident */
    struct advice *list;
    size_t n;
};

static void add(struct finding *f, enum advice_kind kind, uint64_t bytes)
{
    f->list[f->n++] = (struct advice){.kind = kind, .saves_bytes = bytes};
}

static void add_site(struct finding *f, enum advice_kind kind, uint64_t bytes, const struct site *s)
{
    f->list[f->n++] = (struct advice){.kind = kind,
                                      .saves_bytes = bytes,
                                      .stack = s->stack,
                                      .site = s->site,
                                      .blocks = s->blocks};
}

/* Whole pages that are resident; what the addresses say may have been given back. */
static void add_pools(struct finding *f)
{
    struct site found[SITES];
    const size_t n = find_sites(f->image, &f->e->pinned, f->sites, kept_by, found);
    const uint64_t most = f->pages + f->shared;
    for (size_t i = 0; i < n && i < ADVICE_POOLS; i++) {
        const uint64_t kept = found[i].bytes < most ? found[i].bytes : most;
        if (kept >= f->worth && found[i].live_bytes * 4 < kept)
            add_site(f, ADVICE_POOL, kept, &found[i]);
    }
}

static void add_live(struct finding *f)
{
    struct site found[SITES];
    const struct explained *e = f->e;
    const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
    const uint64_t untouched = 0 - (uint64_t)e->parts[EXPLAIN_UNTOUCHED],
                   live = e->live_bytes > untouched ? e->live_bytes - untouched : 0;
    if (live >= program / 4 * 3 && find_sites(f->image, &e->pinned, f->sites, live_of, found) &&
        found[0].bytes >= f->worth)
        add_site(f, ADVICE_RELEASE, found[0].bytes < live ? found[0].bytes : live, &found[0]);
    if (untouched < e->live_bytes / WORTH + 1 || untouched < f->worth ||
        !find_sites(f->image, &e->pinned, f->sites, mapped_of, found))
        return;
    add_site(f, ADVICE_SHRINK, 0, &found[0]);
    f->list[f->n - 1].saves_address_bytes = found[0].bytes < untouched ? found[0].bytes : untouched;
}

/* Reasons outside of the allocator. */
static void add_other(struct finding *f)
{
    const uint64_t stacks = positive(f->e->parts[EXPLAIN_STACKS]),
                   mapped = positive(f->e->parts[EXPLAIN_MAPPED]), huge = f->e->huge_bytes;
    const uint64_t above =
        f->e->resident_bytes > f->e->live_bytes ? f->e->resident_bytes - f->e->live_bytes : 0;
    if (stacks >= f->worth)
        add(f, ADVICE_STACKS, stacks);
    if (mapped >= f->worth)
        add(f, ADVICE_FILES, mapped);
    if (huge >= f->worth && above >= f->worth)
        add(f, ADVICE_HUGE, huge < above ? huge : above);
}

static void add_glibc(struct finding *f, const struct threshold *threshold)
{
    const struct explained *e = f->e;
    const uint64_t idle = in_idle_arenas(&e->pinned), whole = f->pages + f->tops,
                   free_bytes = whole + f->shared;
    const bool raised = !threshold->doubt && threshold->count > 1 && !threshold->fixed;
    const uint64_t cached = positive(e->parts[EXPLAIN_TCACHE]);
    if (whole >= f->worth)
        add(f, ADVICE_TRIM, whole);
    if (raised && f->tops >= f->worth)
        add(f, ADVICE_TRIM_THRESHOLD, f->tops);
    if (raised && whole >= f->worth)
        add(f, ADVICE_MMAP_THRESHOLD, whole);
    if (e->pinned.arena_count > 2 && idle >= f->worth && free_bytes >= f->worth)
        add(f, ADVICE_ARENA_MAX, idle < free_bytes ? idle : free_bytes);
    if (cached >= f->worth)
        add(f, ADVICE_TCACHE, cached);
    if (e->pinned.fast_bytes >= f->worth && whole >= f->worth)
        add(f, ADVICE_FASTBINS, whole);
    add_pools(f);
    if (f->shared >= f->worth)
        add(f, ADVICE_ALLOCATOR, 0);
    add_live(f);
}

size_t advice_find(const struct trace_image *image, const struct explained *e,
                   const struct threshold *threshold, const struct advice_sites *sites,
                   struct advice list[ADVICE_MOST])
{
    const uint64_t free_on_shared = positive(e->parts[EXPLAIN_FRAGMENTATION]),
                   gone = 0 - (uint64_t)e->parts[EXPLAIN_NOT_RESIDENT];
    struct finding f = {.image = image,
                        .e = e,
                        .sites = sites,
                        .worth = e->resident_bytes / WORTH + 1,
                        .pages = positive(e->parts[EXPLAIN_FREE_PAGES]),
                        .tops = positive(e->parts[EXPLAIN_TOPS]),
                        .shared = free_on_shared > gone ? free_on_shared - gone : 0,
                        .list = list};
    if (!e->measured_ns)
        return 0;
    if (e->glibc)
        add_glibc(&f, threshold);
    add_other(&f);
    qsort(list, f.n, sizeof *list, by_saving);
    return f.n;
}
