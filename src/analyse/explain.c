/* explain.c - Chooses the moments of a process whose resident size is explained, and splits that
 * size into named parts. The parts add up to the resident size. Sums wrap modulo 2^64, because a
 * damaged file may hold any numbers. */
#include "analyse/explain.h"

#include <string.h>

const char *explain_at_name(enum explain_at at)
{
    static const char *const names[] = {"peak", "rss", "gap", "end"};
    return at < EXPLAIN_FOUR ? names[at] : "";
}

const char *explain_part_name(enum explain_part part)
{
    static const char *const names[EXPLAIN_PARTS] = {
        "live",      "rounding",   "headers",    "fragmentation",  "free_pages",
        "tcache",    "tops",       "unrecorded", "allocator_free", "not_resident",
        "untouched", "mappings",   "stacks",     "code_and_data",  "mapped_files",
        "shared",    "given_back", "recorder",   "other"};
    return names[part];
}

static uint64_t time_between(uint64_t a, uint64_t b) { return a < b ? b - a : a - b; }

uint64_t explain_resident(const struct mlw_split *s)
{
    return s->heap + s->arenas + s->anonymous + s->stacks + s->files + s->shared + s->recorder +
           s->other + s->lazy;
}

/* The splits of the range, and the live bytes then. */
struct range {
    const struct model *m;
    const struct mlw_split *splits;
    const struct model_moment *moments;
    size_t count; /* events of the image; those outside are passed over */
    uint64_t from_ns, to_ns;
};

static bool sample_in_range(const struct range *r, size_t i)
{
    return r->moments[i].time_ns >= r->from_ns && r->moments[i].time_ns < r->to_ns;
}

static uint64_t sample_resident(const struct range *r, size_t i)
{
    return explain_resident(&r->splits[i]);
}

/* The resident bytes above the live ones; 0 where live bytes are not touched. */
static uint64_t gap(const struct range *r, size_t i)
{
    const uint64_t rss = sample_resident(r, i) - r->splits[i].recorder,
                   live = r->moments[i].live_bytes;
    return rss > live ? rss - live : 0;
}

static size_t largest_sample(const struct range *r,
                             uint64_t (*figure)(const struct range *, size_t))
{
    size_t best = EXPLAIN_NONE;
    for (size_t i = 0; i < r->count; i++)
        if (sample_in_range(r, i) && (best == EXPLAIN_NONE || figure(r, i) > figure(r, best)))
            best = i;
    return best;
}

/* Chooses among the splits whose live bytes come closest to the peak's, give or take a hundredth of
 * it, the one with the most resident, then the nearest in time: a measurement soon after the peak,
 * when all was freed, is no answer, nor is one before all of it had been touched. */
static size_t nearest_peak(const struct range *r)
{
    const uint64_t bytes = model_totals(r->m)->peak_bytes, at = model_totals(r->m)->peak_time_ns;
    uint64_t closest = UINT64_MAX;
    size_t best = EXPLAIN_NONE;
    for (size_t i = 0; i < r->count; i++)
        if (sample_in_range(r, i) && time_between(r->moments[i].live_bytes, bytes) < closest)
            closest = time_between(r->moments[i].live_bytes, bytes);
    for (size_t i = 0; i < r->count; i++)
        if (sample_in_range(r, i) &&
            time_between(r->moments[i].live_bytes, bytes) - closest <= bytes / 100 &&
            (best == EXPLAIN_NONE || sample_resident(r, i) > sample_resident(r, best) ||
             (sample_resident(r, i) == sample_resident(r, best) &&
              time_between(r->moments[i].time_ns, at) <
                  time_between(r->moments[best].time_ns, at))))
            best = i;
    return best;
}

static size_t nearest_in_time(const struct range *r, uint64_t time_ns, bool anywhere)
{
    size_t best = EXPLAIN_NONE;
    for (size_t i = 0; i < r->count; i++)
        if ((anywhere || sample_in_range(r, i)) &&
            (best == EXPLAIN_NONE || time_between(r->moments[i].time_ns, time_ns) <=
                                         time_between(r->moments[best].time_ns, time_ns)))
            best = i;
    return best;
}

/* The end of a process that runs and sleeps may be later than the last event that is known. */
static size_t latest(const struct range *r)
{
    size_t best = EXPLAIN_NONE;
    for (size_t i = 0; i < r->count; i++)
        if (sample_in_range(r, i) &&
            (best == EXPLAIN_NONE || r->moments[i].time_ns >= r->moments[best].time_ns))
            best = i;
    return best;
}

