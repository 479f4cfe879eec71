/* detail.c - Fits the details of one process into the room that a page has. It first leaves out
 * frames of the tree, then joins slices of time, and leaves out call sites last. A thread
 * gathers the data if one is free. */
#include "page/detail.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "frames/select.h"
#include "model/replay.h"
#include "report/beside.h"
#include "page/draft.h"
#include "page/process.h"
#include "page/sites.h"

#define FRAMES_MAX  200000u /* frames of the tree of callers */
#define GROUPS_MAX  16000u  /* call stacks; where there are more, only so many are observed: */
#define GROUPS_MANY 12000u
#define FRAMES_GOOD 2000u /* before more are left out, slices of time are joined */
#define FRAMES_FEW  500u
#define BINS_GOOD   60u
#define BINS_LEAST  15u
#define LITTLE_LESS 0.7 /* a smaller share of its size: a few frames less will do */
/* A guess of the size is at most a tenth too large. Where joining slices leaves somewhat too many
 * cells, leaving out frames does the rest. */
#define GUESS_LEAST  0.9
#define JOINED_LEAST 0.6

struct detail {
    const struct detail_plan *plan;
    struct page_sites sites;
    struct page_lanes lanes;
    struct page_limit limit;
    struct series_plan over;
    struct series *series; /* NULL: not yet */
    struct html_room room;
    struct beside beside; /* gathers */
    int gathered;         /* 0 or -1 with `err` */
    struct error err;
};

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

/* ---- what every group did in every slice of time ---- */

static int observe(struct detail *d, struct error *err)
{
    const struct detail_plan *p = d->plan;
    size_t bins;
    d->over.lane_of = d->lanes.lane_of;
    d->over.lanes = d->lanes.count;
    model_timeline(p->m, &d->over.start_ns, &d->over.width_ns, &bins);
    d->over.bins = (uint32_t)bins;
    d->series = series_new(&d->over, err);
    if (!d->series || model_replay_series(p->t, p->image, p->filter, d->series, err))
        return -1;
    return series_finish(d->series, err);
}

/* ---- what fits ---- */

/* The room for it as it is: with nothing but the figures of call sites, more than for others. */
static size_t room_for(const struct detail *d)
{
    return d->limit.frames == 0 && d->over.bins <= BINS_GOOD ? d->room.most_bytes
                                                             : d->room.share_bytes;
}

static int write_draft(const struct detail *d, struct html_draft *draft, struct error *err)
{
    const struct detail_plan *p = d->plan;
    const unsigned helpers = trace_take_threads(p->t, 1);
    int status = html_draft_open(draft, helpers, err);
    if (!status) {
        struct json j = {.out = draft->out};
        status = html_process(&j, p->m, d->series, &d->over, &d->sites, &d->lanes, p->names,
                              trace_info(p->t)->kernel_kinds, p->options, err);
    }
    if (!status)
        status = html_draft_close(draft, err);
    trace_give_threads(p->t, helpers);
    return status;
}

/* 1; 0 when it was not packed, since a guess says that it does not fit; -1. *takes: bytes of the
 * page, or the guess of them. */
static int pack_detail(const struct detail *d, struct html_block *block, size_t *takes,
                       struct error *err)
{
    struct trace *t = d->plan->t;
    struct html_draft draft = {0};
    int status = write_draft(d, &draft, err);
    *takes = draft.guess_bytes;
    const bool fits = (double)*takes * GUESS_LEAST <= (double)room_for(d);
    if (!status && fits) {
        const unsigned helpers = trace_take_threads(t, HTML_PACK_HELPERS);
        status = html_block_pack(block, draft.text, draft.bytes, helpers, err);
        trace_give_threads(t, helpers);
        *takes = block->page_bytes;
    }
    html_draft_release(&draft);
    return status ? -1 : fits;
}

static size_t cell_count(const struct detail *d)
{
    size_t n;
    (void)series_cells(d->series, &n);
    return n;
}

/* Joins slices of time, two and two, until with `share` of the cells it may fit. */
static int join_slices(struct detail *d, double share, uint32_t least, struct error *err)
{
    const size_t before = cell_count(d);
    do
        if (fold(d, 2, err))
            return -1;
    while (d->over.bins > least && d->over.bins % 2 == 0 &&
           (double)cell_count(d) * JOINED_LEAST > share * (double)before);
    return 1;
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
        return join_slices(d, share, BINS_GOOD, err);
    if (d->limit.frames > 0)
        return fold_to(d, groups, 0, err) ? -1 : 1;
    if (d->over.bins > BINS_LEAST && divides)
        return join_slices(d, share, BINS_LEAST, err);
    if (!d->room.must_fit || !d->limit.sites)
        return 0;
    const uint32_t apart = d->sites.call_sites - d->sites.others;
    d->limit.sites = (uint32_t)((double)apart * (share < 0.9 ? share * 0.9 : 0.8));
    return fold(d, 1, err) ? -1 : 1;
}

static int fit_detail(struct detail *d, struct html_block *block, struct error *err)
{
    for (;;) {
        size_t takes = 0;
        const size_t room = room_for(d);
        const int packed = pack_detail(d, block, &takes, err);
        if (packed < 0 || (packed && takes <= room))
            return packed;
        html_block_release(block);
        const int less = say_less(d, (double)room / (double)takes, err);
        if (less <= 0)
            return less;
    }
}

static void tell_detail_progress(const struct detail_plan *plan, unsigned part)
{
    if (plan->progress)
        plan->progress(plan->progress_arg, part);
}

/* ---- the two together ---- */

/* The parts that stand by themselves. */
static int choose_detail(struct detail *d, struct error *err)
{
    const struct detail_plan *p = d->plan;
    if (page_sites_find(&d->sites, p->m, p->names, err) ||
        page_lanes_find(&d->lanes, model_image(p->m), err))
        return -1;
    if (d->limit.frames > d->sites.all.frame_count)
        d->limit.frames = d->sites.all.frame_count;
    if (fold(d, 1, err) || (d->sites.group_count > GROUPS_MAX && fold_to(d, GROUPS_MANY, 0, err)) ||
        page_sites_order(&d->sites, err))
        return -1;
    d->over.group_of = d->sites.group_of;
    return 0;
}

static void gather_detail(void *arg)
{
    struct detail *d = arg;
    d->gathered = choose_detail(d, &d->err) || observe(d, &d->err) ? -1 : 0;
}

struct detail *html_detail_begin(const struct detail_plan *plan, struct error *err)
{
    struct detail *d = calloc(1, sizeof *d);
    if (!d) {
        error_memory(err);
        return NULL;
    }
    d->plan = plan;
    d->limit = (struct page_limit){FRAMES_MAX, UINT32_MAX};
    tell_detail_progress(plan, 1);
    beside_begin(&d->beside, plan->t, gather_detail, d);
    return d;
}

int html_detail_end(struct detail *d, const struct html_room *room, struct html_block *block,
                    struct error *err)
{
    d->room = *room;
    beside_end(&d->beside);
    if (d->gathered) {
        *err = d->err;
        return -1;
    }
    tell_detail_progress(d->plan, 4);
    return fit_detail(d, block, err);
}

void html_detail_free(struct detail *d)
{
    if (!d)
        return;
    beside_wait(&d->beside);
    series_free(d->series);
    page_lanes_release(&d->lanes);
    page_sites_release(&d->sites);
    free(d);
}
