/* cmd_tune.c - `mallow tune`: searches an allocator's settings for a workload.
 *
 * The search (tune/search.h) asks for points; a point is one run of the workload. So that a busy
 * machine does not look like a bad setting, times count relative to runs of the default that are
 * made in between. What the search then holds for best has been chosen among many for being lucky,
 * too: so it is only believed after fresh rounds against the default (comparison.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/text.h"
#include "cli/comparison.h"
#include "cli/document.h"
#include "tune/spaces.h"
#include "workload/pack.h"

struct tune_cli {
    struct replaying how;
    const char *alloc, *html;
    int objective, time;
    uint64_t runs, budget_ns, seed, confirm;
    bool json;
};

#define AT(field) offsetof(struct tune_cli, field)

static const struct option_spec specs[] = {
    {0, "alloc", OPTION_TEXT, AT(alloc), "NAME|PATH",
     "the allocator whose settings are searched: glibc, jemalloc, tcmalloc, mimalloc, or a "
     "library's path (default glibc)",
     .completion = VALUE_FILE},
    {0, "objective", OPTION_CHOICE, AT(objective), "all|peak|average|time",
     "what to make small: all, or mainly one of peak RSS, average RSS and time (default all)"},
    {0, "time", OPTION_CHOICE, AT(time), "cpu|wall",
     "which time: the CPU time of all threads, or the wall's (default cpu)"},
    {0, "runs", OPTION_COUNT, AT(runs), "N",
     "how many runs in all, confirmation included (default 120, or as many as --budget allows)", 12,
     100000},
    {0, "budget", OPTION_DURATION, AT(budget_ns), "DURATION", "how long in all", 1000000000,
     100ull * 3600 * 1000000000},
    {0, "confirm", OPTION_COUNT, AT(confirm), "N",
     "fresh rounds against the default for those that look best (default 8)", 3, COMPARISON_ROUNDS},
    {0, "seed", OPTION_COUNT, AT(seed), "N",
     "what the search draws from; the same figures and seed give the same search (default 1)", 0,
     UINT64_MAX},
    REPLAYING_OPTIONS(struct tune_cli, how, "pages"),
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "write a page for a browser to OUT, too: one file that needs nothing else",
     .completion = VALUE_FILE},
    OPTION_END,
};

static const struct tune_cli defaults = {.alloc = "glibc", .how.touch = 1, .confirm = 8, .seed = 1};

enum { OBJECTIVES = 3, DEFAULT_EVERY = 6, DEFAULTS = 512, WINNERS = OBJECTIVES + 1 };

/* Of point values: what is closer counts as equal on the front, and of what is nearly the best the
 * simplest wins. */
#define CLOSE  0.01
#define NEARLY 0.03

static const char *const winner_names[WINNERS] = {"smallest peak RSS", "smallest average RSS",
                                                  "least time", "best of all three"};
static const char *const winner_keys[WINNERS] = {"peak", "average", "time", "all"};

struct winner {
    const struct tune_point *point;
    unsigned claim;           /* index of winner_names */
    size_t candidate;         /* in the confirmation */
    struct stats_ratio ratio; /* of what is claimed */
};

struct tuning {
    const struct command *self;
    const struct tune_cli *o;
    const char *workload;
    char library[PATH_MAX];
    struct replay_request request;
    struct tune_settings settings;
    struct tune_search *search;
    enum comparison_metric metric[OBJECTIVES];
    double usual[OBJECTIVES][DEFAULTS]; /* runs of the default: ns, bytes */
    size_t usuals, runs, failures;
    uint64_t start_ns;
    struct progress bar;
    struct winner winners[WINNERS];
    size_t winner_count;
    struct candidate candidates[WINNERS + 1];
    size_t candidate_count;
    struct comparison confirmation;
    struct comparison_plan plan;
};

/* --- one run --- */

static void collect_setting(void *arg, const char *setting)
{
    struct buffer *b = arg;
    buffer_append(b, setting, strlen(setting) + 1);
}

