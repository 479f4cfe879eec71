/* advice_sites.c - Finds the call sites that keep or hold the most memory, and computes which
 * pages would be free if their blocks lay elsewhere. One sweep over the blocks of a heap serves
 * each call site. */
#include "analyse/advice_sites.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_BYTES 8u
#define FEW          16u /* a 16th of the bytes, or less */

static uint64_t kept_by(const struct pinned_stack *s) { return s->pinned_bytes + s->below_bytes; }
static uint64_t live_of(const struct pinned_stack *s) { return s->all_bytes; }
uint64_t advice_mapped(const struct pinned_stack *s) { return s->mapped_bytes; }

/* The PINNED_RANKED stacks with most, in order, as places in p->stacks. */
static size_t rank_stacks(const struct pinned *p, advice_figure *figure, uint32_t *list)
{
    const struct pinned_stack *const of = p->stacks.of;
    size_t n = 0;
    for (uint32_t i = 0; i < p->stacks.count; i++) {
        const uint64_t bytes = of[i].stack ? figure(&of[i]) : 0;
        size_t at = n;
        if (!bytes || (n == PINNED_RANKED && bytes <= figure(&of[list[n - 1]])))
            continue;
        if (n < PINNED_RANKED)
            n++;
        else
            at--;
        for (; at && figure(&of[list[at - 1]]) < bytes; at--)
            list[at] = list[at - 1];
        list[at] = i;
    }
    return n;
}

