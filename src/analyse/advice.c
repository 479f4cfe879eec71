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
    [ADVICE_POOL] = {"pool", NULL,
                     "allocate the blocks of this call site from a pool of their own: they keep "
                     "pages that others have left"},
    [ADVICE_ALLOCATOR] =
        {"allocator", NULL,
         "try another allocator: free chunks on shared pages are nothing that glibc "
         "gives back (mallow compare)"},
};

const char *advice_setting(enum advice_kind kind) { return kinds[kind].setting; }
const char *advice_environment(enum advice_kind kind) { return kinds[kind].environment; }
const char *advice_text(enum advice_kind kind) { return kinds[kind].text; }

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

static uint32_t largest_keeper(const struct trace_image *image, const struct pinned *p)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i <= image->stacks; i++)
        if (p->stacks[i].pinned_bytes + p->stacks[i].below_bytes >
            p->stacks[best].pinned_bytes + p->stacks[best].below_bytes)
            best = i;
    return best;
}

static int by_saving(const void *a, const void *b)
{
    const struct advice *x = a, *y = b;
    if (x->saves_bytes != y->saves_bytes)
        return x->saves_bytes < y->saves_bytes ? 1 : -1;
    return x->kind < y->kind ? -1 : x->kind > y->kind;
}

size_t advice_find(const struct trace_image *image, const struct explained *e,
                   const struct threshold *threshold, struct advice list[ADVICE_KINDS])
{
    const uint64_t worth = e->resident_bytes / WORTH + 1;
    const uint64_t pages = positive(e->parts[EXPLAIN_FREE_PAGES]),
                   tops = positive(e->parts[EXPLAIN_TOPS]),
                   free_on_shared = positive(e->parts[EXPLAIN_FRAGMENTATION]),
                   gone = 0 - (uint64_t)e->parts[EXPLAIN_NOT_RESIDENT],
                   shared = free_on_shared > gone ? free_on_shared - gone : 0;
    size_t n = 0;
    if (!e->measured_ns || !e->glibc)
        return 0;
    const uint64_t idle = in_idle_arenas(&e->pinned), free_bytes = pages + tops + shared;
    const bool raised = !threshold->doubt && threshold->count > 1 && !threshold->fixed;
    const uint32_t keeper = largest_keeper(image, &e->pinned);
    const struct pinned_stack *k = &e->pinned.stacks[keeper];
    /* Whole pages that are resident; what the addresses say may have been given back. */
    uint64_t kept = k->pinned_bytes + k->below_bytes;
    kept = kept < pages + shared ? kept : pages + shared;
    if (pages + tops >= worth)
        list[n++] = (struct advice){ADVICE_TRIM, pages + tops, 0};
    if (raised && tops >= worth)
        list[n++] = (struct advice){ADVICE_TRIM_THRESHOLD, tops, 0};
    if (raised && pages + tops >= worth)
        list[n++] = (struct advice){ADVICE_MMAP_THRESHOLD, pages + tops, 0};
    if (e->pinned.arena_count > 2 && idle >= worth && free_bytes >= worth)
        list[n++] = (struct advice){ADVICE_ARENA_MAX, idle < free_bytes ? idle : free_bytes, 0};
    const uint64_t cached = positive(e->parts[EXPLAIN_TCACHE]);
    if (cached >= worth)
        list[n++] = (struct advice){ADVICE_TCACHE, cached, 0};
    if (kept >= worth && k->live_bytes * 4 < kept)
        list[n++] = (struct advice){ADVICE_POOL, kept, keeper};
    if (shared >= worth)
        list[n++] = (struct advice){ADVICE_ALLOCATOR, 0, 0};
    qsort(list, n, sizeof *list, by_saving);
    return n;
}
