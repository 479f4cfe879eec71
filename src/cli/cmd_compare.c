/* cmd_compare.c - `mallow compare`: a workload against several allocators and settings, side by
 * side.
 *
 * Runs are interleaved: every round runs each candidate once, in an order drawn for the round, so
 * that what disturbs the machine disturbs all alike, periodic or not. A ratio is the geometric mean
 * of the rounds' ratios, with Student's interval of the logarithms; a baseline from another day has
 * no rounds in common, so its interval is Welch's. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/measured.h"

struct compare_cli {
    struct replaying how;
    struct option_texts alloc;
    const char *save, *against, *fail_above;
    bool json;
    uint64_t repeat;
};

#define AT(field) offsetof(struct compare_cli, field)

static const struct option_spec specs[] = {
    {0, "alloc", OPTION_TEXTS, AT(alloc), "A,B,...",
     "the allocators, each NAME or PATH, or with settings of its own NAME+K=V+K=V (then alone in "
     "its "
     "--alloc); may be repeated (default: every one found)"},
    REPLAYING_OPTIONS(struct compare_cli, how),
    {0, "repeat", OPTION_COUNT, AT(repeat), "N", "rounds (default 7)", 2, 1000},
    {0, "save", OPTION_TEXT, AT(save), "NAME",
     "keep the result as the baseline NAME (a path when it has a slash)"},
    {0, "against", OPTION_TEXT, AT(against), "NAME",
     "compare each candidate with the same one in the baseline NAME, not with the first"},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "P%",
     "exit 1 when time or peak memory of a candidate is surely worse by more than P%"},
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    OPTION_END,
};

static const struct compare_cli defaults = {.repeat = 7};

enum { CANDIDATES_MAX = 64, METRICS = 5 };

/* What is compared; all of them are better when smaller. */
static const struct metric {
    const char *key, *title;
    double unit;
    bool gate; /* --fail-above looks at it */
} metrics[METRICS] = {
    {"cpu_ns", "CPU ms", 1e6, true},
    {"wall_ns", "wall ms", 1e6, false},
    {"allocator_cycles", "calls Mcycles", 1e6, false},
    {"peak_rss_bytes", "peak RSS MB", 1 << 20, true},
    {"fragmentation", "RSS/ideal", 1, false},
};

struct candidate {
    char *spec; /* owned: NAME+K=V with NULs for + */
    const char *label, *alloc;
    const char **settings; /* --set first, then its own */
    size_t setting_count;
    json_object **runs; /* a round each */
};

struct ratio {
    double mean, low, high; /* 1: equal; mean 0: not known */
    bool sure; /* the interval excludes 1, and by more than one percent in the middle */
};

static double value_of(json_object *run, unsigned metric)
{
    if (metric == 0)
        return measured_number(run, "user_ns", 0) + measured_number(run, "system_ns", 0);
    if (metric == 4) {
        double ideal = measured_number(run, "peak_ideal_rss_bytes", 0);
        return ideal > 0 ? measured_number(run, "workload_peak_rss_bytes", 0) / ideal : 0;
    }
    return measured_number(run, metrics[metric].key, 0);
}

/* Two-sided 99% points of Student's distribution. */
static double student(double freedom)
{
    static const double points[] = {63.66, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355,
                                    3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947};
    size_t n = sizeof points / sizeof *points;
    if (freedom < 1)
        return points[0];
    if (freedom <= (double)n)
        return points[(size_t)freedom - 1];
    return 2.576 + 5.3 / freedom;
}

static struct ratio finish(double mean, double error, double freedom)
{
    double reach = student(freedom) * error;
    struct ratio r = {exp(mean), exp(mean - reach), exp(mean + reach), false};
    r.sure = (r.low > 1 || r.high < 1) && fabs(r.mean - 1) > 0.01;
    return r;
}

static void moments(const double *x, size_t n, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = n > 1 ? squares / (double)(n - 1) : 0;
}

static struct ratio paired(const double *x, const double *first, size_t n)
{
    double d[1000], mean, variance;
    for (size_t i = 0; i < n; i++) {
        if (!(x[i] > 0 && first[i] > 0))
            return (struct ratio){0};
        d[i] = log(x[i] / first[i]);
    }
    moments(d, n, &mean, &variance);
    return finish(mean, sqrt(variance / (double)n), (double)(n - 1));
}

