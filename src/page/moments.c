/* moments.c - Writes the moments of a process and the map of its heap as a block of the page.
 * One pass over the events visits all moments. The map becomes coarser, or is left out, until
 * the block fits. */
#include "page/moments.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/advice.h"
#include "analyse/heapmap.h"
#include "analyse/pinned.h"
#include "base/array.h"
#include "base/json.h"
#include "frames/names.h"
#include "report/explained.h"
#include "show/frame_texts.h"

/* The call sites of moments on the page, numbered, and what they keep at one moment.
 * Private to report/. */

struct moment_site { /* sums of its stacks */
    uint32_t frame;  /* id, or NO_NAME */
    uint32_t number; /* in the order in which sites were seen */
    struct pinned_stack sums;
};

struct moment_sites {
    struct names *names;
    uint32_t stacks;
    uint16_t *site_of;  /* [stacks + 1] number; UINT16_MAX: one of too many, or not asked for */
    bool *known;        /* [stacks + 1] site_of is set */
    uint32_t *by_frame; /* [frame_room] number + 1, by id + 1 */
    size_t frame_room;
    struct moment_site *sites; /* [count] */
    size_t count, room;
    struct moment_site *order; /* room to sort them; [room] */
};

#define SITES_MOST (UINT16_MAX - 1u)

static int sums_no_memory(struct error *err)
{
    return error_memory_for(err, "the call sites of moments");
}

static void moment_sites_release(struct moment_sites *s)
{
    free(s->site_of);
    free(s->known);
    free(s->by_frame);
    free(s->sites);
    free(s->order);
    memset(s, 0, sizeof *s);
}

static int moment_sites_new(struct moment_sites *s, struct names *names, struct error *err)
{
    const uint32_t stacks = names_image(names)->stacks;
    *s = (struct moment_sites){.names = names,
                               .stacks = stacks,
                               .site_of = malloc(((size_t)stacks + 1) * sizeof *s->site_of),
                               .known = calloc((size_t)stacks + 1, sizeof *s->known)};
    if (!s->site_of || !s->known) {
        moment_sites_release(s);
        return sums_no_memory(err);
    }
    memset(s->site_of, 0xff, ((size_t)stacks + 1) * sizeof *s->site_of);
    return 0;
}

/* Number of the site of a frame (NO_NAME: none); UINT16_MAX when there are too many, -1 without
 * memory. */
static int32_t frame_site_number(struct moment_sites *s, uint32_t frame)
{
    const size_t at = frame == NO_NAME ? 0 : (size_t)frame + 1;
    if (at >= s->frame_room) {
        const size_t room = names_count(s->names) + 64;
        uint32_t *by_frame = realloc(s->by_frame, room * sizeof *by_frame);
        if (!by_frame)
            return -1;
        memset(by_frame + s->frame_room, 0, (room - s->frame_room) * sizeof *by_frame);
        s->by_frame = by_frame;
        s->frame_room = room;
    }
    if (s->by_frame[at])
        return (int32_t)s->by_frame[at] - 1;
    if (s->count == SITES_MOST)
        return UINT16_MAX;
    if (s->count == s->room) {
        size_t sites = s->room, order = sites;
        if (!ARRAY_ROOM(s->sites, s->count + 1, sites) ||
            !ARRAY_ROOM(s->order, s->count + 1, order))
            return -1;
        s->room = sites;
    }
    s->sites[s->count] = (struct moment_site){.frame = frame, .number = (uint32_t)s->count};
    s->by_frame[at] = (uint32_t)++s->count;
    return (int32_t)s->count - 1;
}

static bool find_moment_site(struct moment_sites *s, uint32_t stack)
{
    uint32_t node, position;
    const uint32_t frame = stack ? names_site(s->names, stack, &node, &position) : NO_NAME;
    const int32_t number = names_failed(s->names) ? -1 : frame_site_number(s, frame);
    s->known[stack] = true;
    s->site_of[stack] = (uint16_t)number;
    return number >= 0;
}