/* When the largest resident size was sampled in the range; `otherwise` without samples. */
static uint64_t largest_sampled(const struct range *r, uint64_t otherwise)
{
    const struct trace_image *image = model_image(r->m);
    uint64_t most = 0, at = otherwise;
    for (uint32_t i = 0; i < image->resident_count; i++) {
        const struct mlw_resident *s = &image->resident[i];
        if (s->clock >= r->from_ns && s->clock < r->to_ns && s->rss > most) {
            most = s->rss;
            at = s->clock;
        }
    }
    return at;
}

static uint64_t range_end_time(const struct range *r)
{
    const uint64_t end = model_image(r->m)->end_ns;
    return r->to_ns != UINT64_MAX && r->to_ns - 1 < end ? r->to_ns - 1 : end;
}

/* The resident size that was sampled last before a time; 0: none was. */
static uint64_t sampled_at(const struct trace_image *image, uint64_t time_ns)
{
    uint64_t rss = 0;
    for (uint32_t i = 0; i < image->resident_count && image->resident[i].clock <= time_ns; i++)
        rss = image->resident[i].rss;
    return rss;
}

/* The recorder asks again when a figure has grown by a tenth, and small changes are of no matter.
 */
#define NEAR       8u
#define NEAR_LEAST ((uint64_t)1 << 20)

static bool near(uint64_t a, uint64_t b)
{
    const uint64_t most = a > b ? a : b, by = most / NEAR;
    return time_between(a, b) <= (by > NEAR_LEAST ? by : NEAR_LEAST);
}

/* True if a measurement was made in about the state of the moment that it is taken for. The last
 * sample before the end may be of a process that is being taken down. */
static bool stands(const struct range *r, const struct explain_moment *o)
{
    const struct model_totals *t = model_totals(r->m);
    const uint64_t live = r->moments[o->split].live_bytes,
                   sampled = sampled_at(model_image(r->m), o->time_ns);
    switch (o->at) {
    case EXPLAIN_PEAK: return near(live, t->peak_bytes);
    case EXPLAIN_RSS: return !sampled || near(sample_resident(r, o->split), sampled);
    case EXPLAIN_END: return near(live, t->live_bytes);
    default: return true;
    }
}

static struct explain_moment one_of_four(const struct range *r, enum explain_at at)
{
    struct explain_moment o = {.at = at, .split = EXPLAIN_NONE, .nearest = EXPLAIN_NONE};
    const uint64_t peak_ns = model_totals(r->m)->peak_time_ns;
    switch (at) {
    case EXPLAIN_PEAK:
        o.split = nearest_peak(r);
        o.time_ns = peak_ns;
        break;
    case EXPLAIN_RSS:
        o.split = largest_sample(r, sample_resident);
        o.time_ns = largest_sampled(r, peak_ns);
        break;
    case EXPLAIN_GAP:
        o.split = largest_sample(r, gap);
        o.time_ns = o.split == EXPLAIN_NONE ? peak_ns : r->moments[o.split].time_ns;
        break;
    default:
        o.time_ns = range_end_time(r);
        o.split = latest(r);
        break;
    }
    if (o.split != EXPLAIN_NONE && !stands(r, &o))
        o.split = EXPLAIN_NONE;
    if (o.split == EXPLAIN_NONE)
        o.nearest = nearest_in_time(r, o.time_ns, true);
    return o;
}

/* True: two measurements are more than a twentieth of the larger resident size apart, in that size,
 * in the live bytes, or in the bytes that were given back lazily and are still resident. */
static bool differ(const struct range *r, size_t a, size_t b)
{
    if (a == EXPLAIN_NONE || b == EXPLAIN_NONE)
        return a != b;
    const uint64_t most = sample_resident(r, a) > sample_resident(r, b) ? sample_resident(r, a)
                                                                        : sample_resident(r, b);
    return time_between(sample_resident(r, a), sample_resident(r, b)) > most / 20 ||
           time_between(r->moments[a].live_bytes, r->moments[b].live_bytes) > most / 20 ||
           time_between(r->splits[a].lazy, r->splits[b].lazy) > most / 20;
}

static size_t choose_four(const struct range *r, struct explain_moment *moments)
{
    size_t n = 0;
    const bool has_peak = model_totals(r->m)->events || model_totals(r->m)->carried_blocks;
    for (enum explain_at at = has_peak ? EXPLAIN_PEAK : EXPLAIN_RSS; at < EXPLAIN_FOUR; at++) {
        const struct explain_moment o = one_of_four(r, at);
        size_t i = 0;
        if (o.split == EXPLAIN_NONE && n)
            continue; /* one without is enough */
        while (i < n && differ(r, moments[i].split, o.split))
            i++;
        if (i == n)
            moments[n++] = o;
        else
            moments[i].also |= 1u << at;
    }
    return n;
}

