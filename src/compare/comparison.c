/* comparison.c - Runs a workload against all candidates in rounds, and computes the ratios of
 * each to the first or to the baseline. The order within a round is drawn and then reversed, so
 * that a drift of the machine cancels out. A candidate that fails leaves the comparison. */
#include "compare/comparison.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct metric comparison_metrics[COMPARISON_METRICS] = {
    [COMPARISON_CPU] = {"cpu_ns", "CPU time", true},
    [COMPARISON_WALL] = {"wall_ns", "wall time", false},
    [COMPARISON_CALLS] = {"allocator_cycles", "in calls", false},
    [COMPARISON_PEAK] = {"peak_rss_bytes", "peak RSS", true},
    [COMPARISON_AVERAGE] = {"average_rss_bytes", "average RSS", false},
    [COMPARISON_FRAGMENTATION] = {"fragmentation", "RSS/ideal", false},
};

double comparison_value(json_object *run, enum comparison_metric metric)
{
    double ideal;
    switch (metric) {
    case COMPARISON_CPU:
        return measured_number(run, "user_ns", 0) + measured_number(run, "system_ns", 0);
    case COMPARISON_AVERAGE: return measured_average_rss(run);
    case COMPARISON_FRAGMENTATION:
        ideal = measured_number(run, "peak_ideal_rss_bytes", 0);
        return ideal > 0 ? measured_number(run, "workload_peak_rss_bytes", 0) / ideal : 0;
    default: return measured_number(run, comparison_metrics[metric].key, 0);
    }
}

/* --- candidates --- */

int candidate_init(struct candidate *c, const char *spec, size_t n, const char *const *common,
                   size_t count, struct error *err)
{
    memset(c, 0, sizeof *c);
    c->spec = strndup(spec, n);
    c->label = strndup(spec, n);
    size_t most = count + 1;
    for (size_t i = 0; i < n; i++)
        most += spec[i] == '+';
    c->settings = calloc(most, sizeof(char *));
    if (!c->spec || !c->label || !c->settings)
        return error_memory(err);
    for (size_t i = 0; i < count; i++)
        c->settings[c->setting_count++] = common[i];
    c->alloc = c->spec;
    for (char *p = c->spec; (p = strchr(p, '+'));) {
        *p++ = 0;
        c->settings[c->setting_count++] = p;
    }
    char path[PATH_MAX];
    for (size_t i = 0; i < c->setting_count; i++)
        if (replay_check_setting(c->settings[i], err))
            return -1;
    return replay_find_allocator(c->alloc, path, err);
}

void candidate_release(struct candidate *c)
{
    free(c->settings);
    free(c->label);
    free(c->spec);
    memset(c, 0, sizeof *c);
}

/* --- rounds --- */

static void forget_runs(struct comparison *c)
{
    for (size_t i = 0; i < c->rounds * c->count; i++)
        json_object_put(c->runs[i]);
    c->rounds = 0;
}

static uint64_t draw_number(uint64_t *random)
{
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* The order of a round: drawn (as Fisher and Yates do), and every second one is the last reversed.
 */
static void arrange_round(struct comparison *c, size_t *order)
{
    bool reverse = c->rounds % 2;
    for (size_t k = c->count; k > 1; k--) {
        size_t with = reverse ? c->count - k : (size_t)(draw_number(&c->random) % k);
        if (reverse && with >= k - 1)
            return;
        size_t kept = order[k - 1];
        order[k - 1] = order[with];
        order[with] = kept;
    }
}

static struct replay_request request_of(const struct comparison *c, size_t candidate)
{
    const struct candidate *one = &c->candidates[candidate];
    struct replay_request request = c->request;
    request.alloc = one->alloc;
    request.settings = one->settings;
    request.setting_count = one->setting_count;
    request.pooled = one->pooled;
    request.left_out = one->left_out;
    return request;
}

/* A candidate's replay failed. -1: so does the comparison, with *err. */
static int leave_out_candidate(struct comparison *c, size_t candidate, struct error *err)
{
    size_t left = 0;
    for (size_t i = 0; i < c->count; i++)
        left += i != candidate && !c->failed[i];
    if (!c->tolerant || !left)
        return error_prefix(err, "%s", c->candidates[candidate].label);
    c->failed[candidate] = strdup(err->text);
    if (!c->failed[candidate])
        return error_memory(err);
    for (size_t i = candidate; i < c->rounds * c->count; i += c->count) {
        json_object_put(c->runs[i]);
        c->runs[i] = NULL;
    }
    return 0;
}

static int run_in_turn(struct comparison *c, const size_t *order, json_object **runs,
                       struct error *err)
{
    for (size_t k = 0; k < c->count; k++) {
        if (c->failed[order[k]])
            continue;
        const struct replay_request request = request_of(c, order[k]);
        if (!(runs[order[k]] = replaying_run(&request, err)) &&
            leave_out_candidate(c, order[k], err))
            return -1;
    }
    return 0;
}

/* A processor for a round: its number + 1, or 0 when none is known. */
static unsigned processor_of(size_t round)
{
    cpu_set_t may;
    if (sched_getaffinity(0, sizeof may, &may) || !CPU_COUNT(&may))
        return 0;
    size_t left = round % (size_t)CPU_COUNT(&may);
    for (unsigned i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &may) && !left--)
            return i + 1;
    return 0;
}