/* The sums of a moment: of every call site whose blocks are there. */
static int moment_sites_add(struct moment_sites *s, const struct pinned *p,
                            const struct pinned_block *blocks, size_t count, struct error *err)
{
    for (size_t i = 0; i < s->count; i++)
        s->sites[i].sums = (struct pinned_stack){0};
    for (size_t i = 0; i < count; i++)
        if (!s->known[blocks[i].stack] && !find_moment_site(s, blocks[i].stack))
            return sums_no_memory(err);
    for (uint32_t i = 0; i < p->stacks.count; i++) {
        const struct pinned_stack *of = &p->stacks.of[i];
        if (s->site_of[of->stack] == UINT16_MAX)
            continue;
        struct pinned_stack *sums = &s->sites[s->site_of[of->stack]].sums;
        sums->live_blocks += of->live_blocks;
        sums->live_bytes += of->live_bytes;
        sums->pinned_bytes += of->pinned_bytes;
        sums->below_bytes += of->below_bytes;
    }
    return 0;
}

static uint64_t kept_free_bytes(const struct moment_site *s)
{
    return s->sums.pinned_bytes + s->sums.below_bytes;
}

/* For equals the one that was seen first: what else was named before does not matter. */
static int compare_kept_bytes(const void *a, const void *b)
{
    const struct moment_site *x = a, *y = b;
    if (kept_free_bytes(x) != kept_free_bytes(y))
        return kept_free_bytes(x) < kept_free_bytes(y) ? 1 : -1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* A field `keepers`: [site, free on its pages, free below, live bytes, live blocks] of those that
 * keep most, and keepers_total. */
static void moment_sites_keepers(struct json *j, struct moment_sites *s, size_t most)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++)
        if (kept_free_bytes(&s->sites[i]))
            s->order[n++] = s->sites[i];
    if (n)
        qsort(s->order, n, sizeof *s->order, compare_kept_bytes);
    json_open_array(j, "keepers");
    for (size_t i = 0; i < n && i < most; i++) {
        const struct moment_site *of = &s->order[i];
        json_open_array(j, NULL);
        json_number(j, NULL, of->number);
        json_number(j, NULL, of->sums.pinned_bytes);
        json_number(j, NULL, of->sums.below_bytes);
        json_number(j, NULL, of->sums.live_bytes);
        json_number(j, NULL, of->sums.live_blocks);
        json_close_array(j);
    }
    json_close_array(j);
    json_number(j, "keepers_total", n);
}

/* A field `sites`: the frame of each, by its place in the table; null without a stack. False
 * without memory. */
static bool moment_sites_frames(struct json *j, const struct moment_sites *s,
                                struct frame_texts *texts)
{
    json_open_array(j, "sites");
    for (size_t i = 0; i < s->count; i++) {
        if (s->sites[i].frame == NO_NAME)
            json_null(j, NULL);
        else if (!frame_texts_frame(j, texts, s->names, s->sites[i].frame))
            return false;
    }
    json_close_array(j);
    return true;
}

#define MOMENTS_MOST  200u
#define MOMENTS_LEAST 16u
#define MARKS_MOST    40u
#define SLICES_MOST   120u      /* that do not come with a measurement */
#define WORK          96000000u /* blocks, and stacks, that are looked at in all moments together */
#define MOMENT_BYTES  1000u     /* that a moment takes on the page, with its map, about */
#define KEEPERS_SHOWN 12u
#define ARENAS_SHOWN  12u
#define THREADS_SHOWN 4u
#define PINNING_SHOWN 20u /* moments that the report explains, by whole stacks */
#define COARSENED     3u  /* times that the map may be made coarser to fit */

struct moment {
    uint64_t time_ns;
    size_t split; /* the measurement that was made then, or EXPLAIN_NONE */
};

/* A stop of the pass: a moment of the page, or one that the report explains. */
struct stop {
    size_t item; /* in list; or the look of the search */
    bool explains;
};

struct moments {
    const struct moments_plan *plan;
    const struct trace_image *image;
    struct explained_list explained;
    struct explained_search *search; /* NULL: explained is complete */
    struct moment *list;             /* [count] by time */
    size_t count;
    struct stop *stops; /* [stop_count] by time */
    uint64_t *times_ns; /* [stop_count] */
    size_t stop_count;
    struct pinned_reader *reader;
    struct moment_sites sites;
    struct heapmap *map;
    struct frame_texts texts;
    struct json j; /* the elements of `moments` */
    char *text;
    size_t text_bytes;
};