static int compare_site_bytes(const void *a, const void *b)
{
    const struct advice_site *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

static void add_stack(struct advice_site *to, const struct pinned_stack *s, uint64_t bytes)
{
    to->bytes += bytes;
    to->blocks += s->all_blocks;
    to->live_bytes += s->all_bytes;
    to->mapped_bytes += s->mapped_bytes;
    to->heap_bytes += s->live_bytes + HEADER_BYTES * s->live_blocks;
    to->below_bytes += s->below_bytes;
}

/* The call sites with most, in order. */
static size_t find_advice_sites(const struct pinned *p, const struct advice_sites *sites,
                                advice_figure *figure, struct advice_site found[ADVICE_SITES_MOST])
{
    uint32_t list[PINNED_RANKED];
    const size_t ranked = rank_stacks(p, figure, list);
    size_t n = 0;
    for (size_t i = 0; i < ranked; i++) {
        const struct pinned_stack *s = &p->stacks.of[list[i]];
        const uint32_t site = sites->site(sites->arg, s->stack);
        size_t k = 0;
        while (k < n && found[k].site != site)
            k++;
        if (k == ADVICE_SITES_MOST)
            continue;
        if (k == n)
            found[n++] = (struct advice_site){.site = site, .stack = s->stack};
        add_stack(&found[k], s, figure(s));
    }
    qsort(found, n, sizeof *found, compare_site_bytes);
    return n;
}

bool advice_site_first(const struct pinned *p, const struct advice_sites *sites,
                       advice_figure *figure, struct advice_site *first)
{
    struct advice_site found[ADVICE_SITES_MOST];
    const size_t n = find_advice_sites(p, sites, figure, found);
    if (n)
        *first = found[0];
    return n > 0;
}

/* ---- a heap without the blocks of a call site ---- */

struct sweep { /* over a heap */
    uint64_t page, first_page;
    bool begun, mine, others; /* on the page */
    bool any_others;          /* in the heap */
    uint64_t others_page;     /* the last with others' blocks */
    bool any_early;           /* the same of those that are not late */
    uint64_t early_page;
    uint64_t late_bytes; /* behind it */
    uint64_t alone;      /* pages */
};

static void close_sweep_page(struct sweep *w)
{
    w->alone += w->mine && !w->others;
    w->mine = w->others = false;
}

static void sweep_block(struct sweep *w, const struct pinned_block *b, bool mine)
{
    const uint64_t from = b->address - HEADER_BYTES, to = b->address + b->usable_bytes;
    const uint64_t page = from / PINNED_PAGE_BYTES,
                   last = to > from ? (to - 1) / PINNED_PAGE_BYTES : page;
    if (!w->begun || page > w->page) {
        close_sweep_page(w);
        w->first_page = w->begun ? w->first_page : page;
        w->begun = true;
        w->page = page;
    }
    w->mine |= mine;
    w->others |= !mine;
    if (last > w->page) {
        close_sweep_page(w);
        w->alone += mine ? last - w->page - 1 : 0;
        w->page = last;
        w->mine = mine;
        w->others = !mine;
    }
    if (mine)
        return;
    w->any_others = true;
    w->others_page = w->page;
    w->late_bytes += to - from;
    if (!b->late) {
        w->any_early = true;
        w->early_page = w->page;
        w->late_bytes = 0;
    }
}

/* A chunk that is none of the program's blocks stays where it is. */
static void keep_cache(struct sweep *w, uint64_t cache_end)
{
    const uint64_t page = (cache_end - 1) / PINNED_PAGE_BYTES;
    if (!cache_end || page < w->first_page)
        return;
    const uint64_t last = page < w->page ? page : w->page;
    if (!w->any_others || last > w->others_page)
        w->others_page = last;
    if (!w->any_early || last >= w->early_page) {
        w->early_page = last;
        w->late_bytes = 0;
    }
    w->any_others = w->any_early = true;
}

/* Adds up a heap whose blocks were passed. */
static void end_heap(struct sweep *w, const struct pinned_heap *heap, uint64_t trim_bytes,
                     struct advice_site *s)
{
    close_sweep_page(w);
    keep_cache(w, heap->cache_end);
    const uint64_t all = (w->page - w->first_page + 1) * PINNED_PAGE_BYTES + heap->before_bytes;
    uint64_t above = w->any_others ? (w->page - w->others_page) * PINNED_PAGE_BYTES : all;
    const uint64_t early = w->any_early ? (w->page - w->early_page) * PINNED_PAGE_BYTES : all;
    if (w->late_bytes < early / FEW && early - w->late_bytes > above)
        above = early - w->late_bytes;
    s->alone_bytes += w->alone * PINNED_PAGE_BYTES;
    if (above >= trim_bytes)
        s->above_bytes += above;
}

/* The block is in none of the heaps before this one. */
static bool block_in_heap(const struct pinned_heap *h, const struct pinned_block *b)
{
    return h->kind != PINNED_OTHER && b->address < h->end;
}

/* ---- the call sites of a moment ---- */

/* The call sites that are looked at; each has a bit. */
struct chosen {
    struct advice_site *site[ADVICE_POOLS + 1];
    size_t count;
    uint8_t *bits; /* a stack's call sites */
};

static void look_without(const struct pinned *p, const struct pinned_block *blocks, size_t count,
                         const struct chosen *c, size_t which, uint64_t trim_bytes)
{
    size_t at = 0;
    for (size_t h = 0; h < p->count; h++) {
        struct sweep w = {0};
        for (; at < count && block_in_heap(&p->heaps[h], &blocks[at]); at++)
            sweep_block(&w, &blocks[at],
                        !blocks[at].cached && c->bits[blocks[at].stack] >> which & 1);
        if (w.begun)
            end_heap(&w, &p->heaps[h], trim_bytes, c->site[which]);
    }
}

/* A stack that may be of a chosen call site. */
static void add_most(struct chosen *c, const struct advice_sites *sites, uint32_t stack,
                     uint64_t most)
{
    const uint32_t site = sites->site(sites->arg, stack);
    for (size_t k = 0; k < c->count; k++) {
        struct advice_site *s = c->site[k];
        if (s->site != site || c->bits[stack] >> k & 1)
            continue;
        c->bits[stack] |= (uint8_t)(1u << k);
        s->most_high += most;
        if (most > s->most_low)
            s->most_low = most;
    }
}

static void add_ranked(struct chosen *c, const struct pinned *p, const struct advice_sites *sites,
                       advice_figure *figure)
{
    uint32_t list[PINNED_RANKED];
    const size_t n = rank_stacks(p, figure, list);
    for (size_t i = 0; i < n; i++) {
        const struct pinned_stack *s = &p->stacks.of[list[i]];
        add_most(c, sites, s->stack, s->most_bytes);
    }
}

void advice_sites_find(const struct trace_image *image, const struct pinned *p,
                       const struct pinned_block *blocks, size_t count,
                       const struct advice_sites *sites, uint64_t trim_bytes,
                       struct advice_found *found)
{
    struct advice_site list[ADVICE_SITES_MOST];
    memset(found, 0, sizeof *found);
    if (!p->glibc)
        return;
    struct chosen c = {.bits = calloc((size_t)image->stacks + 1, 1)};
    const size_t n = find_advice_sites(p, sites, kept_by, list);
    for (size_t i = 0; i < n && i < ADVICE_POOLS; i++) {
        found->pools[i] = list[i];
        c.site[c.count++] = &found->pools[i];
    }
    found->pool_count = c.count;
    if (advice_site_first(p, sites, live_of, &found->live))
        c.site[c.count++] = &found->live;
    if (c.bits) { /* without memory nothing is known of them */
        add_ranked(&c, p, sites, kept_by);
        add_ranked(&c, p, sites, live_of);
        for (size_t i = 0; i < p->highest_count; i++) /* may have no live block now, but had */
            add_most(&c, sites, p->highest[i].stack, p->highest[i].most_bytes);
        for (size_t i = 0; i < c.count; i++)
            look_without(p, blocks, count, &c, i, trim_bytes);
    }
    for (size_t i = 0; i < c.count; i++)
        if (c.site[i]->most_low < c.site[i]->heap_bytes)
            c.site[i]->most_low = c.site[i]->heap_bytes;
    free(c.bits);
}