static int run_side_by_side(struct comparison *c, const size_t *order, json_object **runs,
                            struct error *err)
{
    static struct replay_started started[COMPARISON_CANDIDATES];
    static bool under_way[COMPARISON_CANDIDATES];
    int failed = 0;
    for (size_t k = 0; k < c->count; k++) {
        struct replay_request request = request_of(c, order[k]);
        request.processor = processor_of(c->rounds);
        under_way[k] = !failed && !c->failed[order[k]];
        if (!under_way[k] || !replay_start(&request, &started[k], err))
            continue;
        under_way[k] = false;
        failed = leave_out_candidate(c, order[k], err);
    }
    for (size_t k = 0; k < c->count; k++) {
        const struct replay_request request = request_of(c, order[k]);
        struct error own; /* the first error is the one to report */
        if (!under_way[k])
            continue;
        runs[order[k]] = replaying_finish(&request, &started[k], failed ? &own : err);
        if (!runs[order[k]] && !failed)
            failed = leave_out_candidate(c, order[k], err);
    }
    return failed;
}

json_object *comparison_some_run(const struct comparison *c)
{
    json_object *run = NULL;
    for (size_t i = 0; i < c->count && c->rounds && !run; i++)
        run = c->runs[i];
    return run;
}

/* True if the candidates can share a processor: of a workload of one thread, as fast as it goes,
 * and with memory enough for all of them. The first round, in turn, has been. */
static bool can_share(const struct comparison *c)
{
    double peaks = 0;
    size_t left = 0;
    for (size_t i = 0; i < c->count; i++) {
        peaks += measured_number(c->runs[i], "peak_rss_bytes", 0) +
                 measured_number(c->runs[i], "own_bytes", 0);
        left += !c->failed[i];
    }
    const double all = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    return !c->apart && !c->baseline && left > 1 && !(c->request.pace > 0) &&
           measured_number(comparison_some_run(c), "threads", 2) == 1 && peaks < all / 4;
}

static int run_round(struct comparison *c, size_t *order, size_t expected, struct error *err)
{
    size_t have = c->rounds * c->count;
    json_object **more = realloc(c->runs, (have + c->count) * sizeof *more);
    if (!more)
        return error_memory(err);
    c->runs = more;
    memset(c->runs + have, 0, c->count * sizeof *more);
    arrange_round(c, order);
    if (c->progress)
        c->progress(c->progress_arg, c->rounds, expected);
    int failed = (c->side_by_side ? run_side_by_side : run_in_turn)(c, order, c->runs + have, err);
    c->rounds++; /* they are released with the others */
    return failed;
}

/* A round in turn, which warms the system's caches and shows whether the candidates can share a
 * processor; if they can, it does not count. */
static int first_round(struct comparison *c, size_t *order, size_t expected, struct error *err)
{
    c->side_by_side = false;
    if (run_round(c, order, expected, err))
        return -1;
    c->side_by_side = can_share(c);
    if (c->side_by_side)
        forget_runs(c);
    return 0;
}

