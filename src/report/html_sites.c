#include "report/html_sites.h"

#include <stdlib.h>
#include <string.h>

int page_sites_find(struct page_sites *p, const struct model *m, struct names *names,
                    struct error *err)
{
    struct frame_source source = names_source(names, true);
    memset(p, 0, sizeof *p);
    if (sites_build(&p->all, m, &source, BY_PEAK, err))
        return -1;
    if (names_failed(names)) {
        page_sites_release(p);
        return error_set(err, ERROR_MEMORY, "no memory for the names of call sites");
    }
    return 0;
}

struct ranked {
    double weight;
    uint32_t site;
};

static int by_weight(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight < y->weight ? 1 : -1;
    return x->site < y->site ? -1 : x->site > y->site;
}

/* The largest share that each site has of any figure. */
static void rank(const struct sites *s, struct ranked *ranked)
{
    double total[METRICS] = {0};
    for (size_t i = 0; i < s->count; i++)
        for (unsigned by = 0; by < METRICS; by++)
            total[by] += (double)figures_metric(&s->items[i].figures, (enum metric)by);
    for (size_t i = 0; i < s->count; i++) {
        ranked[i] = (struct ranked){0, (uint32_t)i};
        for (unsigned by = 0; by < METRICS; by++) {
            double of = (double)figures_metric(&s->items[i].figures, (enum metric)by);
            double share = total[by] > 0 ? of / total[by] : 0;
            if (share > ranked[i].weight)
                ranked[i].weight = share;
        }
    }
    qsort(ranked, s->count, sizeof *ranked, by_weight);
}

/* Marks what stands on the page: the kept tips with all that is outside of them, then the numbers
 * in the order of the forest, in which callers come first. */
static void mark_frames(struct page_sites *p, const struct ranked *ranked, size_t kept)
{
    const struct sites *s = &p->all;
    memset(p->page_frame, 0, ((size_t)s->frame_count + 1) * sizeof *p->page_frame);
    for (size_t i = 0; i < kept; i++)
        for (uint32_t at = s->items[ranked[i].site].tip; at && !p->page_frame[at];
             at = s->parent[at])
            p->page_frame[at] = 1;
    p->frame_count = 0;
    for (uint32_t i = 1; i <= s->frame_count; i++)
        if (p->page_frame[i])
            p->page_frame[i] = ++p->frame_count;
}

static uint32_t add_group(struct page_sites *p, uint32_t tip, bool folded)
{
    p->groups[p->group_count] = (struct page_group){tip, 0, folded};
    return p->group_count++;
}

#define NO_GROUP UINT32_MAX

int page_sites_keep(struct page_sites *p, const struct model *m, size_t limit, struct error *err)
{
    const struct sites *s = &p->all;
    const uint32_t stacks = model_image(m)->stacks;
    const struct model_stack *of = model_stacks(m);
    const size_t frames = (size_t)s->frame_count + 1;
    const size_t kept = s->count < limit ? s->count : limit;
    struct ranked *ranked = malloc((s->count + 1) * sizeof *ranked);
    uint32_t *whole =
        malloc(frames * sizeof *whole);             /* by tip: group of the site, or of the fold */
    uint32_t *fold = malloc(frames * sizeof *fold); /* by the innermost frame that is on the page */
    free(p->page_frame);
    free(p->group_of);
    free(p->groups);
    p->page_frame = malloc(frames * sizeof *p->page_frame);
    p->group_of = calloc((size_t)stacks + 1, sizeof *p->group_of);
    p->groups = malloc((s->count + 2) * sizeof *p->groups);
    int status = -1;
    if (ranked && whole && fold && p->page_frame && p->group_of && p->groups) {
        memset(whole, 0xff, frames * sizeof *whole);
        memset(fold, 0xff, frames * sizeof *fold);
        rank(s, ranked);
        mark_frames(p, ranked, kept);
        p->group_count = 0;
        p->kept = (uint32_t)kept;
        p->folded = (uint32_t)(s->count - kept);
        for (size_t i = 0; i < s->count; i++) {
            uint32_t tip = s->items[ranked[i].site].tip, at = tip;
            if (i < kept) {
                whole[tip] = add_group(p, tip, false);
            } else {
                while (at && !p->page_frame[at])
                    at = s->parent[at];
                if (fold[at] == NO_GROUP)
                    fold[at] = add_group(p, at, true);
                whole[tip] = fold[at];
            }
            p->groups[whole[tip]].sites++;
        }
        /* Blocks from before that were gone when it counted are of no site. */
        uint32_t none = add_group(p, 0, true);
        for (uint32_t i = 0; i <= stacks; i++)
            p->group_of[i] =
                of[i].calls || of[i].peak_blocks || of[i].live_blocks ? whole[s->tip_of[i]] : none;
        status = 0;
    }
    free(ranked);
    free(whole);
    free(fold);
    return status ? error_set(err, ERROR_MEMORY, "no memory for the call sites of the page") : 0;
}

void page_sites_release(struct page_sites *p)
{
    sites_release(&p->all);
    free(p->groups);
    free(p->group_of);
    free(p->page_frame);
    memset(p, 0, sizeof *p);
}