static struct ratio unpaired(const double *x, size_t n, const double *y, size_t m)
{
    double a[1000], b[1000], mean_a, mean_b, var_a, var_b;
    for (size_t i = 0; i < n; i++)
        a[i] = log(x[i] > 0 ? x[i] : 1);
    for (size_t i = 0; i < m; i++)
        b[i] = log(y[i] > 0 ? y[i] : 1);
    moments(a, n, &mean_a, &var_a);
    moments(b, m, &mean_b, &var_b);
    double u = var_a / (double)n, v = var_b / (double)m, sum = u + v;
    double freedom = sum > 0 ? sum * sum / (u * u / (double)(n - 1) + v * v / (double)(m - 1)) : 99;
    return finish(mean_a - mean_b, sqrt(sum), floor(freedom));
}

/* --- candidates --- */

static void release(struct candidate *c, size_t n, size_t rounds)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; c[i].runs && k < rounds; k++)
            json_object_put(c[i].runs[k]);
        free(c[i].runs);
        free(c[i].settings);
        free((char *)c[i].label);
        free(c[i].spec);
    }
}

/* Takes a copy of n bytes of `spec`. 0, or an exit status. */
static int add(const struct command *self, const struct compare_cli *o, struct candidate *all,
               size_t *count, const char *spec, size_t n)
{
    if (*count == CANDIDATES_MAX)
        return command_usage(self, "more than %d allocators", CANDIDATES_MAX);
    struct candidate *c = &all[*count];
    memset(c, 0, sizeof *c);
    c->spec = strndup(spec, n);
    c->label = strndup(spec, n);
    size_t most = o->how.settings.count + 1;
    for (size_t i = 0; i < n; i++)
        most += spec[i] == '+';
    c->settings = calloc(most, sizeof(char *));
    c->runs = calloc(o->repeat, sizeof(json_object *));
    ++*count;
    if (!c->spec || !c->label || !c->settings || !c->runs)
        return command_usage(self, "out of memory");
    for (size_t i = 0; i < o->how.settings.count; i++)
        c->settings[c->setting_count++] = o->how.settings.items[i];
    c->alloc = c->spec;
    for (char *p = c->spec; (p = strchr(p, '+'));) {
        *p++ = 0;
        c->settings[c->setting_count++] = p;
    }
    struct error err;
    char path[PATH_MAX];
    for (size_t i = 0; i < c->setting_count; i++)
        if (replay_check_setting(c->settings[i], &err))
            return command_usage(self, "%s", err.text);
    if (replay_find_allocator(c->alloc, path, &err))
        return command_fail(self, &err);
    return 0;
}

static int collect(const struct command *self, const struct compare_cli *o, struct candidate *all,
                   size_t *count)
{
    char path[PATH_MAX];
    struct error err;
    int status = 0;
    for (size_t i = 0; i < o->alloc.count && !status; i++) {
        const char *p = o->alloc.items[i];
        if (strchr(p, '+')) {
            status = add(self, o, all, count, p, strlen(p));
            continue;
        }
        while (!status) {
            size_t n = strcspn(p, ",");
            status = n ? add(self, o, all, count, p, n)
                       : command_usage(self, "an empty name in --alloc");
            if (!p[n])
                break;
            p += n + 1;
        }
    }
    for (size_t i = 0; !o->alloc.count && replay_allocators[i] && !status; i++)
        if (!replay_find_allocator(replay_allocators[i], path, &err))
            status = add(self, o, all, count, replay_allocators[i], strlen(replay_allocators[i]));
        else
            command_warn(self, "%s", err.text);
    return status;
}

/* --- baselines --- */