/* value[OBJECTIVES] of one run at a point; -1 with *err. */
static int run_point(struct tuning *t, const uint8_t *level, double *value, struct error *err)
{
    struct buffer texts = {0};
    const char *settings[TUNE_DIMENSIONS];
    size_t n = 0;
    tune_settings_say(&t->settings, level, collect_setting, &texts);
    for (size_t at = 0; at < texts.size_bytes; at += strlen(texts.data + at) + 1)
        settings[n++] = texts.data + at;
    struct option_texts fixed = t->o->how.settings;
    const char **all = calloc(n + fixed.count + 1, sizeof *all);
    json_object *run = NULL;
    if (!all || buffer_failed(&texts)) {
        error_set(err, ERROR_MEMORY, "out of memory");
    } else {
        for (size_t i = 0; i < fixed.count; i++)
            all[i] = fixed.items[i];
        memcpy(all + fixed.count, settings, n * sizeof *settings);
        t->request.settings = all;
        t->request.setting_count = n + fixed.count;
        run = replaying_run(&t->request, err);
        t->runs++;
    }
    for (unsigned o = 0; run && o < OBJECTIVES; o++)
        value[o] = comparison_value(run, t->metric[o]);
    free(all);
    buffer_release(&texts);
    int failed = run ? 0 : -1;
    for (unsigned o = 0; run && o < OBJECTIVES; o++)
        if (!(value[o] > 0))
            failed = error_set(err, ERROR_FORMAT, "a run without %s",
                               comparison_metrics[t->metric[o]].title);
    json_object_put(run);
    return failed;
}

static int run_default(struct tuning *t, struct error *err)
{
    double value[OBJECTIVES];
    if (run_point(t, tune_search_usual(t->search)->level, value, err))
        return -1;
    if (t->usuals == DEFAULTS) { /* drop the older half */
        for (unsigned o = 0; o < OBJECTIVES; o++)
            memmove(t->usual[o], t->usual[o] + DEFAULTS / 2, DEFAULTS / 2 * sizeof(double));
        t->usuals /= 2;
    }
    for (unsigned o = 0; o < OBJECTIVES; o++)
        t->usual[o][t->usuals] = value[o];
    t->usuals++;
    return 0;
}

/* What the default costs: memory of all its runs, time of the last three, as the machine is now. */
static double default_now(const struct tuning *t, unsigned objective)
{
    size_t n = objective == OBJECTIVES - 1 && t->usuals > 3 ? 3 : t->usuals;
    return stats_median(t->usual[objective] + t->usuals - n, n);
}

/* --- the search --- */

struct budget {
    uint64_t runs, ns; /* 0: not limited by it */
    double searching;  /* the share that is for the search */
    size_t winners;    /* how many can be confirmed */
};

static void divide(struct tuning *t, struct budget *b)
{
    const struct tune_cli *o = t->o;
    b->ns = o->budget_ns;
    b->runs = o->runs ? o->runs : o->budget_ns ? 0 : 120;
    b->winners = WINNERS;
    t->plan = (struct comparison_plan){.least = (size_t)o->confirm, .most = (size_t)o->confirm};
    if (b->runs) { /* at most half for the confirmation: first fewer winners, then fewer rounds */
        while (b->winners > 1 && t->plan.least * (1 + b->winners) > b->runs / 2)
            b->winners--;
        while (t->plan.least > 3 && t->plan.least * (1 + b->winners) > b->runs / 2)
            t->plan.least--;
        t->plan.most = t->plan.least;
        b->searching = 1 - (double)(t->plan.least * (1 + b->winners)) / (double)b->runs;
    } else {
        b->searching = 0.6;
    }
}

/* The share of the search's budget that is used up. */
static double spent(const struct tuning *t, const struct budget *b)
{
    double runs = b->runs ? (double)t->runs / ((double)b->runs * b->searching) : 0;
    double time =
        b->ns ? (double)(clock_monotonic_ns() - t->start_ns) / ((double)b->ns * b->searching) : 0;
    return fmax(runs, time);
}

static int search(struct tuning *t, const struct budget *b, struct error *err)
{
    uint8_t level[TUNE_DIMENSIONS];
    double value[OBJECTIVES], share;
    size_t since = 0;
    while ((share = spent(t, b)) < 1) {
        progress_update(&t->bar, (uint64_t)(share * 1000), 1000);
        if (++since > DEFAULT_EVERY) {
            since = 0;
            if (run_default(t, err))
                return -1;
            continue;
        }
        if (!tune_search_ask(t->search, share, level))
            return 0;
        if (run_point(t, level, value, err)) {
            if (err->kind == ERROR_MEMORY)
                return -1;
            t->failures++; /* a setting under which the workload does not run is no good */
            tune_search_tell(t->search, level, NULL);
            continue;
        }
        for (unsigned o = 0; o < OBJECTIVES; o++)
            value[o] /= default_now(t, o);
        tune_search_tell(t->search, level, value);
    }
    return 0;
}