/* The first mark of that label in the range; false when there is none. */
static bool find_marked_moment(const struct range *r, const char *label, struct explain_moment *o)
{
    const struct trace_image *image = model_image(r->m);
    for (uint32_t i = 0; i < image->note_count; i++) {
        const struct trace_event_note *n = &image->event_notes[i];
        if (n->control || !n->label || strcmp(n->label, label) != 0 || n->time_ns < r->from_ns ||
            n->time_ns >= r->to_ns)
            continue;
        o->label = n->label;
        o->time_ns = n->time_ns;
        return true;
    }
    return false;
}

size_t explain_choose(const struct model *m, const struct explain_wish *wish,
                      struct explain_moment moments[EXPLAIN_MOST])
{
    const struct trace_image *image = model_image(m);
    struct range r = {.m = m, .splits = image->splits};
    r.moments = model_moments(m, &r.count);
    model_window(m, &r.from_ns, &r.to_ns);
    if (r.from_ns > image->end_ns || r.to_ns <= image->start_ns)
        return 0;
    if (!model_totals(m)->events && !model_totals(m)->carried_blocks && !image->split_count)
        return 0;
    if (wish->at == EXPLAIN_FOUR)
        return choose_four(&r, moments);
    if (wish->at < EXPLAIN_FOUR) {
        moments[0] = one_of_four(&r, wish->at);
        return 1;
    }
    struct explain_moment o = {
        .at = wish->at, .label = wish->label, .time_ns = wish->time_ns, .nearest = EXPLAIN_NONE};
    if (wish->at == EXPLAIN_MARK && !find_marked_moment(&r, wish->label, &o))
        return 0;
    if (wish->at == EXPLAIN_TIME && (o.time_ns < image->start_ns || o.time_ns > image->end_ns ||
                                     o.time_ns < r.from_ns || o.time_ns >= r.to_ns))
        return 0;
    o.split = nearest_in_time(&r, o.time_ns, false);
    o.nearest = nearest_in_time(&r, o.time_ns, true);
    moments[0] = o;
    return 1;
}

bool explain_holds(const struct trace_image *image, const struct explain_moment *moment,
                   const struct pinned *here, const struct pinned *there)
{
    const uint64_t rss = explain_resident(&image->splits[moment->split]),
                   then = sampled_at(image, moment->time_ns);
    const uint64_t most = rss > then ? rss : then;
    return time_between(here->requested_bytes, there->requested_bytes) <= most / 20 &&
           (!then || time_between(rss, then) <= most / 20);
}

/* Modulo 2^64, whatever a file says: the parts add up, and no sum overflows. */
static void add_explained_part(struct explained *e, enum explain_part part, int64_t bytes)
{
    e->parts[part] = (int64_t)((uint64_t)e->parts[part] + (uint64_t)bytes);
}

/* glibc may have touched this much above the highest block: it takes so much more from the kernel
 * than a block needs, and a huge page is resident as a whole. */
#define TOP_PAD_BYTES  ((uint64_t)132 << 10)
#define HUGE_PAD_BYTES ((uint64_t)2 << 20)

/* A part of the resident bytes of heaps above all live blocks: the tops end where there never was a
 * block; the rest is the program's own, or blocks that were not recorded. Of heaps of other arenas
 * all is glibc's, and was seen. Returns the tops. */
static uint64_t add_unrecorded(struct explained *e, enum pinned_kind kind, uint64_t rest)
{
    const uint64_t pad = TOP_PAD_BYTES + (e->huge_bytes ? HUGE_PAD_BYTES : 0),
                   reach = e->pinned.sum[kind].above_bytes + pad;
    if ((kind == PINNED_ARENA && !e->attached) || rest <= reach)
        return rest;
    add_explained_part(e, EXPLAIN_UNRECORDED, (int64_t)(rest - reach + pad));
    return reach - pad;
}

/* RSS of a kind of heaps, against the blocks in them. resident_bytes: NULL when it was not
 * measured: then the addresses decide. */
