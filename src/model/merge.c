/* merge.c - the figures over time with fewer groups and fewer bins. */
#include <stdlib.h>
#include <string.h>

#include "model/series_impl.h"

#define NO_ROW UINT32_MAX

struct merge {
    struct series *s;
    const uint32_t *to;
    uint32_t groups, bins, join;
    uint32_t *highest;           /* [bins] of those joined, the one with most live bytes */
    uint32_t *row_of;            /* [groups x lanes] number of the new row */
    uint32_t *into, *next;       /* [row_count] the new row; next old row of the same one */
    uint32_t *first, *last;      /* [row_count] by new row: its old rows */
    struct series_row *rows;     /* new */
    struct series_cell *cells;   /* new, at most as many */
    struct series_cell *sum;     /* [bins] the row that is being put together */
    bool *touched;               /* [bins] */
    struct series_shape *shapes; /* [groups] */
    size_t row_count, cell_count;
};

static void release_merge(struct merge *g)
{
    free(g->highest);
    free(g->row_of);
    free(g->into);
    free(g->next);
    free(g->first);
    free(g->last);
    free(g->rows);
    free(g->cells);
    free(g->sum);
    free(g->touched);
    free(g->shapes);
}

static int prepare_merge(struct merge *g)
{
    const struct series *s = g->s;
    const size_t rows = s->row_count + 1, places = (size_t)g->groups * s->plan->lanes + 1;
    g->highest = malloc(((size_t)g->bins + 1) * sizeof *g->highest);
    g->row_of = malloc(places * sizeof *g->row_of);
    g->into = malloc(rows * sizeof *g->into);
    g->next = malloc(rows * sizeof *g->next);
    g->first = malloc(rows * sizeof *g->first);
    g->last = malloc(rows * sizeof *g->last);
    g->rows = calloc(rows, sizeof *g->rows);
    g->cells = malloc((s->cell_count + 1) * sizeof *g->cells);
    g->sum = malloc(((size_t)g->bins + 1) * sizeof *g->sum);
    g->touched = malloc((size_t)g->bins + 1);
    g->shapes = calloc((size_t)g->groups + 1, sizeof *g->shapes);
    if (!g->highest || !g->row_of || !g->into || !g->next || !g->first || !g->last || !g->rows ||
        !g->cells || !g->sum || !g->touched || !g->shapes)
        return -1;
    memset(g->row_of, 0xff, places * sizeof *g->row_of);
    for (uint32_t b = 0; b < g->bins; b++) {
        g->highest[b] = b * g->join;
        for (uint32_t k = b * g->join; k < (b + 1) * g->join; k++)
            if (s->bins[k].max_bytes > s->bins[g->highest[b]].max_bytes)
                g->highest[b] = k;
    }
    return 0;
}

/* Which old rows become which new one. */
static void join_rows(struct merge *g)
{
    const struct series *s = g->s;
    for (uint32_t i = 0; i < s->row_count; i++) {
        const struct series_row *old = &s->rows[i];
        uint32_t *at = &g->row_of[(size_t)g->to[old->group] * s->plan->lanes + old->lane];
        if (*at == NO_ROW) {
            *at = (uint32_t)g->row_count++;
            g->rows[*at] = (struct series_row){.group = g->to[old->group], .lane = old->lane};
            g->first[*at] = i;
        } else {
            g->next[g->last[*at]] = i;
        }
        g->last[*at] = i;
        g->next[i] = NO_ROW;
        g->rows[*at].start_bytes += old->start_bytes;
        g->rows[*at].start_blocks += old->start_blocks;
    }
}

/* Adds an old row to the new one: in bins without a cell of its own, live bytes stay the same. */
static void add_merged_row(struct merge *g, const struct series_row *old)
{
    const struct series_cell *cell = &g->s->cells[old->first_cell], *end = cell + old->cells;
    uint64_t live = old->start_bytes, blocks = old->start_blocks;
    for (uint32_t b = 0; b < g->bins; b++) {
        struct series_cell *sum = &g->sum[b];
        double mean = 0;
        for (uint32_t k = b * g->join; k < (b + 1) * g->join; k++) {
            uint64_t peak = live, peak_blocks = blocks;
            if (cell < end && cell->bin == k) {
                sum->calls += cell->calls;
                sum->allocated_bytes += cell->allocated_bytes;
                sum->temporary += cell->temporary;
                peak = cell->peak_bytes;
                peak_blocks = cell->peak_blocks;
                mean += cell->mean_bytes;
                live = cell->live_bytes;
                blocks = cell->live_blocks;
                g->touched[b] = true;
                cell++;
            } else {
                mean += (double)live;
            }
            if (k == g->highest[b]) {
                sum->peak_bytes += peak;
                sum->peak_blocks += peak_blocks;
            }
        }
        sum->live_bytes += live;
        sum->live_blocks += blocks;
        sum->mean_bytes += mean / g->join;
    }
}