/* --- the confirmation --- */

/* The best points, each once, under the first claim that it stands for. */
static void choose_winners(struct tuning *t, size_t most)
{
    static const unsigned order[WINNERS] = {OBJECTIVES, 0, 2, 1};
    const struct tune_space *space = &t->settings.space;
    unsigned only = 0, wanted = 0;
    for (unsigned o = 0; o < OBJECTIVES; o++)
        if (space->weight[o] >= 1) {
            only = o;
            wanted++;
        }
    for (unsigned i = 0; i < WINNERS && t->winner_count < most; i++) {
        unsigned claim = wanted == 1 ? (i ? (i - 1 < only ? i - 1 : i) : only) : order[i];
        if (claim >= WINNERS || (wanted == 1 && claim == OBJECTIVES))
            continue;
        const struct tune_point *p =
            tune_search_best(t->search, claim < OBJECTIVES ? claim : TUNE_OBJECTIVES, NEARLY);
        bool known = p == tune_search_usual(t->search);
        for (size_t k = 0; k < t->winner_count; k++)
            known |= t->winners[k].point == p;
        if (!known)
            t->winners[t->winner_count++] = (struct winner){.point = p, .claim = claim};
    }
}

static int add_candidate(struct tuning *t, const struct tune_point *p, struct error *err)
{
    struct buffer spec = {0}, texts = {0};
    buffer_append_text(&spec, t->o->alloc);
    tune_settings_say(&t->settings, p->level, collect_setting, &texts);
    for (size_t at = 0; at < texts.size_bytes; at += strlen(texts.data + at) + 1)
        buffer_printf(&spec, "+%s", texts.data + at);
    int failed = candidate_init(&t->candidates[t->candidate_count++], buffer_text(&spec),
                                spec.size_bytes, &t->o->how.settings, err);
    buffer_release(&spec);
    buffer_release(&texts);
    return failed;
}

/* The ratio of what a winner claims to be better in. */
static struct stats_ratio claimed(const struct tuning *t, const struct winner *w)
{
    const struct comparison *c = &t->confirmation;
    if (w->claim < OBJECTIVES)
        return c->cells[w->candidate][t->metric[w->claim]].ratio;
    static double x[COMPARISON_ROUNDS], y[COMPARISON_ROUNDS], v[COMPARISON_ROUNDS];
    for (size_t i = 0; i < c->rounds; i++)
        x[i] = y[i] = 1;
    for (unsigned o = 0; o < OBJECTIVES; o++) {
        comparison_values(c, w->candidate, t->metric[o], v);
        for (size_t i = 0; i < c->rounds; i++)
            x[i] *= cbrt(v[i]);
        comparison_values(c, 0, t->metric[o], v);
        for (size_t i = 0; i < c->rounds; i++)
            y[i] *= cbrt(v[i]);
    }
    return stats_paired(x, y, c->rounds);
}

static bool confirmed(const struct winner *w) { return w->ratio.differs && w->ratio.ratio < 1; }

static int confirm(struct tuning *t, struct error *err)
{
    if (!t->winner_count)
        return 0;
    int failed = add_candidate(t, tune_search_usual(t->search), err);
    for (size_t i = 0; i < t->winner_count && !failed; i++) {
        t->winners[i].candidate = t->candidate_count;
        failed = add_candidate(t, t->winners[i].point, err);
    }
    t->confirmation.request = t->request;
    t->confirmation.candidates = t->candidates;
    t->confirmation.count = t->candidate_count;
    t->confirmation.random = (t->o->seed ^ 0x9e3779b97f4a7c15u) | 1;
    if (!failed)
        failed = comparison_run(&t->confirmation, &t->plan, err);
    for (size_t i = 0; i < t->winner_count && !failed; i++)
        t->winners[i].ratio = claimed(t, &t->winners[i]);
    return failed;
}

/* --- what is said --- */

static void append_line(const struct tuning *t, const struct tune_point *p, struct buffer *line)
{
    tune_settings_line(&t->settings, p->level, t->o->how.settings.items, t->o->how.settings.count,
                       line);
}