static int baseline_path(const struct command *self, const char *name, bool make, struct buffer *b)
{
    if (strchr(name, '/')) {
        buffer_append_text(b, name);
        return 0;
    }
    if (!*name || *name == '.')
        return command_usage(self, "'%s' is no name for a baseline", name);
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && *data)
        buffer_append_text(b, data);
    else if (home && *home)
        buffer_printf(b, "%s/.local/share", home);
    else
        return command_usage(self, "no HOME to keep baselines in; give --save a path");
    buffer_append_text(b, "/mallow/baselines");
    if (make) {
        char *text = b->data;
        for (char *p = text + 1; *p; p++)
            if (*p == '/') {
                *p = 0;
                mkdir(text, 0777);
                *p = '/';
            }
        mkdir(text, 0777);
    }
    buffer_printf(b, "/%s.json", name);
    return 0;
}

/* The runs of a candidate in a baseline. */
static size_t values_in(json_object *runs, const char *label, unsigned metric, double *values)
{
    size_t n = 0;
    for (size_t i = 0; runs && i < json_object_array_length(runs) && n < 1000; i++) {
        json_object *run = json_object_array_get_idx(runs, i), *name;
        if (json_object_object_get_ex(run, "candidate", &name) &&
            !strcmp(json_object_get_string(name), label))
            values[n++] = value_of(run, metric);
    }
    return n;
}

/* --- the result --- */

struct cell {
    double median, low, high; /* of the runs */
    struct ratio ratio;
    bool best, worst;
};

struct result {
    struct candidate *candidates;
    size_t count, rounds;
    json_object *baseline; /* its runs, or NULL */
    struct cell cells[CANDIDATES_MAX][METRICS];
};

static void evaluate(struct result *r)
{
    double first[1000], x[1000], sorted[1000], y[1000];
    memset(r->cells, 0, sizeof r->cells);
    for (unsigned m = 0; m < METRICS; m++) {
        for (size_t c = 0; c < r->count; c++) {
            struct cell *cell = &r->cells[c][m];
            for (size_t i = 0; i < r->rounds; i++) {
                x[i] = sorted[i] = value_of(r->candidates[c].runs[i], m);
                if (!c)
                    first[i] = x[i];
            }
            cell->median = measured_median(sorted, r->rounds);
            cell->low = sorted[0];
            cell->high = sorted[r->rounds - 1];
            size_t n = r->baseline ? values_in(r->baseline, r->candidates[c].label, m, y) : 0;
            if (n > 1)
                cell->ratio = unpaired(x, r->rounds, y, n);
            else if (!r->baseline && c)
                cell->ratio = paired(x, first, r->rounds);
        }
        /* best and worst, where they surely differ from each other */
        size_t best = 0, worst = 0;
        for (size_t c = 1; c < r->count; c++) {
            if (r->cells[c][m].median < r->cells[best][m].median)
                best = c;
            if (r->cells[c][m].median > r->cells[worst][m].median)
                worst = c;
        }
        for (size_t i = 0; i < r->rounds; i++) {
            x[i] = value_of(r->candidates[worst].runs[i], m);
            y[i] = value_of(r->candidates[best].runs[i], m);
        }
        if (best != worst && paired(x, y, r->rounds).sure)
            r->cells[best][m].best = r->cells[worst][m].worst = true;
    }
}

static void print_text(const struct result *r, bool colour)
{
    size_t width = 10;
    for (size_t c = 0; c < r->count; c++)
        if (strlen(r->candidates[c].label) > width)
            width = strlen(r->candidates[c].label);
    printf("%-*s", (int)width, "");
    for (unsigned m = 0; m < METRICS; m++)
        printf("  %22s", metrics[m].title);
    printf("\n");
    for (size_t c = 0; c < r->count; c++) {
        printf("%-*s", (int)width, r->candidates[c].label);
        for (unsigned m = 0; m < METRICS; m++) {
            const struct cell *k = &r->cells[c][m];
            char text[64];
            snprintf(text, sizeof text, "%.2f%s (%.2f..%.2f)", k->median / metrics[m].unit,
                     k->best    ? " best"
                     : k->worst ? " worst"
                                : "",
                     k->low / metrics[m].unit, k->high / metrics[m].unit);
            printf("  %s%22s%s",
                   !colour    ? ""
                   : k->best  ? "\033[32m"
                   : k->worst ? "\033[31m"
                              : "",
                   text, colour && (k->best || k->worst) ? "\033[0m" : "");
        }
        printf("\n");
        if (!r->cells[c][0].ratio.mean)
            continue;
        printf("%-*s", (int)width, r->baseline ? "  / baseline" : "  / first");
        for (unsigned m = 0; m < METRICS; m++) {
            const struct ratio *q = &r->cells[c][m].ratio;
            char text[64];
            snprintf(text, sizeof text, "%.3f [%.3f %.3f]%s", q->mean, q->low, q->high,
                     q->sure ? "" : " =");
            printf("  %22s", q->mean > 0 ? text : "");
        }
        printf("\n");
    }
    printf(
        "Medians of %zu interleaved runs (least..most). Ratios with their 99%% intervals; '=': no "
        "sure difference. RSS/ideal: growth of the resident size over the largest sum of live "
        "requested bytes.\n",
        r->rounds);
}