void comparison_values(const struct comparison *c, size_t candidate, enum comparison_metric metric,
                       double *values)
{
    for (size_t i = 0; i < c->rounds; i++)
        values[i] = comparison_value(c->runs[i * c->count + candidate], metric);
}

/* The runs of a candidate in the baseline. */
static size_t baseline_values(const struct comparison *c, const char *label,
                              enum comparison_metric metric, double *values)
{
    size_t n = 0;
    for (size_t i = 0;
         c->baseline && i < json_object_array_length(c->baseline) && n < COMPARISON_ROUNDS; i++) {
        json_object *run = json_object_array_get_idx(c->baseline, i), *name;
        if (json_object_object_get_ex(run, "candidate", &name) &&
            !strcmp(json_object_get_string(name), label))
            values[n++] = comparison_value(run, metric);
    }
    return n;
}

static void evaluate_cell(struct comparison *c, size_t candidate, enum comparison_metric m)
{
    static double x[COMPARISON_ROUNDS], y[COMPARISON_ROUNDS];
    struct cell *cell = &c->cells[candidate][m];
    comparison_values(c, candidate, m, x);
    cell->median = stats_median(x, c->rounds);
    cell->low = cell->high = x[0];
    for (size_t i = 1; i < c->rounds; i++) {
        cell->low = x[i] < cell->low ? x[i] : cell->low;
        cell->high = x[i] > cell->high ? x[i] : cell->high;
    }
    if (c->baseline) {
        size_t n = baseline_values(c, c->candidates[candidate].label, m, y);
        cell->ratio = stats_unpaired(x, c->rounds, y, n);
    } else if (candidate && !c->failed[0]) {
        comparison_values(c, 0, m, y);
        cell->ratio = stats_paired(x, y, c->rounds);
    }
    double reach = stats_reach(&cell->ratio);
    if (comparison_metrics[m].gate && cell->ratio.method != STATS_NONE && reach > c->reach) {
        c->reach = reach;
        c->reach_candidate = candidate;
        c->reach_metric = m;
    }
}

static void mark_best_and_worst(struct comparison *c, enum comparison_metric m)
{
    static double x[COMPARISON_ROUNDS], y[COMPARISON_ROUNDS];
    size_t best = c->count, worst = c->count;
    for (size_t i = 0; i < c->count; i++) {
        if (c->failed[i])
            continue;
        if (best == c->count || c->cells[i][m].median < c->cells[best][m].median)
            best = i;
        if (worst == c->count || c->cells[i][m].median > c->cells[worst][m].median)
            worst = i;
    }
    if (best == worst)
        return;
    comparison_values(c, worst, m, x);
    comparison_values(c, best, m, y);
    if (stats_paired(x, y, c->rounds).differs)
        c->cells[best][m].best = c->cells[worst][m].worst = true;
}

void comparison_evaluate(struct comparison *c)
{
    memset(c->cells, 0, sizeof c->cells);
    c->reach = 0;
    for (unsigned m = 0; m < COMPARISON_METRICS; m++) {
        for (size_t i = 0; i < c->count; i++)
            if (!c->failed[i])
                evaluate_cell(c, i, m);
        mark_best_and_worst(c, m);
    }
}

int comparison_run(struct comparison *c, const struct comparison_plan *plan, struct error *err)
{
    size_t order[COMPARISON_CANDIDATES];
    forget_runs(c);
    for (size_t i = 0; i < c->count; i++)
        order[i] = i;
    size_t until = plan->least;
    int failed = first_round(c, order, until, err);
    while (c->rounds < until && !failed) {
        failed = run_round(c, order, until, err);
        if (failed || c->rounds < until)
            continue;
        comparison_evaluate(c);
        if (c->reach > plan->precision && until < plan->most)
            until = until + 2 < plan->most ? until + 2 : plan->most;
    }
    return failed;
}

void comparison_release(struct comparison *c)
{
    forget_runs(c);
    free(c->runs);
    c->runs = NULL;
    for (size_t i = 0; i < COMPARISON_CANDIDATES; i++) {
        free(c->failed[i]);
        c->failed[i] = NULL;
    }
}