static void release_moments(struct moments *x)
{
    explained_release(&x->explained);
    moment_sites_release(&x->sites);
    heapmap_free(x->map);
    frame_texts_release(&x->texts);
    explained_end(x->search, false);
    free(x->list);
    free(x->stops);
    free(x->times_ns);
    free(x->text);
}

/* ---- which moments ---- */

/* Looking at a moment takes time for each live block and each stack. */
static size_t affordable(const struct moments *x)
{
    const uint64_t each = model_totals(x->plan->m)->peak_blocks + x->image->stacks / 2 + 1;
    const uint64_t room = x->plan->share_bytes / MOMENT_BYTES;
    uint64_t n = WORK / each;
    n = n < room ? n : room;
    return n < MOMENTS_LEAST ? MOMENTS_LEAST : n > MOMENTS_MOST ? MOMENTS_MOST : (size_t)n;
}

static int compare_moment_times(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    return (x->split == EXPLAIN_NONE) - (y->split == EXPLAIN_NONE);
}

static void add_moment(struct moments *x, uint64_t time_ns, size_t split)
{
    uint64_t from_ns, to_ns;
    model_window(x->plan->m, &from_ns, &to_ns);
    if (time_ns >= from_ns && time_ns < to_ns)
        x->list[x->count++] = (struct moment){time_ns, split};
}

/* Measurements at equal distances. */
static void add_splits(struct moments *x, size_t most)
{
    const size_t n = x->image->split_count, step = n / (most + 1) + 1;
    for (size_t i = step / 2; i < n; i += step)
        add_moment(x, x->image->splits[i].clock, i);
}

static void add_slices(struct moments *x, size_t most)
{
    uint64_t start_ns, width_ns;
    size_t bins;
    model_timeline(x->plan->m, &start_ns, &width_ns, &bins);
    const size_t step = bins / (most + 1) + 1;
    for (size_t i = step; i <= bins; i += step)
        add_moment(x, start_ns + i * width_ns, EXPLAIN_NONE);
}

/* Among equal times the one with a measurement stays. */
static void sort_moments(struct moments *x)
{
    size_t kept = 0;
    if (x->count)
        qsort(x->list, x->count, sizeof *x->list, compare_moment_times);
    for (size_t i = 0; i < x->count; i++)
        if (!kept || x->list[i].time_ns != x->list[kept - 1].time_ns)
            x->list[kept++] = x->list[i];
    x->count = kept;
}

/* The moments, and the times to look at for those that the report explains; of equal times these
 * come first. */
static void plan_stops(struct moments *x)
{
    const uint64_t *looks = NULL;
    const size_t n = x->search ? explained_looks(x->search, &looks) : 0;
    size_t k = 0;
    for (size_t i = 0; i < x->count || k < n; x->stop_count++) {
        const bool explains = k < n && (i == x->count || looks[k] <= x->list[i].time_ns);
        x->times_ns[x->stop_count] = explains ? looks[k] : x->list[i].time_ns;
        x->stops[x->stop_count] = (struct stop){explains ? k++ : i++, explains};
    }
}

static int choose_moments(struct moments *x, struct error *err)
{
    const size_t n = affordable(x), room = 2 * MOMENTS_MOST + 2 * MARKS_MOST + 2 * EXPLAIN_MOST,
                 stops = room + 2 * EXPLAIN_MOST;
    x->list = calloc(room, sizeof *x->list);
    x->stops = calloc(stops, sizeof *x->stops);
    x->times_ns = calloc(stops, sizeof *x->times_ns);
    if (!x->list || !x->stops || !x->times_ns)
        return error_memory_for(err, "the moments of the page");
    for (size_t i = 0; i < x->explained.count; i++) {
        const struct explain_moment *o = &x->explained.items[i].moment;
        const bool measured = o->split != EXPLAIN_NONE;
        add_moment(x, measured ? x->image->splits[o->split].clock : o->time_ns, o->split);
    }
    for (uint32_t i = 0; i < x->image->note_count && i < MARKS_MOST; i++)
        add_moment(x, x->image->event_notes[i].time_ns, EXPLAIN_NONE);
    add_splits(x, n / 2);
    add_slices(x, n / 2 < SLICES_MOST ? n / 2 : SLICES_MOST);
    sort_moments(x);
    plan_stops(x);
    return 0;
}

