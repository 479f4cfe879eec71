/* explained_keep.c - Saves the second pass's findings in the index of a recording, and reads
 * them back. The same function handles both directions of each field, so they cannot drift
 * apart. Findings count only if the names of today still separate the same call sites. */
#include "report/explained_keep.h"

#include <stdlib.h>
#include <string.h>

#include "report/sections.h"

enum { COLUMN_FACTS = 2, COLUMN_ASKED = 3, COLUMN_CLASS = 4 };

#define ITEMS_MOST (1u << 20) /* heaps, arenas, stacks of a moment that are read */

/* Other moments are another question. */
static uint64_t key_of(const struct explained_pass *x)
{
    uint64_t key = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < x->count; i++) {
        key = (key ^ x->times_ns[i]) * 0xbf58476d1ce4e5b9u;
        key = (key ^ key >> 29 ^ x->trim_bytes[i]) * 0x94d049bb133111ebu;
        key ^= key >> 32;
    }
    return key;
}

/* ---- the same fields in both directions ---- */

struct fields {
    struct words *w;
    bool take;
};

static void number(const struct fields *f, uint64_t *v)
{
    if (f->take)
        *v = words_take(f->w);
    else
        words_put(f->w, *v);
}

static uint64_t at_most(const struct fields *f, uint64_t v, uint64_t most)
{
    if (f->take)
        return words_take_at_most(f->w, most);
    words_put(f->w, v);
    return v;
}

/* The n items of an array, made when they are taken. NULL: there are none, or no memory. */
static void *items(const struct fields *f, void *array, size_t n, size_t bytes)
{
    if (!f->take)
        return array;
    void *made = f->w->failed ? NULL : calloc(n + 1, bytes);
    if (!made)
        f->w->failed = true;
    return made;
}

static void numbers(const struct fields *f, uint64_t *const *of, size_t n)
{
    for (size_t i = 0; i < n; i++)
        number(f, of[i]);
}

static void heap(const struct fields *f, struct pinned_heap *h)
{
    h->kind = (enum pinned_kind)at_most(f, h->kind, PINNED_KINDS - 1);
    uint64_t *const of[] = {&h->address,      &h->live_blocks,  &h->live_bytes,    &h->header_bytes,
                            &h->span_bytes,   &h->pinned_bytes, &h->between_bytes, &h->before_bytes,
                            &h->cached_bytes, &h->above_bytes,  &h->end,           &h->cache_end,
                            &h->held_bytes};
    numbers(f, of, sizeof of / sizeof *of);
}

static void arena(const struct fields *f, struct pinned_arena *a)
{
    uint64_t *const of[] = {&a->address,      &a->heaps,        &a->live_blocks,   &a->live_bytes,
                            &a->header_bytes, &a->pinned_bytes, &a->between_bytes, &a->before_bytes,
                            &a->span_bytes,   &a->cached_bytes, &a->extent_bytes,  &a->threads};
    numbers(f, of, sizeof of / sizeof *of);
}

static void stack_figures(const struct fields *f, struct pinned_stack *s)
{
    uint64_t *const of[] = {&s->live_blocks,   &s->live_bytes,   &s->pinned_bytes,
                            &s->below_bytes,   &s->all_blocks,   &s->all_bytes,
                            &s->mapped_blocks, &s->mapped_bytes, &s->most_bytes};
    numbers(f, of, sizeof of / sizeof *of);
}