static void print_point(const struct tuning *t, const struct tune_point *p)
{
    struct buffer line = {0};
    char value[COMPARISON_TEXT_BYTES];
    for (unsigned o = 0; o < OBJECTIVES; o++) {
        double usual = stats_median(t->usual[o], t->usuals);
        comparison_value_text(value, t->metric[o], usual * p->value[o]);
        text_printf(stdout, "  %9s", value);
        if (p == tune_search_usual(t->search))
            text_printf(stdout, "         ");
        else
            text_printf(stdout, "  %+6.1f%%", 100 * (p->value[o] - 1));
    }
    append_line(t, p, &line);
    if (p == tune_search_usual(t->search))
        text_printf(stdout, "  the default%s%s", line.size_bytes ? ": " : "", buffer_text(&line));
    else
        text_printf(stdout, "  %s", buffer_text(&line));
    text_printf(stdout, "\n");
    buffer_release(&line);
}

static size_t beaten_by(const struct tune_point *p, const struct tune_point *const *front, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        bool better = true;
        for (unsigned o = 0; o < OBJECTIVES; o++)
            better &= front[i]->value[o] <= p->value[o];
        count += better && front[i] != p;
    }
    return count;
}

static void print_front(struct tuning *t)
{
    const struct tune_point **front, *usual = tune_search_usual(t->search);
    size_t n = tune_search_front(t->search, CLOSE, &front);
    bool there = false;
    text_printf(
        stdout,
        "The Pareto front: what no other setting beats in all three, against the default's.\n");
    for (unsigned o = 0; o < OBJECTIVES; o++)
        text_printf(stdout, "  %9s         ", comparison_metrics[t->metric[o]].title);
    text_printf(stdout, "\n");
    for (size_t i = 0; i < n; i++) {
        print_point(t, front[i]);
        there |= front[i] == usual;
    }
    if (!there) {
        print_point(t, usual);
        const size_t beaten = beaten_by(usual, front, n);
        if (beaten)
            text_printf(
                stdout,
                "The default is not on the front: %zu of these %zu are as good or better in all "
                "three.\n",
                beaten, n);
        else
            text_printf(
                stdout,
                "The default is not on the front: one of these is better in something, and as "
                "good within one percent in the rest.\n");
    } else {
        text_printf(stdout, "The default is on the front%s.\n", n == 1 ? ", alone" : "");
    }
}

static void print_winners(const struct tuning *t)
{
    if (!t->winner_count) {
        text_printf(stdout,
                    "Nothing to confirm: no setting was found that is better than the default.\n");
        return;
    }
    text_printf(stdout,
                "\nThe best, in %zu fresh rounds against the default (99%% intervals; =: no sure "
                "difference):\n",
                t->confirmation.rounds);
    for (size_t i = 0; i < t->winner_count; i++) {
        const struct winner *w = &t->winners[i];
        struct buffer line = {0};
        char text[COMPARISON_TEXT_BYTES];
        text_printf(stdout, "%s: %s", winner_names[w->claim],
                    confirmed(w) ? "confirmed" : "NOT confirmed");
        for (unsigned o = 0; o < OBJECTIVES; o++)
            text_printf(stdout, "%s%s %s", o ? ", " : "; ", comparison_metrics[t->metric[o]].title,
                        comparison_ratio_text(
                            text, &t->confirmation.cells[w->candidate][t->metric[o]].ratio));
        append_line(t, w->point, &line);
        text_printf(stdout, "\n    %s PROGRAM\n", buffer_text(&line));
        buffer_release(&line);
    }
}

static void print_text(struct tuning *t)
{
    char took[HUMAN_TEXT_BYTES];
    text_printf(stdout, "%s on %s: %zu runs of %zu settings in %s, seed %llu", t->o->alloc,
                t->workload, t->runs, tune_search_points(t->search),
                human_duration(took, clock_monotonic_ns() - t->start_ns),
                (unsigned long long)t->o->seed);
    if (t->failures)
        text_printf(stdout, "; %zu runs failed", t->failures);
    text_printf(stdout, "\n");
    print_front(t);
    print_winners(t);
}

static void add_setting_json(void *arg, const char *setting)
{
    const char *equals = strchr(setting, '=');
    struct buffer key = {0};
    buffer_append(&key, setting, (size_t)(equals - setting));
    json_object_object_add(arg, buffer_text(&key), json_object_new_string(equals + 1));
    buffer_release(&key);
}