/* ---- a moment ---- */

static uint64_t arena_free_bytes(const struct pinned_arena *a, bool main)
{
    const uint64_t used = a->live_bytes + a->header_bytes,
                   extent = main ? a->span_bytes : a->extent_bytes;
    return extent > used ? extent - used : 0;
}

/* [address, live, free below and on its pages, extent, threads, first threads...] of those with the
 * most free bytes. */
static void write_moment_arenas(struct json *j, const struct trace_image *image,
                                const struct pinned *p)
{
    uint64_t below = UINT64_MAX; /* those with more are written */
    const size_t known = pinned_known_arenas(p);
    size_t last = SIZE_MAX, written = 0;
    json_open_array(j, "arenas");
    while (written < ARENAS_SHOWN && written < known) {
        size_t best = SIZE_MAX;
        uint64_t most = 0;
        for (size_t i = 0; i < known; i++) {
            const uint64_t free_bytes = arena_free_bytes(&p->arenas[i], i == 0);
            const bool later = free_bytes < below || (free_bytes == below && i > last);
            if ((last == SIZE_MAX || later) && (best == SIZE_MAX || free_bytes > most)) {
                best = i;
                most = free_bytes;
            }
        }
        const struct pinned_arena *a = &p->arenas[best];
        unsigned shown = 0;
        json_open_array(j, NULL);
        json_number(j, NULL, best ? a->address : 0);
        json_number(j, NULL, a->live_bytes);
        json_number(j, NULL, a->live_blocks);
        json_number(j, NULL, most);
        json_number(j, NULL, a->pinned_bytes);
        json_number(j, NULL, a->between_bytes + a->before_bytes);
        json_number(j, NULL, a->cached_bytes);
        json_number(j, NULL, a->heaps);
        json_number(j, NULL, a->threads);
        for (uint32_t k = 0; k < image->thread_count && shown < THREADS_SHOWN; k++)
            if (p->arena_of[k] == best) {
                json_number(j, NULL, image->threads[k].tid);
                shown++;
            }
        json_close_array(j);
        below = most;
        last = best;
        written++;
    }
    json_close_array(j);
    json_number(j, "arenas_total", known);
    json_number(j, "arena_heap_bytes", p->arena_heap_bytes);
}

static bool has_site(const struct moments *x, uint32_t stack)
{
    return x->sites.known[stack] && x->sites.site_of[stack] != UINT16_MAX;
}

/* Stacks whose site is not known are each their own. */
static uint32_t moment_site_number(void *arg, uint32_t stack)
{
    const struct moments *x = arg;
    return has_site(x, stack) ? x->sites.site_of[stack] : UINT16_MAX + stack;
}

/* [kind, saved bytes (0: not known), call site or -1, saved bytes at most (0: not known)] */
static void write_moment_advice(struct json *j, struct moments *x, const struct explained *e)
{
    struct advice list[ADVICE_MOST];
    const struct advice_sites sites = {moment_site_number, x};
    const size_t n = advice_find(e, model_threshold(x->plan->m), &sites, list);
    json_open_array(j, "advice");
    for (size_t i = 0; i < n; i++) {
        const bool site = advice_has_site(list[i].kind) && has_site(x, list[i].stack);
        json_open_array(j, NULL);
        json_number(j, NULL, list[i].kind);
        json_number(j, NULL, list[i].saves_bytes);
        json_signed(j, NULL, site ? x->sites.site_of[list[i].stack] : -1);
        json_number(j, NULL, list[i].most_bytes);
        json_close_array(j);
    }
    json_close_array(j);
}

static void write_moment(struct moments *x, const struct moment *of, const struct explained *e)
{
    struct json *j = &x->j;
    const bool measured = of->split != EXPLAIN_NONE;
    json_open_object(j, NULL);
    json_signed(j, "time_ns", (int64_t)(of->time_ns - x->image->start_ns));
    json_bool(j, "measured", measured);
    if (measured) {
        json_number(j, "rss_bytes", e->resident_bytes);
        json_number(j, "swapped_bytes", e->swapped_bytes);
    }
    json_number(j, "live_bytes", e->live_bytes);
    json_number(j, "live_blocks", e->live_blocks);
    json_open_array(j, "parts");
    for (enum explain_part i = 0; i < EXPLAIN_PARTS; i++)
        json_signed(j, NULL, e->parts[i]);
    json_close_array(j);
    if (e->glibc)
        write_moment_arenas(j, x->image, &e->pinned);
    moment_sites_keepers(j, &x->sites, KEEPERS_SHOWN);
    write_moment_advice(j, x, e);
    json_close_object(j);
}