static void merge_series_rows(struct merge *g)
{
    for (uint32_t r = 0; r < g->row_count; r++) {
        struct series_row *row = &g->rows[r];
        memset(g->sum, 0, (size_t)g->bins * sizeof *g->sum);
        memset(g->touched, 0, (size_t)g->bins);
        for (uint32_t i = g->first[r]; i != NO_ROW; i = g->next[i])
            add_merged_row(g, &g->s->rows[i]);
        row->first_cell = g->cell_count;
        for (uint32_t b = 0; b < g->bins; b++)
            if (g->touched[b]) {
                g->cells[g->cell_count] = g->sum[b];
                g->cells[g->cell_count].row = r;
                g->cells[g->cell_count++].bin = b;
            }
        row->cells = g->cell_count - row->first_cell;
    }
}

static void merge_shapes(struct merge *g)
{
    const struct series *s = g->s;
    for (uint32_t i = 0; i < g->groups; i++)
        g->shapes[i].min_bytes = UINT64_MAX;
    for (uint32_t i = 0; i < s->groups; i++) {
        const struct series_shape *old = &s->shapes[i];
        struct series_shape *new = &g->shapes[g->to[i]];
        for (unsigned k = 0; k < sizeof old->sizes / sizeof *old->sizes; k++)
            new->sizes[k] += old->sizes[k];
        for (unsigned k = 0; k <= MODEL_LIFETIMES; k++)
            new->lifetimes[k] += old->lifetimes[k];
        if (old->min_bytes < new->min_bytes)
            new->min_bytes = old->min_bytes;
        if (old->max_bytes > new->max_bytes)
            new->max_bytes = old->max_bytes;
    }
}

/* Tables of so many entries a bin. */
static void join_counts(const struct merge *g, struct model_count *c, size_t width)
{
    for (uint32_t k = 0; k < g->bins * g->join; k++)
        for (size_t i = 0; i < width; i++) {
            const struct model_count from = c[k * width + i];
            struct model_count *to = &c[k / g->join * width + i];
            if (k % g->join == 0)
                *to = from;
            else
                *to = (struct model_count){to->count + from.count, to->bytes + from.bytes};
        }
}

static void join_bins(const struct merge *g)
{
    struct series_bin *bins = g->s->bins;
    for (uint32_t b = 0; b < g->bins; b++) {
        const struct series_bin high = bins[g->highest[b]];
        struct series_bin sum = bins[(b + 1) * g->join - 1];
        sum.max_bytes = high.max_bytes;
        sum.max_blocks = high.max_blocks;
        sum.max_time_ns = high.max_time_ns;
        for (uint32_t k = b * g->join; k + 1 < (b + 1) * g->join; k++) {
            sum.releases += bins[k].releases;
            sum.foreign_releases += bins[k].foreign_releases;
            if (bins[k].mmapped_min_bytes < sum.mmapped_min_bytes)
                sum.mmapped_min_bytes = bins[k].mmapped_min_bytes;
            if (bins[k].heap_max_bytes > sum.heap_max_bytes)
                sum.heap_max_bytes = bins[k].heap_max_bytes;
        }
        bins[b] = sum;
    }
}

int series_merge(struct series *s, const uint32_t *to, uint32_t groups, uint32_t join,
                 struct error *err)
{
    struct merge g = {
        .s = s, .to = to, .groups = groups, .join = join, .bins = s->bin_count / join};
    if (prepare_merge(&g)) {
        release_merge(&g);
        return error_memory_for(err, "the figures of %u call sites over time", groups);
    }
    join_rows(&g);
    merge_series_rows(&g);
    merge_shapes(&g);
    if (join > 1) {
        join_bins(&g);
        join_counts(&g, s->sizes, SERIES_SIZES);
        join_counts(&g, s->lifetimes, MODEL_LIFETIMES);
        join_counts(&g, s->lane_releases, s->plan->lanes);
    }
    free(s->rows);
    free(s->cells);
    free(s->shapes);
    s->rows = g.rows;
    s->cells = g.cells;
    s->shapes = g.shapes;
    g.rows = NULL;
    g.cells = NULL;
    g.shapes = NULL;
    s->row_count = g.row_count;
    s->cell_count = g.cell_count;
    s->groups = groups;
    s->bin_count = g.bins;
    release_merge(&g);
    return 0;
}