static void add_heaps(struct explained *e, enum pinned_kind kind, const uint64_t *resident_bytes,
                      uint64_t usable_bytes)
{
    const struct pinned_heap *sum = &e->pinned.sum[kind];
    const uint64_t below = sum->between_bytes + sum->before_bytes;
    int64_t rest = resident_bytes ? (int64_t)(*resident_bytes - usable_bytes - sum->header_bytes -
                                              sum->pinned_bytes - sum->cached_bytes)
                                  : (int64_t)below;
    const int64_t pages = rest < 0 ? 0 : (uint64_t)rest < below ? rest : (int64_t)below;
    rest -= pages;
    add_explained_part(e, EXPLAIN_HEADERS, (int64_t)sum->header_bytes);
    add_explained_part(e, EXPLAIN_FRAGMENTATION, (int64_t)sum->pinned_bytes);
    add_explained_part(e, EXPLAIN_FREE_PAGES, pages);
    add_explained_part(e, EXPLAIN_TCACHE, (int64_t)sum->cached_bytes);
    if (rest < 0) {
        add_explained_part(e, EXPLAIN_NOT_RESIDENT, rest);
        return;
    }
    const uint64_t tops = resident_bytes ? add_unrecorded(e, kind, (uint64_t)rest) : (uint64_t)rest;
    add_explained_part(e, EXPLAIN_TOPS, (int64_t)tops);
    if (kind == PINNED_ARENA || (tops != (uint64_t)rest && !e->attached))
        e->kept_tops_bytes += tops; /* the break goes on above: glibc's top is not at its end */
}

static void add_glibc_parts(struct explained *e, const struct mlw_split *s)
{
    const uint64_t *usable = e->pinned.usable_bytes;
    const uint64_t mapped = usable[MODEL_MMAPPED] + usable[MODEL_MMAPPED | MODEL_NON_MAIN];
    add_heaps(e, PINNED_MAIN, s ? &s->heap : NULL, usable[MODEL_MAIN]);
    add_heaps(e, PINNED_ARENA, s ? &s->arenas : NULL, usable[MODEL_NON_MAIN]);
    if (!s)
        return;
    const int64_t mappings = (int64_t)(s->anonymous - mapped);
    add_explained_part(e, mappings < 0 ? EXPLAIN_UNTOUCHED : EXPLAIN_MAPPINGS, mappings);
}

static void add_other_allocator(struct explained *e, const struct mlw_split *s)
{
    const int64_t pinned = (int64_t)e->pinned.sum[PINNED_OTHER].pinned_bytes;
    if (!s) {
        e->parts[EXPLAIN_FRAGMENTATION] = pinned;
        return;
    }
    const int64_t rest =
        (int64_t)(s->heap + s->arenas + s->anonymous - e->pinned.usable_bytes[MODEL_MAIN]);
    const int64_t shared = rest < 0 ? 0 : rest < pinned ? rest : pinned;
    add_explained_part(e, EXPLAIN_FRAGMENTATION, shared);
    add_explained_part(e, rest < 0 ? EXPLAIN_NOT_RESIDENT : EXPLAIN_ALLOCATOR, rest - shared);
}

void explain_parts(const struct trace_image *image, struct explained *e)
{
    const struct mlw_split *s =
        e->moment.split == EXPLAIN_NONE ? NULL : &image->splits[e->moment.split];
    uint64_t usable = 0;
    for (unsigned i = 0; i < PINNED_PLACES; i++)
        usable += e->pinned.usable_bytes[i];
    memset(e->parts, 0, sizeof e->parts);
    e->glibc = e->pinned.glibc;
    e->heap_bytes = s ? s->heap + s->arenas : 0;
    e->kept_tops_bytes = 0;
    e->attached = image->attached;
    e->huge_bytes = s ? s->huge : 0;
    e->hugetlb_bytes = s ? s->hugetlb : 0;
    e->forked_bytes = s ? s->forked : 0;
    e->proportional_bytes = s ? s->proportional : 0;
    e->measured_ns = s ? s->clock : 0;
    e->resident_bytes = s ? explain_resident(s) : 0;
    e->swapped_bytes = s ? s->swapped : 0;
    e->live_bytes = e->pinned.requested_bytes;
    e->live_blocks = e->pinned.live_blocks;
    e->parts[EXPLAIN_LIVE] = (int64_t)e->live_bytes;
    e->parts[EXPLAIN_ROUNDING] = (int64_t)(usable - e->live_bytes);
    if (e->glibc)
        add_glibc_parts(e, s);
    else
        add_other_allocator(e, s);
    if (!s)
        return;
    e->parts[EXPLAIN_STACKS] = (int64_t)s->stacks;
    const uint64_t mapped = s->mapped < s->files ? s->mapped : s->files;
    e->parts[EXPLAIN_FILES] = (int64_t)(s->files - mapped);
    e->parts[EXPLAIN_MAPPED] = (int64_t)mapped;
    e->parts[EXPLAIN_SHARED] = (int64_t)s->shared;
    e->parts[EXPLAIN_LAZY] = (int64_t)s->lazy;
    e->parts[EXPLAIN_RECORDER] = (int64_t)s->recorder;
    e->parts[EXPLAIN_OTHER] = (int64_t)s->other;
}