static int visit_moment(void *arg, size_t moment, const struct pinned *p,
                        const struct pinned_block *blocks, size_t count, struct error *err)
{
    struct moments *x = arg;
    const struct moment *of = &x->list[moment];
    const struct advice_sites sites = {moment_site_number, x};
    struct explained e = {.moment = {.split = of->split}, .pinned = *p};
    if (moment_sites_add(&x->sites, p, blocks, count, err) ||
        heapmap_add(x->map, moment, p, blocks, count, x->sites.site_of, err))
        return -1;
    explain_parts(x->image, &e);
    if (e.measured_ns)
        advice_sites_find(x->image, p, blocks, count, &sites,
                          advice_trim_bytes(model_threshold(x->plan->m), p->time_ns), &e.found);
    write_moment(x, of, &e);
    return 0;
}

static int stop_at_moment(void *arg, size_t number, const struct pinned *p,
                          const struct pinned_block *blocks, size_t count, struct error *err)
{
    struct moments *x = arg;
    const struct stop *s = &x->stops[number];
    return s->explains ? explained_look(x->search, s->item, x->reader, p, blocks, count, err)
                       : visit_moment(x, s->item, p, blocks, count, err);
}

static int look_at_moments(struct moments *x, struct error *err)
{
    x->reader = pinned_visitor(x->image, x->times_ns, x->stop_count, stop_at_moment, x, err);
    return pinned_read(x->reader, x->plan->t, x->plan->image, err);
}

/* ---- the block ---- */

static unsigned hundredths(uint64_t part, uint64_t whole)
{
    if (part >= whole)
        return 100;
    return (unsigned)((part * 100 + whole - 1) / whole);
}

/* The looks of a cell: hundredths that are live, and free on pages with live blocks, rounded up;
 * its sites. */
static void look_of(const struct heapmap_cell *c, uint64_t cell_bytes, int32_t look[5])
{
    const uint64_t pages = (uint64_t)c->pages * PINNED_PAGE_BYTES;
    look[0] = (int32_t)hundredths(c->used_bytes, cell_bytes);
    look[1] = (int32_t)hundredths(pages > c->used_bytes ? pages - c->used_bytes : 0, cell_bytes);
    for (unsigned i = 0; i < HEAPMAP_SITES; i++)
        look[2 + i] = c->site[i];
}

/* Writes the changes since the moment before: [cells passed over, how each now looks], see look_of.
 */
static void write_changes(struct json *j, const struct heapmap *map, size_t moment)
{
    static const struct heapmap_cell nothing[HEAPMAP_COLUMNS];
    const uint64_t cell_bytes = heapmap_cell_bytes(map);
    uint64_t address, passed = 0;
    const struct heapmap_cell *now;
    json_open_array(j, NULL);
    for (size_t row = 0; (now = heapmap_row(map, row, moment, &address)); row++) {
        const struct heapmap_cell *before =
            moment ? heapmap_row(map, row, moment - 1, &address) : nothing;
        for (unsigned i = 0; i < HEAPMAP_COLUMNS; i++) {
            int32_t a[2 + HEAPMAP_SITES], b[2 + HEAPMAP_SITES];
            look_of(&before[i], cell_bytes, a);
            look_of(&now[i], cell_bytes, b);
            if (!memcmp(a, b, sizeof a)) {
                passed++;
                continue;
            }
            json_number(j, NULL, passed);
            for (unsigned k = 0; k < sizeof b / sizeof *b; k++)
                json_signed(j, NULL, b[k]);
            passed = 0;
        }
    }
    json_close_array(j);
}

static void write_map(struct json *j, const struct moments *x)
{
    uint64_t address;
    json_open_object(j, "map");
    json_number(j, "cell_bytes", heapmap_cell_bytes(x->map));
    json_number(j, "columns", HEAPMAP_COLUMNS);
    json_open_array(j, "rows");
    for (size_t row = 0; heapmap_row(x->map, row, 0, &address); row++)
        json_number(j, NULL, address);
    json_close_array(j);
    json_open_array(j, "changes");
    for (size_t i = 0; i < x->count; i++)
        write_changes(j, x->map, i);
    json_close_array(j);
    json_close_object(j);
}

