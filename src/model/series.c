/* series.c - Counts what each call site did in each slice of time. A row holds the slice in
 * progress, and only rows that changed produce a cell when the slice ends. Steps arrive in
 * groups, so that their rows can be fetched from memory ahead of use. */
#include "model/series_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/fetch.h"

#define NO_ROW UINT32_MAX

unsigned series_size_index(uint64_t size_bytes)
{
    if (!size_bytes)
        return 0;
    unsigned bits = 64u - (unsigned)__builtin_clzll(size_bytes);
    unsigned below =
        (unsigned)(bits >= 3 ? size_bytes >> (bits - 3) & 3 : size_bytes << (3 - bits) & 3);
    return bits * 4 + below;
}

static bool grow_rows(struct series *s)
{
    size_t rows = s->row_room, now = rows, touched = rows;
    if (!ARRAY_ROOM(s->rows, s->row_room + 1, rows) || !ARRAY_ROOM(s->now, s->row_room + 1, now) ||
        !ARRAY_ROOM(s->touched, s->row_room + 1, touched))
        return false;
    s->row_room = rows;
    return true;
}

static inline size_t series_place(const struct series *s, uint32_t group, uint32_t thread)
{
    const struct series_plan *p = s->plan;
    return (size_t)group * p->lanes + (thread == NO_THREAD ? p->lanes - 1 : p->lane_of[thread]);
}

/* A row that is new. NO_ROW without memory. */
static __attribute__((noinline)) uint32_t new_row(struct series *s, uint32_t group, size_t place)
{
    if (s->failed || (s->row_count == s->row_room && !grow_rows(s))) {
        s->failed = true;
        return NO_ROW;
    }
    const uint32_t row = (uint32_t)s->row_count++;
    s->row_of[place] = row;
    s->rows[row] = (struct series_row){.group = group, .lane = (uint32_t)(place % s->plan->lanes)};
    s->now[row] = (struct row_now){0};
    return row;
}

/* The row of a group and a thread, ready to be changed; NULL when memory ran out. */
static inline struct row_now *find_series_row(struct series *s, uint32_t group, uint32_t thread)
{
    const size_t place = series_place(s, group, thread);
    uint32_t row = s->row_of[place];
    if (row == NO_ROW && (row = new_row(s, group, place)) == NO_ROW)
        return NULL;
    struct row_now *r = &s->now[row];
    if (s->started && !r->touched) {
        r->touched = true;
        r->before_bytes = r->live_bytes;
        r->calls = r->allocated_bytes = r->temporary = 0;
        r->weighted = 0;
        s->touched[s->touched_count++] = row;
    }
    if (r->version != s->version) {
        r->peak_bytes = r->live_bytes;
        r->peak_blocks = r->live_blocks;
        r->version = s->version;
    }
    return r;
}

static void open_bin(struct series *s)
{
    struct series_bin *b = &s->bins[s->bin];
    uint64_t start_ns = s->plan->start_ns + s->bin * s->plan->width_ns;
    s->bin_end_ns = start_ns + s->plan->width_ns;
    s->version++;
    b->max_bytes = s->live_bytes;
    b->max_blocks = s->live_blocks;
    b->max_time_ns = start_ns;
    b->mmapped_min_bytes = UINT64_MAX;
}

static bool room_for_cells(struct series *s, size_t more)
{
    size_t room = s->cell_room ? s->cell_room : 4096;
    if (s->cell_count + more <= s->cell_room)
        return true;
    while (room < s->cell_count + more)
        room *= 2;
    struct series_cell *cells = realloc(s->cells, room * sizeof *cells);
    if (!cells)
        return false;
    s->cells = cells;
    s->cell_room = room;
    return true;
}

static void close_bin(struct series *s)
{
    struct series_bin *b = &s->bins[s->bin];
    b->live_bytes = s->live_bytes;
    b->live_blocks = s->live_blocks;
    b->usable_bytes = s->usable_bytes;
    if (!room_for_cells(s, s->touched_count)) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < s->touched_count; i++) {
        uint32_t row = s->touched[i];
        struct row_now *r = &s->now[row];
        bool saved = r->version == s->version;
        s->cells[s->cell_count++] = (struct series_cell){
            .row = row,
            .bin = s->bin,
            .calls = r->calls,
            .allocated_bytes = r->allocated_bytes,
            .temporary = r->temporary,
            .live_bytes = r->live_bytes,
            .live_blocks = r->live_blocks,
            .peak_bytes = saved ? r->peak_bytes : r->live_bytes,
            .peak_blocks = saved ? r->peak_blocks : r->live_blocks,
            .mean_bytes = (double)r->before_bytes + r->weighted / (double)s->plan->width_ns};
        r->touched = false;
    }
    s->touched_count = 0;
}