static json_object *number(double v) { return isfinite(v) ? json_object_new_double(v) : NULL; }

static json_object *to_json(const struct result *r)
{
    json_object *out = json_object_new_object(), *runs = json_object_new_array(),
                *candidates = json_object_new_array();
    json_object_object_add(out, "schema", json_object_new_int(1));
    json_object_object_add(out, "rounds", json_object_new_int64((int64_t)r->rounds));
    json_object_object_add(out, "ratio_to",
                           json_object_new_string(r->baseline ? "baseline" : "first"));
    for (size_t c = 0; c < r->count; c++) {
        json_object *k = json_object_new_object();
        json_object_object_add(k, "candidate", json_object_new_string(r->candidates[c].label));
        for (unsigned m = 0; m < METRICS; m++) {
            const struct cell *cell = &r->cells[c][m];
            json_object *v = json_object_new_object();
            json_object_object_add(v, "median", number(cell->median));
            json_object_object_add(v, "least", number(cell->low));
            json_object_object_add(v, "most", number(cell->high));
            if (cell->ratio.mean > 0) {
                json_object_object_add(v, "ratio", number(cell->ratio.mean));
                json_object_object_add(v, "ratio_low", number(cell->ratio.low));
                json_object_object_add(v, "ratio_high", number(cell->ratio.high));
                json_object_object_add(v, "differs", json_object_new_boolean(cell->ratio.sure));
            }
            json_object_object_add(v, "best", json_object_new_boolean(cell->best));
            json_object_object_add(v, "worst", json_object_new_boolean(cell->worst));
            json_object_object_add(k, metrics[m].key, v);
        }
        json_object_array_add(candidates, k);
    }
    json_object_object_add(out, "candidates", candidates);
    for (size_t i = 0; i < r->rounds; i++)
        for (size_t c = 0; c < r->count; c++) {
            json_object *run = r->candidates[c].runs[i];
            json_object_object_add(run, "candidate",
                                   json_object_new_string(r->candidates[c].label));
            json_object_array_add(runs, json_object_get(run));
        }
    json_object_object_add(out, "runs", runs);
    return out;
}

/* Whether a candidate is surely worse than it may be; said unless quiet. */
static bool gate(const struct command *self, const struct result *r, double percent, bool quiet)
{
    bool failed = false;
    for (size_t c = 0; c < r->count; c++)
        for (unsigned m = 0; m < METRICS; m++) {
            const struct ratio *q = &r->cells[c][m].ratio;
            if (!metrics[m].gate || !q->sure || q->mean <= 1 + percent / 100)
                continue;
            failed = true;
            if (quiet)
                continue;
            command_warn(self, "%s: %s is %.1f%% worse (between %.1f%% and %.1f%%), above %g%%",
                         r->candidates[c].label, metrics[m].title, 100 * (q->mean - 1),
                         100 * (q->low - 1), 100 * (q->high - 1), percent);
        }
    return failed;
}