static void write_names(struct json *j)
{
    json_open_array(j, "part_names");
    for (enum explain_part i = 0; i < EXPLAIN_PARTS; i++)
        json_text(j, NULL, explain_part_name(i));
    json_close_array(j);
    json_open_array(j, "remedies");
    for (enum advice_kind i = 0; i < ADVICE_KINDS; i++) {
        json_open_object(j, NULL);
        json_text(j, "setting", advice_setting(i));
        json_text(j, "text", advice_text(i));
        json_text(j, "command", advice_environment(i));
        json_close_object(j);
    }
    json_close_array(j);
}

static int write_moments_block(struct json *j, struct moments *x, bool with_map, struct error *err)
{
    json_open_object(j, NULL);
    write_names(j);
    json_raw(j, "moments", x->text, x->text_bytes);
    int status =
        json_explained(j, x->plan->m, &x->explained, &x->texts, x->plan->names, PINNING_SHOWN, err);
    if (!status && !moment_sites_frames(j, &x->sites, &x->texts))
        status = error_memory_for(err, "the names of call sites");
    if (!status)
        frame_texts_table(j, &x->texts);
    if (with_map)
        write_map(j, x);
    else
        json_null(j, "map");
    json_close_object(j);
    return status;
}

static int pack_moments(struct moments *x, bool with_map, struct html_block *block,
                        struct error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    struct json j = {.out = open_memstream(&text, &text_bytes), .one_line = true};
    if (!j.out)
        return error_system(err, "memory for the page");
    int status = write_moments_block(&j, x, with_map, err);
    if (fclose(j.out) && !status)
        status = error_system(err, "memory for the page");
    if (!status)
        status = html_block_pack(block, text, text_bytes, 0, err);
    free(text);
    return status;
}

/* With a coarser map, at last with none. */
static int fit_moments(struct moments *x, struct html_block *block, struct error *err)
{
    for (unsigned i = 0; i <= COARSENED; i++) {
        if (i && heapmap_coarsen(x->map, err))
            return -1;
        if (pack_moments(x, true, block, err))
            return -1;
        if (block->page_bytes <= x->plan->share_bytes)
            return 1;
        html_block_release(block);
    }
    if (pack_moments(x, false, block, err))
        return -1;
    if (block->page_bytes <= x->plan->share_bytes)
        return 1;
    html_block_release(block);
    return 0;
}

static int find_moments(struct moments *x, struct error *err)
{
    if (choose_moments(x, err) || moment_sites_new(&x->sites, x->plan->names, err))
        return -1;
    x->map = heapmap_new(x->count, err);
    if (!x->map)
        return -1;
    x->j = (struct json){.out = open_memstream(&x->text, &x->text_bytes), .one_line = true};
    if (!x->j.out)
        return error_system(err, "memory for the page");
    json_open_array(&x->j, NULL);
    int status = look_at_moments(x, err);
    json_close_to(&x->j, 0);
    if (fclose(x->j.out) && !status)
        status = error_system(err, "memory for the page");
    return status;
}

/* Fills the parts that the report explains. In the pass of the moments: but of a time or a mark
 * that was asked for, only a pass shows where its moment is. */
static int explain_moments(struct moments *x, struct error *err)
{
    const struct moments_plan *p = x->plan;
    if (p->options->at)
        return explained_find(p->t, p->image, p->m, p->options, p->names, &x->explained, err);
    x->search = explained_begin(p->t, p->image, p->m, p->options, p->names, &x->explained, err);
    return x->search ? 0 : -1;
}

int html_moments(const struct moments_plan *plan, struct html_block *block, struct error *err)
{
    struct moments x = {.plan = plan, .image = model_image(plan->m), .texts = {.table = true}};
    int status = explain_moments(&x, err);
    if (!status && x.explained.count) {
        status = find_moments(&x, err);
        if (!status) {
            explained_end(x.search, true);
            x.search = NULL;
        }
        if (!status)
            status = fit_moments(&x, block, err);
    }
    release_moments(&x);
    return status;
}
