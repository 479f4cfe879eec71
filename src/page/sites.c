/* sites.c - Weighs the frames of a process, keeps the heaviest, and folds the stacks below them
 * into groups. The groups of a call site add up to its exact figures. */
#include "page/sites.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* ---- what weighs how much ---- */

/* The largest share that each frame of the tree, with all that it called, has of any figure. */
static int weigh(struct page_sites *p)
{
    const struct sites *s = &p->all;
    const size_t frames = (size_t)s->frame_count + 1;
    double *sum = malloc(frames * sizeof *sum);
    p->weight = calloc(frames, sizeof *p->weight);
    if (!sum || !p->weight) {
        free(sum);
        return -1;
    }
    for (unsigned by = 0; by < METRICS; by++) {
        memset(sum, 0, frames * sizeof *sum);
        for (size_t i = 0; i < s->count; i++)
            sum[s->items[i].tip] += (double)figures_metric(&s->items[i].figures, (enum metric)by);
        /* Callers stand before those whom they call. */
        for (uint32_t i = s->frame_count; i > 0; i--)
            sum[s->parent[i]] += sum[i];
        for (uint32_t i = 1; sum[0] > 0 && i <= s->frame_count; i++) {
            const float share = (float)(sum[i] / sum[0]);
            if (share > p->weight[i])
                p->weight[i] = share;
        }
    }
    free(sum);
    return 0;
}

/* ---- folding ---- */

static uint32_t bits_of(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits; /* in the order of the weights, since none is negative */
}

/* Those that weights are compared of: the numbers in `of`, or without it all from 1 on. */
struct weighed {
    const float *weight;
    const uint32_t *of;
    uint32_t count;
};

static inline uint32_t weighed_at(const struct weighed *w, uint32_t i)
{
    return w->of ? w->of[i] : i + 1;
}

/* The smallest of the `limit` largest weights, as bits, and how many of just that weight are among
 * them. */
static uint32_t weight_threshold(const struct weighed *w, uint32_t limit, uint32_t *equal)
{
    uint32_t above = 0, prefix = 0;
    *equal = w->count;
    if (limit == 0)
        return UINT32_MAX;
    if (limit >= w->count)
        return 0;
    for (unsigned shift = 24;; shift -= 8) {
        uint32_t histogram[256] = {0}, at = 255;
        for (uint32_t i = 0; i < w->count; i++) {
            const uint32_t bits = bits_of(w->weight[weighed_at(w, i)]);
            if (shift == 24 || bits >> (shift + 8) == prefix)
                histogram[bits >> shift & 255]++;
        }
        for (; above + histogram[at] < limit; at--)
            above += histogram[at];
        prefix = prefix << 8 | at;
        if (!shift)
            break;
    }
    *equal = limit - above;
    return prefix;
}

/* Numbers the `limit` that weigh most from 1 on, in their order, of equal ones the first; the
 * others get 0. Returns how many there are. Callers weigh no less than those whom they call and
 * stand before them: they stay. */
static uint32_t keep_heaviest(const struct weighed *w, uint32_t limit, uint32_t *number)
{
    uint32_t equal, kept = 0;
    const uint32_t least = weight_threshold(w, limit, &equal);
    number[0] = 0;
    for (uint32_t i = 0; i < w->count; i++) {
        const uint32_t bits = bits_of(w->weight[weighed_at(w, i)]);
        const bool stays = bits > least || (bits == least && equal > 0);
        equal -= stays && bits == least;
        number[weighed_at(w, i)] = stays ? ++kept : 0;
    }
    return kept;
}

struct group_table { /* hash of what a group is, to its number + 1 */
    uint32_t *number;
    size_t size;
    struct page_group *groups;
    uint32_t count;
};

/* The number of the group that `g` becomes part of. sites: NULL, or the groups have no order yet.
 */
static uint32_t group_at(struct group_table *t, const struct sites *sites, struct page_group g)
{
    uint64_t h = ((uint64_t)g.tip << 32 | g.site) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ (unsigned)(g.folded << 1 | g.gap)) * 0xbf58476d1ce4e5b9u;
    size_t i = (h ^ h >> 32) & (t->size - 1);
    for (; t->number[i]; i = (i + 1) & (t->size - 1)) {
        struct page_group *of = &t->groups[t->number[i] - 1];
        if (of->tip == g.tip && of->site == g.site && of->folded == g.folded && of->gap == g.gap &&
            !of->stacks == !g.stacks) {
            const uint32_t stacks = of->stacks + g.stacks;
            if (sites && sites_before(&sites->items[g.first], &sites->items[of->first], BY_PEAK))
                *of = g;
            of->stacks = stacks;
            return t->number[i] - 1;
        }
    }
    t->groups[t->count++] = g;
    t->number[i] = t->count;
    return t->count - 1;
}