static int run_rounds(const struct command *self, const struct compare_cli *o, struct result *r,
                      struct replay_request *request)
{
    struct error err = {0};
    struct progress bar = {0};
    progress_begin(&bar, "comparing");
    int status = 0;
    uint64_t random = (uint64_t)getpid() * 0x9e3779b97f4a7c15u | 1;
    size_t order[CANDIDATES_MAX];
    for (size_t i = 0; i < r->count; i++)
        order[i] = i;
    for (size_t i = 0; i < o->repeat && !status; i++) {
        for (size_t k = r->count; k > 1; k--) { /* shuffled, as Fisher and Yates do */
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            size_t with = (size_t)(random % k), kept = order[k - 1];
            order[k - 1] = order[with];
            order[with] = kept;
        }
        for (size_t k = 0; k < r->count && !status; k++) {
            struct candidate *c = &r->candidates[order[k]];
            progress_update(&bar, i * r->count + k, o->repeat * r->count);
            request->alloc = c->alloc;
            request->settings = c->settings;
            request->setting_count = c->setting_count;
            json_object_put(c->runs[i]); /* of rounds that are to be confirmed */
            c->runs[i] = replaying_run(request, &err);
            if (!c->runs[i]) {
                progress_end(&bar);
                error_prefix(&err, "%s", c->label);
                status = command_fail(self, &err);
            }
        }
    }
    progress_end(&bar);
    return status;
}

static int show(const struct command *self, const struct compare_cli *o, struct result *r,
                double percent)
{
    int status = 0;
    json_object *json = to_json(r);
    if (o->json)
        puts(json_object_to_json_string_ext(json, JSON_C_TO_STRING_PLAIN |
                                                      JSON_C_TO_STRING_NOSLASHESCAPE));
    else
        print_text(r, terminal_colour(1));
    if (o->save) {
        struct buffer path = {0};
        status = baseline_path(self, o->save, true, &path);
        if (!status && json_object_to_file_ext(buffer_text(&path), json, JSON_C_TO_STRING_PLAIN)) {
            struct error err;
            error_system(&err, "cannot write the baseline %s", buffer_text(&path));
            status = command_fail(self, &err);
        }
        buffer_release(&path);
    }
    json_object_put(json);
    if (!status)
        status = command_finish(self);
    if (!status && percent >= 0 && gate(self, r, percent, false))
        status = EXIT_FAILED;
    return status;
}

/* The runs of the baseline that --against names. 0 or an exit status. */
static int load_baseline(const struct command *self, const char *name, json_object **document,
                         json_object **runs)
{
    struct buffer path = {0};
    int status = baseline_path(self, name, false, &path);
    if (!status) {
        *document = json_object_from_file(buffer_text(&path));
        if (!*document || !json_object_object_get_ex(*document, "runs", runs) ||
            !json_object_is_type(*runs, json_type_array))
            status = command_usage(self, "there is no baseline '%s' (%s); --save makes one", name,
                                   buffer_text(&path));
    }
    buffer_release(&path);
    return status;
}

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    (void)operand_count;
    const struct compare_cli *o = options;
    double percent = -1;
    if (o->fail_above) {
        char *end;
        percent = strtod(o->fail_above, &end);
        if (end == o->fail_above || (strcmp(end, "%") != 0 && *end) ||
            !(percent >= 0 && percent < 1e6))
            return command_usage(self, "'%s' is no percentage, like 5%%", o->fail_above);
    }
    struct replay_request request = {.workload = operands[0]};
    int status = replaying_request(self, &o->how, &request);
    if (status)
        return status;
    struct candidate candidates[CANDIDATES_MAX];
    static struct result r;
    r = (struct result){.candidates = candidates, .rounds = (size_t)o->repeat};
    json_object *document = NULL;
    if (o->against)
        status = load_baseline(self, o->against, &document, &r.baseline);
    if (!status)
        status = collect(self, o, candidates, &r.count);
    if (!status)
        status = run_rounds(self, o, &r, &request);
    if (!status)
        evaluate(&r);
    /* What would fail must fail again in as many fresh rounds, which then count alone. */
    if (!status && percent >= 0 && gate(self, &r, percent, true)) {
        status = run_rounds(self, o, &r, &request);
        if (!status)
            evaluate(&r);
    }
    if (!status)
        status = show(self, o, &r, percent);
    release(candidates, r.count, r.rounds);
    json_object_put(document);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "run a workload against several allocators, side by side",
    .operands = "OUT.mwl",
    .description =
        "Runs the workload OUT.mwl against several allocators and settings, interleaved\n"
        "and repeated, and prints medians, spreads, and ratios to the first (or to a\n"
        "baseline) with their 99% intervals. A difference is only called one when the\n"
        "interval excludes none.\n",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct compare_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run,
};
