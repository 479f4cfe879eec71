/* resident.c - Splits the difference between resident and live bytes into parts, at a
 * measurement near the peak of the live bytes. The parts add up exactly, modulo 2^64. */
#include "analyse/resident.h"

#include <string.h>

static uint64_t sample_distance(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

void resident_at(const struct model *m, size_t moment, struct resident_view *view)
{
    const struct trace_image *image = model_image(m);
    size_t count;
    const struct mlw_split *s = &image->splits[moment];
    const struct model_moment *o = &model_moments(m, &count)[moment];
    /* Modulo 2^64, whatever a file says: the parts add up, and no sum overflows. */
    const uint64_t *usable = o->live_usable;
    uint64_t all = 0;
    for (unsigned i = 0; i < MODEL_PLACES; i++)
        all += usable[i];
    view->known = true;
    view->time_ns = o->time_ns;
    view->live_bytes = o->live_bytes;
    view->live_blocks = o->live_blocks;
    view->recorder_bytes = s->recorder;
    view->swapped_bytes = s->swapped;
    view->resident_bytes =
        s->heap + s->arenas + s->anonymous + s->stacks + s->files + s->shared + s->other + s->lazy;
    view->glibc = image->allocator && !strncmp(image->allocator, "glibc", 5);
    view->parts[RESIDENT_ROUNDING] = (int64_t)(all - o->live_bytes);
    if (view->glibc) {
        view->free_main_bytes = (int64_t)(s->heap - usable[MODEL_MAIN]);
        view->free_arenas_bytes = (int64_t)(s->arenas - usable[MODEL_NON_MAIN]);
        view->parts[RESIDENT_HEAP_FREE] =
            (int64_t)((uint64_t)view->free_main_bytes + (uint64_t)view->free_arenas_bytes);
        view->parts[RESIDENT_MMAPPED] = (int64_t)(s->anonymous - usable[MODEL_MMAPPED] -
                                                  usable[MODEL_MMAPPED | MODEL_NON_MAIN]);
    } else {
        view->parts[RESIDENT_ALLOCATOR] = (int64_t)(s->heap + s->arenas + s->anonymous - all);
    }
    view->parts[RESIDENT_STACKS] = (int64_t)s->stacks;
    view->parts[RESIDENT_FILES] = (int64_t)s->files;
    view->parts[RESIDENT_SHARED] = (int64_t)s->shared;
    view->parts[RESIDENT_OTHER] = (int64_t)(s->other + s->lazy);
}

/* Chooses among the moments whose live bytes come closest to the peak's, give or take a twentieth
 * of it, the nearest in time: a measurement soon after the peak, when all was freed, is no answer.
 */
static size_t moment_of_peak(const struct model *m, const struct model_moment *moments,
                             size_t count)
{
    const uint64_t peak_bytes = model_totals(m)->peak_bytes,
                   peak_ns = model_totals(m)->peak_time_ns;
    uint64_t closest = UINT64_MAX, from_ns, to_ns;
    size_t best = count;
    model_window(m, &from_ns, &to_ns);
    for (size_t i = 0; i < count; i++)
        if (moments[i].time_ns >= from_ns && moments[i].time_ns < to_ns &&
            sample_distance(moments[i].live_bytes, peak_bytes) < closest)
            closest = sample_distance(moments[i].live_bytes, peak_bytes);
    for (size_t i = 0; i < count; i++)
        if (moments[i].time_ns >= from_ns && moments[i].time_ns < to_ns &&
            sample_distance(moments[i].live_bytes, peak_bytes) - closest <= peak_bytes / 20 &&
            (best == count || sample_distance(moments[i].time_ns, peak_ns) <
                                  sample_distance(moments[best].time_ns, peak_ns)))
            best = i;
    return best;
}

void resident_at_peak(const struct model *m, struct resident_view *view)
{
    const struct trace_image *image = model_image(m);
    const uint64_t peak_ns = model_totals(m)->peak_time_ns;
    size_t count;
    const struct model_moment *moments = model_moments(m, &count);
    uint64_t from_ns, to_ns;
    memset(view, 0, sizeof *view);
    model_window(m, &from_ns, &to_ns);
    for (uint32_t i = 0; i < image->resident_count; i++) {
        const struct mlw_resident *r = &image->resident[i];
        if (r->clock < from_ns || r->clock >= to_ns)
            continue;
        if (r->rss > view->largest_bytes) {
            view->largest_bytes = r->rss;
            view->largest_time_ns = r->clock;
        }
        if (!view->sampled ||
            sample_distance(r->clock, peak_ns) < sample_distance(view->near_time_ns, peak_ns)) {
            view->near_bytes = r->rss;
            view->near_time_ns = r->clock;
        }
        view->sampled = true;
    }
    const size_t moment = moment_of_peak(m, moments, count);
    if (moment < count)
        resident_at(m, moment, view);
}