static void count_folded(struct page_sites *p)
{
    p->folded = p->others = 0;
    for (uint32_t i = 0; i < p->group_count; i++)
        if (p->groups[i].folded)
            p->folded += p->groups[i].stacks;
    for (uint32_t id = 1; id <= p->frame_ids; id++)
        p->others += p->site_weight[id] > 0 && !p->site_number[id];
}

static int sites_no_memory(struct error *err)
{
    return error_memory_for(err, "the call sites of the page");
}

/* Keeps frames and call sites; anchor: [all.frame_count + 1] of each frame that was kept before,
 * the innermost of its callers, or itself, that still is. False without memory. */
static bool keep_most(struct page_sites *p, struct page_limit limit, uint32_t *anchor)
{
    const struct weighed frames = {p->weight, p->kept_frames,
                                   p->kept_frames ? p->kept : p->all.frame_count},
                         ids = {p->site_weight, NULL, p->frame_ids};
    const uint32_t most = limit.frames < frames.count ? limit.frames : frames.count;
    uint32_t *kept = malloc(((size_t)most + 1) * sizeof *kept), n = 0;
    if (!kept)
        return false;
    keep_heaviest(&frames, limit.frames, p->page_frame);
    keep_heaviest(&ids, limit.sites, p->site_number);
    anchor[0] = 0;
    for (uint32_t i = 0; i < frames.count; i++) {
        const uint32_t at = weighed_at(&frames, i);
        anchor[at] = p->page_frame[at] ? at : anchor[p->all.parent[at]];
        if (p->page_frame[at])
            kept[n++] = at;
    }
    free(p->kept_frames);
    p->kept_frames = kept;
    p->kept = n;
    return true;
}

/* Stacks are many: after the first time, what becomes of groups is remembered instead. */
static bool join_groups(struct page_sites *p, const uint32_t *to, uint32_t groups, bool first)
{
    if (first) {
        for (uint32_t i = 0; i < p->stack_count; i++)
            p->group_of[i] = to[p->group_of[i]];
        return true;
    }
    if (!p->joined) {
        p->joined = malloc(((size_t)groups + 1) * sizeof *p->joined);
        if (!p->joined)
            return false;
        memcpy(p->joined, to, groups * sizeof *p->joined);
        p->joined_count = groups;
        return true;
    }
    for (uint32_t i = 0; i < p->joined_count; i++)
        p->joined[i] = to[p->joined[i]];
    return true;
}

int page_sites_fold(struct page_sites *p, struct page_limit limit, uint32_t **to, struct error *err)
{
    struct group_table table = {.size = 1024};
    const bool first = !p->kept_frames;
    const uint32_t before = p->group_count;
    while (table.size < 2 * (size_t)before)
        table.size *= 2;
    table.number = calloc(table.size, sizeof *table.number);
    table.groups = malloc(((size_t)before + 1) * sizeof *table.groups);
    *to = malloc(((size_t)before + 1) * sizeof **to);
    uint32_t *anchor = malloc(((size_t)p->all.frame_count + 1) * sizeof *anchor);
    if (!table.number || !table.groups || !*to || !anchor || !keep_most(p, limit, anchor)) {
        free(table.number);
        free(table.groups);
        free(anchor);
        return sites_no_memory(err);
    }
    for (uint32_t i = 0; i < before; i++) {
        struct page_group g = p->groups[i];
        g.folded |= anchor[g.tip] != g.tip;
        g.gap = g.gap || anchor[g.site_at] != g.site_at; /* behind a gap, it has been left out */
        g.tip = anchor[g.tip];
        if (g.site != PAGE_SITE_NONE && g.site != PAGE_SITE_OTHER && !p->site_number[g.site]) {
            g.site = PAGE_SITE_OTHER;
            g.folded = g.gap = true;
        }
        (*to)[i] = group_at(&table, p->ordered ? NULL : &p->all, g);
    }
    free(anchor);
    free(table.number);
    free(p->groups);
    p->groups = table.groups;
    p->group_count = table.count;
    count_folded(p);
    return join_groups(p, *to, before, first) ? 0 : sites_no_memory(err);
}

static int compare_group_firsts(const void *a, const void *b, void *arg)
{
    const struct page_sites *p = arg;
    const struct page_group *x = &p->groups[*(const uint32_t *)a],
                            *y = &p->groups[*(const uint32_t *)b];
    if (x == y)
        return 0;
    if (!x->stacks || !y->stacks)
        return x->stacks ? -1 : 1; /* no site's: the last */
    return sites_before(&p->all.items[x->first], &p->all.items[y->first], BY_PEAK) ? -1 : 1;
}

