#include "report/html_sites.h"

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

/* The smallest of the `limit` largest weights, as bits, and how many of just that weight are among
 * them; [1..count]. */
static uint32_t threshold(const float *weight, uint32_t count, uint32_t limit, uint32_t *equal)
{
    uint32_t above = 0, prefix = 0;
    *equal = count;
    if (limit == 0)
        return UINT32_MAX;
    if (limit >= count)
        return 0;
    for (unsigned shift = 24;; shift -= 8) {
        uint32_t histogram[256] = {0}, at = 255;
        for (uint32_t i = 1; i <= count; i++)
            if (shift == 24 || bits_of(weight[i]) >> (shift + 8) == prefix)
                histogram[bits_of(weight[i]) >> shift & 255]++;
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
 * others get 0. [1..count] Returns how many there are. Callers weigh no less than those whom they
 * call and stand before them: they stay. */
static uint32_t keep(const float *weight, uint32_t count, uint32_t limit, uint32_t *number)
{
    uint32_t equal, kept = 0;
    const uint32_t least = threshold(weight, count, limit, &equal);
    number[0] = 0;
    for (uint32_t i = 1; i <= count; i++) {
        const uint32_t bits = bits_of(weight[i]);
        const bool stays = bits > least || (bits == least && equal > 0);
        equal -= stays && bits == least;
        number[i] = stays ? ++kept : 0;
    }
    return kept;
}

struct group_table { /* hash of what a group is, to its number + 1 */
    uint32_t *number;
    size_t size;
    struct page_group *groups;
    uint32_t count;
};

static uint32_t group_at(struct group_table *t, struct page_group g)
{
    uint64_t h = ((uint64_t)g.tip << 32 | g.site) * 0x9e3779b97f4a7c15u;
    h = (h ^ h >> 29 ^ (unsigned)(g.folded << 1 | g.gap)) * 0xbf58476d1ce4e5b9u;
    size_t i = (h ^ h >> 32) & (t->size - 1);
    for (; t->number[i]; i = (i + 1) & (t->size - 1)) {
        struct page_group *of = &t->groups[t->number[i] - 1];
        if (of->tip == g.tip && of->site == g.site && of->folded == g.folded && of->gap == g.gap &&
            !of->stacks == !g.stacks) {
            of->stacks += g.stacks;
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

static int no_memory(struct error *err)
{
    return error_memory_for(err, "the call sites of the page");
}

int page_sites_fold(struct page_sites *p, struct page_limit limit, uint32_t **to, struct error *err)
{
    struct group_table table = {.size = 1024};
    while (table.size < 2 * (size_t)p->group_count)
        table.size *= 2;
    table.number = calloc(table.size, sizeof *table.number);
    table.groups = malloc(((size_t)p->group_count + 1) * sizeof *table.groups);
    *to = malloc(((size_t)p->group_count + 1) * sizeof **to);
    uint32_t *anchor = malloc(((size_t)p->all.frame_count + 1) * sizeof *anchor);
    if (!table.number || !table.groups || !*to || !anchor) {
        free(table.number);
        free(table.groups);
        free(anchor);
        return no_memory(err);
    }
    p->kept = keep(p->weight, p->all.frame_count, limit.frames, p->page_frame);
    keep(p->site_weight, p->frame_ids, limit.sites, p->site_number);
    anchor[0] = 0;
    for (uint32_t i = 1; i <= p->all.frame_count; i++)
        anchor[i] = p->page_frame[i] ? i : anchor[p->all.parent[i]];
    for (uint32_t i = 0; i < p->group_count; i++) {
        struct page_group g = p->groups[i];
        g.folded |= anchor[g.tip] != g.tip;
        g.gap |= anchor[g.site_at] != g.site_at;
        g.tip = anchor[g.tip];
        if (g.site != PAGE_SITE_NONE && g.site != PAGE_SITE_OTHER && !p->site_number[g.site]) {
            g.site = PAGE_SITE_OTHER;
            g.folded = g.gap = true;
        }
        (*to)[i] = group_at(&table, g);
    }
    free(anchor);
    free(table.number);
    free(p->groups);
    p->groups = table.groups;
    p->group_count = table.count;
    count_folded(p);
    for (uint32_t i = 0; i < p->stack_count; i++)
        p->group_of[i] = (*to)[p->group_of[i]];
    return 0;
}

/* What its call site is, of a group of one site with this stack. */
static void find_site(struct page_sites *p, struct page_group *g, struct names *names,
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

static int make_room(struct page_sites *p)
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
    if (!number || make_room(p)) {
        free(number);
        return -1;
    }
    for (uint32_t i = 0; i < none; i++) {
        p->groups[i].tip = s->items[i].tip;
        number[s->items[i].tip] = i;
    }
    p->groups[none].folded = true;
    for (uint32_t i = 0; i < p->stack_count; i++) {
        const struct model_stack *f = model_stack_of(of, i);
        const bool counts = f->calls || f->peak_blocks || f->live_blocks || f->temporary;
        struct page_group *g = &p->groups[counts ? number[s->tip_of[i]] : none];
        p->group_of[i] = (uint32_t)(g - p->groups);
        if (!counts || g->stacks)
            continue;
        g->stacks = 1;
        find_site(p, g, names, i);
        p->call_sites += g->site == PAGE_SITE_NONE || p->site_weight[g->site] <= 0;
        /* What several stacks weigh is at least what one does: enough to put them in order. */
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
    if (sites_build(&p->all, m, &all, BY_PEAK, err))
        return -1;
    p->frame_ids = names_count(names);
    if (names_failed(names) || weigh(p) || separate(p, m, names)) {
        page_sites_release(p);
        return no_memory(err);
    }
    return 0;
}

void page_sites_release(struct page_sites *p)
{
    sites_release(&p->all);
    free(p->groups);
    free(p->group_of);
    free(p->page_frame);
    free(p->weight);
    free(p->site_weight);
    free(p->site_number);
    memset(p, 0, sizeof *p);
}