/* Before the first bin: the rows start with the bytes live there. */
static void start_rows(struct series *s)
{
    s->started = true;
    for (size_t i = 0; i < s->row_count; i++) {
        s->rows[i].start_bytes = s->now[i].live_bytes;
        s->rows[i].start_blocks = s->now[i].live_blocks;
    }
    open_bin(s);
}

static void series_advance(struct series *s, uint64_t time_ns)
{
    if (time_ns < s->plan->start_ns)
        return;
    if (!s->started)
        start_rows(s);
    while (time_ns >= s->bin_end_ns && s->bin + 1 < s->plan->bins && !s->failed) {
        close_bin(s);
        s->bin++;
        open_bin(s);
    }
}

/* Bytes that came (or went) at time_ns, times the rest of the bin. */
static double weight(const struct series *s, uint64_t bytes, uint64_t time_ns)
{
    return time_ns < s->bin_end_ns ? (double)bytes * (double)(s->bin_end_ns - time_ns) : 0;
}

static inline void step_begun(struct series *s, const struct series_step *x)
{
    /* Inherited blocks are live before the first bin begins. */
    if (s->started || x->call || x->time_ns > s->plan->start_ns)
        series_advance(s, x->time_ns);
    struct row_now *r = find_series_row(s, x->group, x->maker);
    if (!r)
        return;
    r->live_bytes += x->size_bytes;
    r->live_blocks++;
    s->live_bytes += x->size_bytes;
    s->live_blocks++;
    s->usable_bytes += x->usable_bytes;
    if (!s->started)
        return;
    struct series_bin *b = &s->bins[s->bin];
    r->weighted += weight(s, x->size_bytes, x->time_ns);
    if (s->live_bytes > b->max_bytes) {
        b->max_bytes = s->live_bytes;
        b->max_blocks = s->live_blocks;
        b->max_time_ns = x->time_ns;
        s->version++;
    }
    if (!x->call)
        return;
    const unsigned index = series_size_index(x->size_bytes);
    struct model_count *count = &s->sizes[(size_t)s->bin * SERIES_SIZES + index];
    struct series_shape *shape = &s->shapes[x->group];
    r->calls++;
    r->allocated_bytes += x->size_bytes;
    count->count++;
    count->bytes += x->size_bytes;
    shape->sizes[index / 4]++;
    if (x->size_bytes < shape->min_bytes)
        shape->min_bytes = x->size_bytes;
    if (x->size_bytes > shape->max_bytes)
        shape->max_bytes = x->size_bytes;
    if (x->place & MODEL_MMAPPED) {
        if (x->size_bytes < b->mmapped_min_bytes)
            b->mmapped_min_bytes = x->size_bytes;
    } else if (x->size_bytes > b->heap_max_bytes) {
        b->heap_max_bytes = x->size_bytes;
    }
}

static inline void count_release(struct series *s, const struct series_step *x, struct row_now *r)
{
    const struct series_plan *p = s->plan;
    struct series_bin *b = &s->bins[s->bin];
    const unsigned age = model_lifetime_class(x->time_ns - x->born_ns);
    struct model_count *count = &s->lifetimes[(size_t)s->bin * MODEL_LIFETIMES + age];
    uint32_t maker = x->maker == NO_THREAD ? p->lanes - 1 : p->lane_of[x->maker];
    uint32_t freer = x->freer == NO_THREAD ? p->lanes - 1 : p->lane_of[x->freer];
    struct model_count *handover = &s->handovers[(size_t)maker * p->lanes + freer];
    struct model_count *lane = &s->lane_releases[(size_t)s->bin * p->lanes + freer];
    r->temporary += x->temporary;
    b->releases++;
    b->foreign_releases += x->maker != NO_THREAD && x->maker != x->freer;
    count->count++;
    count->bytes += x->size_bytes;
    handover->count++;
    handover->bytes += x->size_bytes;
    lane->count++;
    lane->bytes += x->size_bytes;
    s->shapes[x->group].lifetimes[age]++;
}