int page_sites_order(struct page_sites *p, struct error *err)
{
    const size_t n = p->group_count;
    uint32_t *order = malloc((n + 1) * sizeof *order), *to = malloc((n + 1) * sizeof *to);
    struct page_group *groups = malloc((n + 1) * sizeof *groups);
    if (!order || !to || !groups) {
        free(order);
        free(to);
        free(groups);
        return sites_no_memory(err);
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, compare_group_firsts, p);
    for (uint32_t i = 0; i < n; i++) {
        groups[i] = p->groups[order[i]];
        to[order[i]] = i;
    }
    for (uint32_t i = 0; i < p->stack_count; i++)
        p->group_of[i] = to[page_sites_group(p, i)];
    free(p->groups);
    free(p->joined);
    free(order);
    free(to);
    p->groups = groups;
    p->joined = NULL;
    p->ordered = true;
    return 0;
}

/* Finds the call site of a group of one site with this stack. */
static void find_group_site(struct page_sites *p, struct page_group *g, struct names *names,
                            uint32_t stack)
{
    uint32_t node, position, at = g->tip;
    const uint32_t id = names_site(names, stack, &node, &position);
    if (id == NO_NAME || id >= p->frame_ids)
        return;
    while (at && p->all.frame[at] != id)
        at = p->all.parent[at];
    g->site = id + 1;
    g->site_at = at;
}

static int make_group_room(struct page_sites *p)
{
    p->group_of = malloc((size_t)p->stack_count * sizeof *p->group_of);
    p->groups = calloc(p->all.count + 1, sizeof *p->groups);
    p->page_frame = malloc(((size_t)p->all.frame_count + 1) * sizeof *p->page_frame);
    p->site_weight = calloc((size_t)p->frame_ids + 1, sizeof *p->site_weight);
    p->site_number = calloc((size_t)p->frame_ids + 1, sizeof *p->site_number);
    return p->group_of && p->groups && p->page_frame && p->site_weight && p->site_number ? 0 : -1;
}

/* Every site a group of its own; `group_of` the stacks. */
static int separate(struct page_sites *p, const struct model *m, struct names *names)
{
    const struct sites *s = &p->all;
    const struct model_stacks of = model_stacks(m);
    const uint32_t none =
        (uint32_t)s->count; /* blocks from before that were gone when it counted */
    uint32_t *number = calloc((size_t)s->frame_count + 1, sizeof *number); /* by tip */
    p->stack_count = model_image(m)->stacks + 1;
    p->group_count = none + 1;
    if (!number || make_group_room(p)) {
        free(number);
        return -1;
    }
    for (uint32_t i = 0; i < none; i++) {
        p->groups[i].tip = s->items[i].tip;
        p->groups[i].first = i;
        number[s->items[i].tip] = i;
    }
    p->groups[none].folded = true;
    for (uint32_t i = 0; i < p->stack_count; i++) {
        const struct model_stack *f = model_stack_of(of, i);
        const bool counts = model_stack_counts(f);
        struct page_group *g = &p->groups[counts ? number[s->tip_of[i]] : none];
        p->group_of[i] = (uint32_t)(g - p->groups);
        if (!counts || g->stacks)
            continue;
        g->stacks = 1;
        find_group_site(p, g, names, i);
        p->call_sites += g->site == PAGE_SITE_NONE || p->site_weight[g->site] <= 0;
        /* Several stacks weigh at least as much as one: enough to put them in order. */
        p->site_weight[g->site] += p->weight[g->tip] + FLT_MIN;
    }
    free(number);
    return 0;
}

int page_sites_find(struct page_sites *p, const struct model *m, struct names *names,
                    struct error *err)
{
    struct frame_source all = names_source(names, true);
    memset(p, 0, sizeof *p);
    if (sites_build_top(&p->all, m, &all, BY_PEAK, 0, err))
        return -1;
    p->frame_ids = names_count(names);
    if (names_failed(names) || weigh(p) || separate(p, m, names)) {
        page_sites_release(p);
        return sites_no_memory(err);
    }
    return 0;
}

void page_sites_release(struct page_sites *p)
{
    sites_release(&p->all);
    free(p->groups);
    free(p->group_of);
    free(p->joined);
    free(p->kept_frames);
    free(p->page_frame);
    free(p->weight);
    free(p->site_weight);
    free(p->site_number);
    memset(p, 0, sizeof *p);
}
