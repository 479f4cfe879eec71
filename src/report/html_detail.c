#include "report/html_detail.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "frames/select.h"
#include "model/replay.h"
#include "report/html_process.h"
#include "report/html_sites.h"

#define FRAMES_MAX  200000u /* of the tree of callers */
#define GROUPS_MAX  16000u  /* of call stacks; of more, only so many are observed: */
#define GROUPS_MANY 12000u
#define FRAMES_GOOD 2000u /* before more are left out, slices of time are joined */
#define FRAMES_FEW  500u
#define BINS_GOOD   60u
#define BINS_LEAST  15u
#define LITTLE_LESS 0.7 /* of what it takes: a few frames less will do */
#define FAR_SHARE   0.6 /* with what a guess may be wrong by, surely less than LITTLE_LESS */

struct detail {
    const struct detail_plan *plan;
    struct page_sites sites;
    struct page_lanes lanes;
    struct page_limit limit;
    struct series_plan over;
    struct series *series; /* NULL: not yet */
};

static void release(struct detail *d)
{
    series_free(d->series);
    page_lanes_release(&d->lanes);
    page_sites_release(&d->sites);
}

/* Folds to d->limit, and the figures over time with it, `join` slices at a time. */
static int fold(struct detail *d, uint32_t join, struct error *err)
{
    uint32_t *to = NULL;
    int status = page_sites_fold(&d->sites, d->limit, &to, err);
    if (!status && d->series)
        status = series_merge(d->series, to, d->sites.group_count, join, err);
    d->over.groups = d->sites.group_count;
    d->over.group_of = d->sites.group_of;
    d->over.bins /= join;
    d->over.width_ns *= join;
    free(to);
    return status;
}

/* Leaves frames out until there are at most so many groups of stacks, or `least` frames. */
static int fold_to(struct detail *d, uint32_t groups, uint32_t least, struct error *err)
{
    do {
        const unsigned tenths = d->sites.group_count / 2 > groups ? 6 : 9;
        const uint32_t fewer = (uint32_t)((uint64_t)d->limit.frames * tenths / 10);
        d->limit.frames = fewer > least ? fewer : least;
        if (fold(d, 1, err))
            return -1;
    } while (d->sites.group_count > groups && d->limit.frames > least);
    return 0;
}

/* What every group did in every slice of time. */
static int observe(struct detail *d, struct error *err)
{
    const struct detail_plan *p = d->plan;
    size_t bins;
    d->over.lane_of = d->lanes.lane_of;
    d->over.lanes = d->lanes.count;
    model_timeline(p->m, &d->over.start_ns, &d->over.width_ns, &bins);
    d->over.bins = (uint32_t)bins;
    struct series *s = series_new(&d->over, err);
    if (!s)
        return -1;
    d->series = s;
    if (model_replay_series(p->t, p->image, p->filter, s, err))
        return -1;
    return series_finish(s, err);
}

/* Whether there is so much too much that the next thing to do is to join slices of time, which a
 * guess of the size is enough for. */
static bool is_far_too_long(const struct detail *d, const char *text, size_t text_bytes)
{
    return d->limit.frames <= FRAMES_GOOD && d->over.bins > BINS_GOOD && d->over.bins % 2 == 0 &&
           (double)html_block_guess(text, text_bytes) * FAR_SHARE > (double)d->plan->share_bytes;
}

/* 1; 0 when it was not packed, since it is far too long; -1. */
static int pack(const struct detail *d, struct html_block *block, struct error *err)
{
    const struct detail_plan *p = d->plan;
    char *text = NULL;
    size_t text_bytes = 0;
    bool far = false;
    struct json j = {.out = open_memstream(&text, &text_bytes)};
    if (!j.out)
        return error_system(err, "memory for the page");
    int status = html_process(&j, p->m, d->series, &d->over, &d->sites, &d->lanes, p->names,
                              trace_info(p->t)->kernel_kinds, p->options, err);
    if (fclose(j.out) && !status)
        status = error_system(err, "memory for the page");
    if (!status) {
        far = is_far_too_long(d, text, text_bytes);
        status = far ? 0 : html_block_pack(block, text, text_bytes, err);
    }
    free(text);
    return status ? -1 : !far;
}

/* Says less, to take `share` of what it takes: first with fewer frames of the tree, then with
 * longer slices of time, at last with fewer call sites. Returns 0 when there is nothing left. */
static int say_less(struct detail *d, double share, struct error *err)
{
    const uint32_t groups = (uint32_t)((double)d->sites.group_count * share * 0.9);
    const bool divides = d->over.bins % 2 == 0;
    if (d->limit.frames > FRAMES_GOOD)
        return fold_to(d, groups, FRAMES_GOOD, err) ? -1 : 1;
    if (d->limit.frames > FRAMES_FEW && share > LITTLE_LESS)
        return fold_to(d, groups, FRAMES_FEW, err) ? -1 : 1;
    if (d->over.bins > BINS_GOOD && divides)
        return fold(d, 2, err) ? -1 : 1;
    if (d->limit.frames > 0)
        return fold_to(d, groups, 0, err) ? -1 : 1;
    if (d->over.bins > BINS_LEAST && divides)
        return fold(d, 2, err) ? -1 : 1;
    if (!d->plan->must_fit || !d->limit.sites)
        return 0;
    const uint32_t apart = d->sites.call_sites - d->sites.others;
    d->limit.sites = (uint32_t)((double)apart * (share < 0.9 ? share * 0.9 : 0.8));
    return fold(d, 1, err) ? -1 : 1;
}

static int fit(struct detail *d, struct html_block *block, struct error *err)
{
    for (;;) {
        size_t share = d->plan->share_bytes;
        const int packed = pack(d, block, err);
        if (packed < 0)
            return -1;
        if (!packed) {
            if (fold(d, 2, err))
                return -1;
            continue;
        }
        /* With nothing but the figures of call sites, it may take more than others. */
        if (d->limit.frames == 0 && d->over.bins <= BINS_GOOD)
            share = d->plan->most_bytes;
        if (block->page_bytes <= share)
            return 1;
        const int less = say_less(d, (double)share / (double)block->page_bytes, err);
        if (less <= 0)
            return less;
        html_block_release(block);
    }
}

static void tell(const struct detail_plan *plan, unsigned part)
{
    if (plan->progress)
        plan->progress(plan->progress_arg, part);
}

int html_detail(const struct detail_plan *plan, struct html_block *block, struct error *err)
{
    struct detail d = {.plan = plan, .limit = {FRAMES_MAX, UINT32_MAX}};
    tell(plan, 1);
    int status = page_sites_find(&d.sites, plan->m, plan->names, err);
    if (!status)
        status = page_lanes_find(&d.lanes, model_image(plan->m), err);
    if (!status) {
        if (d.limit.frames > d.sites.all.frame_count)
            d.limit.frames = d.sites.all.frame_count;
        status = fold(&d, 1, err);
    }
    if (!status && d.sites.group_count > GROUPS_MAX)
        status = fold_to(&d, GROUPS_MANY, 0, err);
    if (!status)
        status = page_sites_order(&d.sites, err);
    d.over.group_of = d.sites.group_of;
    tell(plan, 2);
    if (!status)
        status = observe(&d, err);
    tell(plan, 4);
    if (!status)
        status = fit(&d, block, err);
    release(&d);
    return status;
}