static inline void step_ended(struct series *s, const struct series_step *x)
{
    series_advance(s, x->time_ns);
    struct row_now *r = find_series_row(s, x->group, x->maker);
    if (!r)
        return;
    r->live_bytes -= x->size_bytes;
    r->live_blocks--;
    s->live_bytes -= x->size_bytes;
    s->live_blocks--;
    s->usable_bytes -= x->usable_bytes;
    if (!s->started)
        return;
    r->weighted -= weight(s, x->size_bytes, x->time_ns);
    if (x->call)
        count_release(s, x, r);
}

#define ROWS_AHEAD  8u  /* steps for which memory is asked: their rows and groups, */
#define PLACE_AHEAD 16u /* and where the numbers of their rows stand */

FETCHES series_look_ahead(const struct series *s, const struct series_step *list, size_t i,
                          size_t n)
{
    if (i + PLACE_AHEAD < n) {
        const struct series_step *x = &list[i + PLACE_AHEAD];
        __builtin_prefetch(&s->row_of[series_place(s, x->group, x->maker)]);
    }
    if (i + ROWS_AHEAD < n) {
        const struct series_step *x = &list[i + ROWS_AHEAD];
        const struct series_shape *shape = &s->shapes[x->group];
        const uint32_t row = s->row_of[series_place(s, x->group, x->maker)];
        if (row != NO_ROW) {
            __builtin_prefetch(&s->now[row], 1);
            __builtin_prefetch(&s->now[row].touched, 1);
        }
        __builtin_prefetch(x->ends ? &shape->lifetimes[4]
                                   : &shape->sizes[series_size_index(x->size_bytes) / 4],
                           1);
        __builtin_prefetch(&shape->min_bytes, 1);
    }
}

void series_steps(struct series *s, const struct series_step *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        series_look_ahead(s, list, i, n);
        if (list[i].ends)
            step_ended(s, &list[i]);
        else
            step_begun(s, &list[i]);
    }
}

static struct series_step step_of(const struct series *s, const struct model_life *life,
                                  uint64_t time_ns)
{
    return (struct series_step){.size_bytes = life->size_bytes,
                                .usable_bytes = life->usable_bytes,
                                .time_ns = time_ns,
                                .born_ns = life->born_ns,
                                .group = s->plan->group_of[life->stack],
                                .maker = life->thread,
                                .place = life->place};
}

static void series_begin_life(void *arg, const struct model_life *life, uint64_t time_ns,
                              bool carried)
{
    struct series *s = arg;
    struct series_step x = step_of(s, life, time_ns);
    x.call = !carried;
    step_begun(s, &x);
}

static void series_end_life(void *arg, const struct model_life *life, uint64_t time_ns,
                            uint32_t thread, bool call, bool temporary)
{
    struct series *s = arg;
    struct series_step x = step_of(s, life, time_ns);
    x.freer = thread;
    x.call = call;
    x.temporary = temporary;
    step_ended(s, &x);
}

/* Forgets the past, as the model does. */
static void series_forget(void *arg, uint64_t time_ns)
{
    struct series *s = arg;
    series_advance(s, time_ns);
    size_t bins = s->plan->bins;
    s->live_bytes = s->live_blocks = s->usable_bytes = 0;
    s->row_count = s->touched_count = s->cell_count = 0;
    memset(s->row_of, 0xff, (size_t)s->plan->groups * s->plan->lanes * sizeof *s->row_of);
    memset(s->bins, 0, bins * sizeof *s->bins);
    for (size_t i = 0; i < bins; i++)
        s->bins[i].mmapped_min_bytes = UINT64_MAX;
    memset(s->sizes, 0, bins * SERIES_SIZES * sizeof *s->sizes);
    memset(s->lifetimes, 0, bins * MODEL_LIFETIMES * sizeof *s->lifetimes);
    memset(s->lane_releases, 0, bins * s->plan->lanes * sizeof *s->lane_releases);
    memset(s->handovers, 0, (size_t)s->plan->lanes * s->plan->lanes * sizeof *s->handovers);
    for (uint32_t i = 0; i < s->plan->groups; i++)
        s->shapes[i] = (struct series_shape){.min_bytes = UINT64_MAX};
    s->version++;
}