static json_object *point_json(const struct tuning *t, const struct tune_point *p)
{
    json_object *out = json_object_new_object(), *settings = json_object_new_object();
    struct buffer line = {0};
    for (size_t i = 0; i < t->o->how.settings.count; i++)
        add_setting_json(settings, t->o->how.settings.items[i]);
    tune_settings_say(&t->settings, p->level, add_setting_json, settings);
    append_line(t, p, &line);
    json_object_object_add(out, "settings", settings);
    json_object_object_add(out, "environment", json_object_new_string(buffer_text(&line)));
    json_object_object_add(out, "runs",
                           json_object_new_int64(p == tune_search_usual(t->search)
                                                     ? (int64_t)t->usuals
                                                     : (int64_t)p->runs));
    for (unsigned o = 0; o < OBJECTIVES; o++) {
        json_object *v = json_object_new_object();
        json_object_object_add(
            v, "median",
            json_object_new_double(stats_median(t->usual[o], t->usuals) * p->value[o]));
        json_object_object_add(v, "to_default", json_object_new_double(p->value[o]));
        json_object_object_add(out, comparison_metrics[t->metric[o]].key, v);
    }
    buffer_release(&line);
    return out;
}

static json_object *winner_json(const struct tuning *t, const struct winner *w)
{
    json_object *out = point_json(t, w->point), *fresh = json_object_new_object();
    json_object_object_add(out, "objective", json_object_new_string(winner_keys[w->claim]));
    json_object_object_add(out, "candidate",
                           json_object_new_string(t->candidates[w->candidate].label));
    json_object_object_add(out, "confirmed", json_object_new_boolean(confirmed(w)));
    comparison_ratio_json(out, &w->ratio);
    for (unsigned o = 0; o < OBJECTIVES; o++) {
        json_object *v = json_object_new_object();
        const struct cell *cell = &t->confirmation.cells[w->candidate][t->metric[o]];
        json_object_object_add(v, "median", json_object_new_double(cell->median));
        comparison_ratio_json(v, &cell->ratio);
        json_object_object_add(fresh, comparison_metrics[t->metric[o]].key, v);
    }
    json_object_object_add(out, "fresh", fresh);
    return out;
}

/* The whole tuning; the caller owns it. */
static json_object *document(struct tuning *t)
{
    json_object *out = json_object_new_object(), *front = json_object_new_array(),
                *winners = json_object_new_array(), *searched = json_object_new_array();
    const struct tune_point **points, *usual = tune_search_usual(t->search);
    size_t n = tune_search_front(t->search, CLOSE, &points);
    bool there = false;
    for (size_t i = 0; i < n; i++) {
        json_object_array_add(front, point_json(t, points[i]));
        there |= points[i] == usual;
    }
    for (size_t i = 0; i < t->winner_count; i++)
        json_object_array_add(winners, winner_json(t, &t->winners[i]));
    for (size_t i = 0; i < tune_search_points(t->search); i++)
        if (!tune_search_point(t->search, i)->failed)
            json_object_array_add(searched, point_json(t, tune_search_point(t->search, i)));
    json_object_object_add(out, "schema", json_object_new_int(1));
    json_object_object_add(out, "workload", json_object_new_string(t->workload));
    json_object_object_add(out, "allocator", json_object_new_string(t->o->alloc));
    json_object_object_add(out, "seed", json_object_new_int64((int64_t)t->o->seed));
    json_object_object_add(out, "runs", json_object_new_int64((int64_t)t->runs));
    json_object_object_add(out, "failed_runs", json_object_new_int64((int64_t)t->failures));
    json_object_object_add(out, "points",
                           json_object_new_int64((int64_t)tune_search_points(t->search)));
    json_object_object_add(out, "confirmation_rounds",
                           json_object_new_int64((int64_t)t->confirmation.rounds));
    json_object_object_add(out, "default", point_json(t, usual));
    json_object_object_add(out, "default_on_front", json_object_new_boolean(there));
    json_object_object_add(out, "front", front);
    json_object_object_add(out, "winners", winners);
    json_object_object_add(out, "searched", searched);
    if (t->winner_count)
        json_object_object_add(out, "confirmation", comparison_json(&t->confirmation, &t->plan));
    return out;
}

/* What was asked for; 0 or an exit status. */
static int tell(struct tuning *t)
{
    const struct tune_cli *o = t->o;
    struct error err;
    json_object *json = o->json || o->html ? document(t) : NULL;
    int status = 0;
    if (o->json)
        document_print(json);
    else
        print_text(t);
    if (o->html && document_page(o->html, "settings of an allocator", "tune", json, &err))
        status = command_fail(t->self, &err);
    json_object_put(json);
    return status ? status : command_finish(t->self);
}