static void stacks(const struct fields *f, struct pinned_stacks *s, uint32_t most)
{
    const size_t n = (size_t)at_most(f, s->count, f->take ? most : UINT64_MAX);
    uint64_t last = 0;
    if (f->take && (f->w->failed || !pinned_stacks_clear(s, most))) {
        f->w->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t more = at_most(f, f->take ? 0 : s->of[i].stack - last, most - last);
        last += more;
        if (f->take && !(i && !more))
            pinned_stacks_mark(s, (uint32_t)last);
    }
    if (f->take && (!pinned_stacks_make(s) || s->count != n)) {
        f->w->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        stack_figures(f, &s->of[i]);
}

static void state(const struct fields *f, struct pinned *p, const struct trace_image *image)
{
    p->glibc = at_most(f, p->glibc, 1);
    p->unknown_version = at_most(f, p->unknown_version, 1);
    uint64_t *const of[] = {&p->time_ns,          &p->live_blocks,     &p->requested_bytes,
                            &p->usable_bytes[0],  &p->usable_bytes[1], &p->usable_bytes[2],
                            &p->usable_bytes[3],  &p->heap_most_bytes, &p->small_most_bytes,
                            &p->large_most_bytes, &p->large_bytes,     &p->fast_bytes,
                            &p->arena_heap_bytes};
    _Static_assert(PINNED_PLACES == 4, "places");
    numbers(f, of, sizeof of / sizeof *of);
    p->arena_count = (size_t)at_most(f, p->arena_count, ITEMS_MOST);
    p->arenas = items(f, p->arenas, p->arena_count, sizeof *p->arenas);
    for (size_t i = 0; i < p->arena_count && !f->w->failed; i++)
        arena(f, &p->arenas[i]);
    const bool has = at_most(f, p->arena_of != NULL, 1);
    if (has)
        p->arena_of = items(f, p->arena_of, image->thread_count, sizeof *p->arena_of);
    for (uint32_t i = 0; has && i < image->thread_count && !f->w->failed; i++)
        p->arena_of[i] =
            (uint32_t)at_most(f, p->arena_of[i], p->arena_count ? p->arena_count - 1 : 0);
    p->count = (size_t)at_most(f, p->count, ITEMS_MOST);
    p->heaps = items(f, p->heaps, p->count, sizeof *p->heaps);
    for (size_t i = 0; i < p->count && !f->w->failed; i++)
        heap(f, &p->heaps[i]);
    for (size_t i = 0; i < PINNED_KINDS; i++)
        heap(f, &p->sum[i]);
    stacks(f, &p->stacks, image->stacks);
    p->highest_count = (size_t)at_most(f, p->highest_count, PINNED_RANKED);
    p->highest = items(f, p->highest, p->highest_count, sizeof *p->highest);
    for (size_t i = 0; i < p->highest_count && !f->w->failed; i++) {
        number(f, &p->highest[i].most_bytes);
        p->highest[i].stack = (uint32_t)at_most(f, p->highest[i].stack, image->stacks);
    }
}

static void site(const struct fields *f, struct advice_site *s, const struct trace_image *image)
{
    s->stack = (uint32_t)at_most(f, s->stack, image->stacks);
    uint64_t *const of[] = {&s->bytes,       &s->blocks,     &s->live_bytes, &s->mapped_bytes,
                            &s->most_low,    &s->most_high,  &s->heap_bytes, &s->below_bytes,
                            &s->alone_bytes, &s->above_bytes};
    numbers(f, of, sizeof of / sizeof *of);
}

static void advice(const struct fields *f, struct advice_found *a, const struct trace_image *image)
{
    a->pool_count = (size_t)at_most(f, a->pool_count, ADVICE_POOLS);
    for (size_t i = 0; i < ADVICE_POOLS; i++)
        site(f, &a->pools[i], image);
    site(f, &a->live, image);
}

/* ---- questions for call sites ---- */

void explained_ask(struct explained_asked *a, uint32_t stack)
{
    if (!a->bits || a->bits[stack / 8] >> stack % 8 & 1)
        return;
    a->bits[stack / 8] |= (uint8_t)(1u << stack % 8);
    words_put(&a->stacks, stack);
}

void explained_forget(struct explained_asked *a)
{
    words_release(&a->stacks);
    free(a->bits);
    a->bits = NULL;
}

/* For each stack that was asked for, the first one of the same call site: its place. */
static bool classes_of(struct names *names, const uint64_t *asked, size_t n, uint64_t *class)
{
    uint32_t *sites = malloc((n + 1) * sizeof *sites);
    for (size_t i = 0; sites && i < n; i++) {
        size_t k = 0;
        sites[i] = section_site(names, (uint32_t)asked[i]);
        while (sites[k] != sites[i])
            k++;
        class[i] = k;
    }
    free(sites);
    return sites != NULL;
}

/* True if the names of today distinguish the stacks as they did. */
static bool same_classes(const struct explained_pass *x, const uint64_t *asked, const uint64_t *was,
                         size_t n)
{
    uint64_t *now = malloc((n + 1) * sizeof *now);
    const bool same = now && classes_of(x->names, asked, n, now) && !names_failed(x->names) &&
                      !memcmp(now, was, n * sizeof *now);
    free(now);
    return same;
}

/* ---- the part ---- */

static bool take_facts(const struct explained_pass *x, struct words *w)
{
    const struct trace_image *image = &trace_info(x->t)->images[x->image];
    const struct fields f = {w, true};
    bool same = words_take(w) == x->count;
    for (size_t i = 0; i < x->count && same; i++)
        same = words_take(w) == x->times_ns[i] && words_take(w) == x->trim_bytes[i];
    for (size_t i = 0; i < x->count && same && !w->failed; i++) {
        state(&f, &x->results[i], image);
        advice(&f, &x->found[i], image);
        same = x->results[i].time_ns == x->times_ns[i];
    }
    return same && words_done(w);
}

/* The numbers of a column, whose stacks, at most `most`, must be some that there are. */
static bool take_column(struct trace_kept *k, unsigned column, struct words *w, uint64_t most)
{
    const uint64_t n = trace_kept_count(k, column);
    bool fits = n <= ITEMS_MOST * 32 && words_make(w, (size_t)n) &&
                trace_kept_numbers(k, column, w->v, w->n);
    for (size_t i = 0; i < w->n && fits; i++)
        fits = w->v[i] <= most;
    return fits;
}

void explained_number_sites(struct advice_found *a, struct names *names)
{
    for (size_t k = 0; k < a->pool_count; k++)
        a->pools[k].site = section_site(names, a->pools[k].stack);
    if (a->live.blocks)
        a->live.site = section_site(names, a->live.stack);
}

bool explained_kept(const struct explained_pass *x)
{
    const uint32_t most = trace_info(x->t)->images[x->image].stacks;
    struct trace_kept *k = trace_kept_find(x->t, x->image, TRACE_KEPT_PINNED, key_of(x));
    struct words facts = {0}, asked = {0}, class = {0};
    if (!k)
        return false;
    const bool fits = take_column(k, COLUMN_ASKED, &asked, most) &&
                      take_column(k, COLUMN_CLASS, &class, UINT32_MAX) && asked.n == class.n &&
                      asked.n <= 4096 * x->count &&
                      take_column(k, COLUMN_FACTS, &facts, UINT64_MAX) && take_facts(x, &facts) &&
                      same_classes(x, asked.v, class.v, asked.n);
    for (size_t i = 0; i < x->count && fits; i++)
        explained_number_sites(&x->found[i], x->names);
    for (size_t i = 0; i < x->count && !fits; i++)
        pinned_release(&x->results[i]);
    if (!fits)
        memset(x->found, 0, x->count * sizeof *x->found);
    trace_kept_close(k);
    words_release(&facts);
    words_release(&asked);
    words_release(&class);
    return fits;
}

void explained_keep(const struct explained_pass *x, struct explained_asked *a)
{
    const struct trace_image *image = &trace_info(x->t)->images[x->image];
    struct words w = {0}, class = {0};
    const struct fields f = {&w, false};
    struct trace_kept *k =
        a->bits ? trace_kept_new(x->t, x->image, TRACE_KEPT_PINNED, key_of(x)) : NULL;
    const bool whole = k && words_make(&class, a->stacks.n) &&
                       classes_of(x->names, a->stacks.v, a->stacks.n, class.v);
    words_put(&w, x->count);
    for (size_t i = 0; i < x->count; i++) {
        words_put(&w, x->times_ns[i]);
        words_put(&w, x->trim_bytes[i]);
    }
    for (size_t i = 0; i < x->count && whole; i++) {
        state(&f, &x->results[i], image);
        advice(&f, &x->found[i], image);
    }
    if (whole && !w.failed && !a->stacks.failed) {
        trace_kept_put_numbers(k, COLUMN_FACTS, w.v, w.n);
        trace_kept_put_numbers(k, COLUMN_ASKED, a->stacks.v, a->stacks.n);
        trace_kept_put_numbers(k, COLUMN_CLASS, class.v, class.n);
        trace_kept_keep(x->t, k);
    } else {
        trace_kept_drop(k);
    }
    words_release(&w);
    words_release(&class);
    explained_forget(a);
}