struct series *series_new(const struct series_plan *plan, struct error *err)
{
    struct series *s = calloc(1, sizeof *s);
    if (!s)
        goto no_memory;
    s->plan = plan;
    s->groups = plan->groups;
    s->bin_count = plan->bins;
    s->observer = (struct model_observer){s, series_begin_life, series_end_life, series_forget};
    s->row_of = malloc(((size_t)plan->groups * plan->lanes + 1) * sizeof *s->row_of);
    s->bins = calloc(plan->bins + 1, sizeof *s->bins);
    s->shapes = calloc((size_t)plan->groups + 1, sizeof *s->shapes);
    s->sizes = calloc((size_t)plan->bins * SERIES_SIZES, sizeof *s->sizes);
    s->lifetimes = calloc((size_t)plan->bins * MODEL_LIFETIMES, sizeof *s->lifetimes);
    s->lane_releases = calloc((size_t)plan->bins * plan->lanes, sizeof *s->lane_releases);
    s->handovers = calloc((size_t)plan->lanes * plan->lanes, sizeof *s->handovers);
    if (!s->row_of || !s->bins || !s->shapes || !s->sizes || !s->lifetimes || !s->lane_releases ||
        !s->handovers)
        goto no_memory;
    memset(s->row_of, 0xff, (size_t)plan->groups * plan->lanes * sizeof *s->row_of);
    for (uint32_t i = 0; i < plan->groups; i++)
        s->shapes[i].min_bytes = UINT64_MAX;
    return s;
no_memory:
    series_free(s);
    error_memory_for(err, "the figures of %u call sites over time", plan->groups);
    return NULL;
}

void series_free(struct series *s)
{
    if (!s)
        return;
    free(s->row_of);
    free(s->rows);
    free(s->now);
    free(s->touched);
    free(s->cells);
    free(s->bins);
    free(s->shapes);
    free(s->sizes);
    free(s->lifetimes);
    free(s->lane_releases);
    free(s->handovers);
    free(s);
}

const struct model_observer *series_observer(struct series *s) { return &s->observer; }

static int sort_cells(struct series *s)
{
    struct series_cell *sorted = malloc((s->cell_count + 1) * sizeof *sorted);
    if (!sorted)
        return -1;
    for (size_t i = 0; i < s->cell_count; i++)
        s->rows[s->cells[i].row].cells++;
    size_t next = 0;
    for (size_t i = 0; i < s->row_count; i++) {
        s->rows[i].first_cell = next;
        next += s->rows[i].cells;
        s->rows[i].cells = 0;
    }
    for (size_t i = 0; i < s->cell_count; i++) {
        struct series_row *row = &s->rows[s->cells[i].row];
        sorted[row->first_cell + row->cells++] = s->cells[i];
    }
    free(s->cells);
    s->cells = sorted;
    return 0;
}

int series_finish(struct series *s, struct error *err)
{
    if (!s->started)
        start_rows(s);
    series_advance(s, UINT64_MAX);
    if (!s->failed)
        close_bin(s);
    if (s->failed || sort_cells(s))
        return error_memory_for(err, "the figures of %u call sites over time", s->plan->groups);
    for (size_t i = 0; i < s->row_count; i++)
        s->shapes[s->rows[i].group].lifetimes[MODEL_LIFETIMES] += s->now[i].live_blocks;
    return 0;
}

const struct series_row *series_rows(const struct series *s, size_t *count)
{
    *count = s->row_count;
    return s->rows;
}

const struct series_cell *series_cells(const struct series *s, size_t *count)
{
    *count = s->cell_count;
    return s->cells;
}

const struct series_bin *series_bins(const struct series *s) { return s->bins; }
const struct series_shape *series_shapes(const struct series *s) { return s->shapes; }
const struct model_count *series_sizes(const struct series *s) { return s->sizes; }
const struct model_count *series_lifetimes(const struct series *s) { return s->lifetimes; }
const struct model_count *series_handovers(const struct series *s) { return s->handovers; }
const struct model_count *series_lane_releases(const struct series *s) { return s->lane_releases; }