/* --- the command --- */

static int prepare(struct tuning *t, struct error *err)
{
    const struct tune_cli *o = t->o;
    t->metric[0] = COMPARISON_PEAK;
    t->metric[1] = COMPARISON_AVERAGE;
    t->metric[2] = o->time ? COMPARISON_WALL : COMPARISON_CPU;
    if (strchr(o->alloc, '+'))
        return error_set(err, ERROR_USAGE, "'%s': fixed settings go into --set", o->alloc);
    for (size_t i = 0; i < o->how.settings.count; i++)
        if (!strncmp(o->how.settings.items[i], "M_", 2) ||
            !strncmp(o->how.settings.items[i], "MALLOC_CONF=", 12) ||
            !strncmp(o->how.settings.items[i], "GLIBC_TUNABLES=", 15))
            return error_set(err, ERROR_USAGE,
                             "'%s' cannot be fixed while others are searched; "
                             "glibc.malloc.NAME=VALUE can",
                             o->how.settings.items[i]);
    if (replay_find_allocator(o->alloc, t->library, err))
        return -1;
    /* The first run tells how many threads there are; it is of the default. */
    t->request.alloc = o->alloc;
    t->request.settings = o->how.settings.items;
    t->request.setting_count = o->how.settings.count;
    json_object *first = replaying_run(&t->request, err);
    if (!first)
        return -1;
    unsigned threads = (unsigned)measured_number(first, "threads", 1);
    json_object_put(first);
    t->runs++;
    if (tune_settings_find(&t->settings, o->alloc, t->library, threads, o->how.settings.items,
                           o->how.settings.count, err))
        return -1;
    struct tune_space *space = &t->settings.space;
    space->objectives = OBJECTIVES;
    for (unsigned i = 0; i < OBJECTIVES; i++)
        space->weight[i] = !o->objective || o->objective == (int)i + 1 ? 1 : 0.05;
    t->search = tune_search_new(space, o->seed);
    return t->search ? 0 : error_set(err, ERROR_MEMORY, "out of memory");
}

static int tune(struct tuning *t, struct error *err)
{
    struct budget budget = {0};
    divide(t, &budget);
    t->start_ns = clock_monotonic_ns();
    if (prepare(t, err))
        return -1;
    progress_begin(&t->bar, "searching");
    int failed = 0;
    for (unsigned i = 0; i < 3 && !failed; i++)
        failed = run_default(t, err);
    if (!failed)
        failed = search(t, &budget, err);
    progress_end(&t->bar);
    if (failed)
        return -1;
    if (budget.ns && !budget.runs) { /* what the rest of the time is enough for */
        double each = (double)(clock_monotonic_ns() - t->start_ns) / (double)t->runs;
        double fit = (double)budget.ns * (1 - budget.searching) / each;
        while (budget.winners > 1 && (double)t->plan.least * (1 + (double)budget.winners) > fit)
            budget.winners--;
        while (t->plan.least > 3 && (double)t->plan.least * 2 > fit)
            t->plan.least--;
        t->plan.most = t->plan.least;
    }
    choose_winners(t, budget.winners);
    if (confirm(t, err))
        return -1;
    t->runs += t->confirmation.rounds * t->confirmation.count;
    return 0;
}

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    (void)operand_count;
    static struct tuning t;
    t = (struct tuning){.self = self, .o = options, .workload = operands[0]};
    struct error err = {0};
    struct workload_source source;
    if (workload_source_expect(&source, operands[0], &err))
        return command_fail(self, &err);
    t.request.workload = source.path;
    int status = replaying_request(self, &t.o->how, &t.request);
    if (!status && tune(&t, &err))
        status = command_fail(self, &err);
    if (!status)
        status = tell(&t);
    comparison_release(&t.confirmation);
    for (size_t i = 0; i < t.candidate_count; i++)
        candidate_release(&t.candidates[i]);
    tune_search_free(t.search);
    workload_source_close(&source);
    return status;
}

const struct command command_tune = {
    .name = "tune",
    .summary = "search an allocator's settings for a workload",
    .operands = "OUT.mwl",
    .description = "Searches the settings of an allocator for those under which the workload\n"
                   "OUT.mwl has the smallest peak and average resident size and takes the least\n"
                   "time, and prints the Pareto front of the three, each point with the words to\n"
                   "put before the program's command line. What looks best is then run again,\n"
                   "against the default, and said to be confirmed or not.\n",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct tune_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run,
};
