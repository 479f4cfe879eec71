/* tuning.c - Divides the budget between search and confirmation, runs both, and keeps the
 * winners. Times count relative to runs of the default made in between. A winner counts only
 * after fresh rounds against the default. */
#include "tune/tuning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum {
    DEFAULT_EVERY = 6, /* runs of the search to one of the default */
    ROUNDS_LEAST = 3   /* the fewest rounds of the confirmation */
};

/* Among nearly best points the simplest wins. */
#define NEARLY 0.03

/* --- one run --- */

static void collect_setting(void *arg, const char *setting)
{
    struct buffer *b = arg;
    buffer_append(b, setting, strlen(setting) + 1);
}

/* value[TUNING_OBJECTIVES] of one run at a point; -1 with *err. */
static int run_point(struct tuning *t, const uint8_t *level, double *value, struct error *err)
{
    struct buffer texts = {0};
    const char *settings[TUNE_DIMENSIONS];
    size_t n = 0;
    tune_settings_say(&t->settings, level, collect_setting, &texts);
    for (size_t at = 0; at < texts.size_bytes; at += strlen(texts.data + at) + 1)
        settings[n++] = texts.data + at;
    const struct tuning_options *o = &t->options;
    const char **all = calloc(n + o->setting_count + 1, sizeof *all);
    json_object *run = NULL;
    if (!all || buffer_failed(&texts)) {
        error_memory(err);
    } else {
        for (size_t i = 0; i < o->setting_count; i++)
            all[i] = o->settings[i];
        memcpy(all + o->setting_count, settings, n * sizeof *settings);
        t->request.settings = all;
        t->request.setting_count = n + o->setting_count;
        run = replaying_run(&t->request, err);
        t->runs++;
    }
    for (unsigned i = 0; run && i < TUNING_OBJECTIVES; i++)
        value[i] = comparison_value(run, t->metric[i]);
    free(all);
    buffer_release(&texts);
    int failed = run ? 0 : -1;
    for (unsigned i = 0; run && i < TUNING_OBJECTIVES; i++)
        if (!(value[i] > 0))
            failed = error_set(err, ERROR_FORMAT, "a run without %s",
                               comparison_metrics[t->metric[i]].title);
    json_object_put(run);
    return failed;
}

struct budget {
    uint64_t runs, ns;  /* 0: not limited by it */
    double searching;   /* the share of the runs that is for the search */
    uint64_t search_ns; /* and of the time */
    uint64_t each_ns;   /* ns a call in the fastest run of the default */
    size_t winners;     /* how many can be confirmed */
};

/* Keeps two fifths of the time for the confirmation, or as much as the fewest rounds of one winner
 * take.
 */
static void reserve_confirmation(struct budget *b)
{
    const uint64_t least = 2 * (ROUNDS_LEAST + 1) * b->each_ns, share = b->ns / 5 * 2,
                   kept = share > least ? share : least;
    b->search_ns = b->ns > kept ? b->ns - kept : 1;
}

static int run_default(struct tuning *t, struct budget *b, struct error *err)
{
    double value[TUNING_OBJECTIVES];
    const uint64_t before = clock_monotonic_ns();
    if (run_point(t, tune_search_usual(t->search)->level, value, err))
        return -1;
    if (t->usuals == TUNING_DEFAULTS) { /* drop the older half */
        for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
            memmove(t->usual[o], t->usual[o] + TUNING_DEFAULTS / 2,
                    TUNING_DEFAULTS / 2 * sizeof(double));
        t->usuals /= 2;
    }
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
        t->usual[o][t->usuals] = value[o];
    t->usuals++;
    const uint64_t took_ns = clock_monotonic_ns() - before;
    if (took_ns < b->each_ns)
        b->each_ns = took_ns;
    reserve_confirmation(b);
    return 0;
}

/* The cost of the default: memory of all its runs, time of the last three, as the machine is now.
 */
static double default_now(const struct tuning *t, unsigned objective)
{
    size_t n = objective == TUNING_OBJECTIVES - 1 && t->usuals > 3 ? 3 : t->usuals;
    return stats_median(t->usual[objective] + t->usuals - n, n);
}

/* --- the search --- */

static void divide(struct tuning *t, struct budget *b)
{
    const struct tuning_options *o = &t->options;
    b->ns = o->budget_ns;
    b->runs = o->runs ? o->runs : o->budget_ns ? 0 : 120;
    b->winners = TUNING_WINNERS;
    t->plan = (struct comparison_plan){.least = (size_t)o->confirm, .most = (size_t)o->confirm};
    if (b->runs) { /* at most half for the confirmation: first fewer winners, then fewer rounds */
        while (b->winners > 1 && t->plan.least * (1 + b->winners) > b->runs / 2)
            b->winners--;
        while (t->plan.least > 3 && t->plan.least * (1 + b->winners) > b->runs / 2)
            t->plan.least--;
        t->plan.most = t->plan.least;
        b->searching = 1 - (double)(t->plan.least * (1 + b->winners)) / (double)b->runs;
    }
}

/* The share of the search's budget that is used up. */
static double spent(const struct tuning *t, const struct budget *b)
{
    double runs = b->runs ? (double)t->runs / ((double)b->runs * b->searching) : 0;
    /* a run that is begun is to end in time */
    const double elapsed = (double)(clock_monotonic_ns() - t->start_ns + b->each_ns);
    return fmax(runs, b->ns ? elapsed / (double)b->search_ns : 0);
}

/* The longest that a run of the search may take: the rest of the time, and never less than a few
 * runs of the default. */
static uint64_t run_limit(const struct tuning *t, const struct budget *b)
{
    const uint64_t gone = clock_monotonic_ns() - t->start_ns,
                   left = b->search_ns > gone ? b->search_ns - gone : 0, least = 2 * b->each_ns;
    return !b->ns ? 0 : left > least ? left : least;
}

static int search_settings(struct tuning *t, struct budget *b, struct error *err)
{
    uint8_t level[TUNE_DIMENSIONS];
    double value[TUNING_OBJECTIVES], share;
    size_t since = 0;
    while ((share = spent(t, b)) < 1) {
        if (t->searching)
            t->searching(t->arg, (uint64_t)(share * 1000), 1000);
        if (++since > DEFAULT_EVERY) {
            since = 0;
            if (run_default(t, b, err))
                return -1;
            continue;
        }
        if (!tune_search_ask(t->search, share, level))
            return 0;
        t->request.limit_ns = run_limit(t, b);
        const int failed = run_point(t, level, value, err);
        t->request.limit_ns = 0;
        if (failed) {
            if (err->kind == ERROR_MEMORY)
                return -1;
            t->failures++; /* a setting under which the workload does not run is no good */
            tune_search_tell(t->search, level, NULL);
            continue;
        }
        for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
            value[o] /= default_now(t, o);
        tune_search_tell(t->search, level, value);
    }
    return 0;
}

/* --- the confirmation --- */

/* The best points, each once, under the first claim that it stands for. */
static void choose_winners(struct tuning *t, size_t most)
{
    static const unsigned order[TUNING_WINNERS] = {TUNING_OBJECTIVES, 0, 2, 1};
    const struct tune_space *space = &t->settings.space;
    unsigned only = 0, wanted = 0;
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++)
        if (space->weight[o] >= 1) {
            only = o;
            wanted++;
        }
    for (unsigned i = 0; i < TUNING_WINNERS && t->winner_count < most; i++) {
        unsigned claim = wanted == 1 ? (i ? (i - 1 < only ? i - 1 : i) : only) : order[i];
        if (claim >= TUNING_WINNERS || (wanted == 1 && claim == TUNING_OBJECTIVES))
            continue;
        const struct tune_point *p = tune_search_best(
            t->search, claim < TUNING_OBJECTIVES ? claim : TUNE_OBJECTIVES, NEARLY);
        bool known = p == tune_search_usual(t->search);
        for (size_t k = 0; k < t->winner_count; k++)
            known |= t->winners[k].point == p;
        if (!known)
            t->winners[t->winner_count++] = (struct tuning_winner){.point = p, .claim = claim};
    }
}

static int add_tuned_candidate(struct tuning *t, const struct tune_point *p, struct error *err)
{
    struct buffer spec = {0}, texts = {0};
    buffer_append_text(&spec, t->options.alloc);
    tune_settings_say(&t->settings, p->level, collect_setting, &texts);
    for (size_t at = 0; at < texts.size_bytes; at += strlen(texts.data + at) + 1)
        buffer_printf(&spec, "+%s", texts.data + at);
    int failed =
        candidate_init(&t->candidates[t->candidate_count++], buffer_text(&spec), spec.size_bytes,
                       t->options.settings, t->options.setting_count, err);
    buffer_release(&spec);
    buffer_release(&texts);
    return failed;
}

/* The ratio of what a winner claims to be better in. */
static struct stats_ratio claimed_ratio(const struct tuning *t, const struct tuning_winner *w)
{
    const struct comparison *c = &t->confirmation;
    if (w->claim < TUNING_OBJECTIVES)
        return c->cells[w->candidate][t->metric[w->claim]].ratio;
    static double x[COMPARISON_ROUNDS], y[COMPARISON_ROUNDS], v[COMPARISON_ROUNDS];
    for (size_t i = 0; i < c->rounds; i++)
        x[i] = y[i] = 1;
    for (unsigned o = 0; o < TUNING_OBJECTIVES; o++) {
        comparison_values(c, w->candidate, t->metric[o], v);
        for (size_t i = 0; i < c->rounds; i++)
            x[i] *= cbrt(v[i]);
        comparison_values(c, 0, t->metric[o], v);
        for (size_t i = 0; i < c->rounds; i++)
            y[i] *= cbrt(v[i]);
    }
    return stats_paired(x, y, c->rounds);
}

bool tuning_confirmed(const struct tuning_winner *w)
{
    return w->ratio.differs && w->ratio.ratio < 1;
}

static int confirm(struct tuning *t, struct error *err)
{
    if (!t->winner_count)
        return 0;
    int failed = add_tuned_candidate(t, tune_search_usual(t->search), err);
    for (size_t i = 0; i < t->winner_count && !failed; i++) {
        t->winners[i].candidate = t->candidate_count;
        failed = add_tuned_candidate(t, t->winners[i].point, err);
    }
    t->confirmation.request = t->request;
    t->confirmation.candidates = t->candidates;
    t->confirmation.count = t->candidate_count;
    t->confirmation.random = (t->options.seed ^ 0x9e3779b97f4a7c15u) | 1;
    t->confirmation.progress = t->confirming;
    t->confirmation.progress_arg = t->arg;
    if (!failed)
        failed = comparison_run(&t->confirmation, &t->plan, err);
    for (size_t i = 0; i < t->winner_count && !failed; i++)
        t->winners[i].ratio = claimed_ratio(t, &t->winners[i]);
    return failed;
}

/* How many runs of the default as many rounds take as long as. Candidates side by side have a round
 * that does not count. */
static double cost_of(const struct tuning *t, size_t rounds)
{
    double runs = 1;
    for (size_t i = 0; i < t->winner_count; i++)
        runs += fmax(t->winners[i].point->value[TUNING_OBJECTIVES - 1], 1);
    return runs * (double)(rounds + 1);
}

static void drop_slowest(struct tuning *t)
{
    size_t slowest = 0;
    for (size_t i = 1; i < t->winner_count; i++)
        if (t->winners[i].point->value[TUNING_OBJECTIVES - 1] >
            t->winners[slowest].point->value[TUNING_OBJECTIVES - 1])
            slowest = i;
    t->winner_count--;
    memmove(t->winners + slowest, t->winners + slowest + 1,
            (t->winner_count - slowest) * sizeof *t->winners);
}

/* As many winners and rounds as the rest of the time is enough for: one, and ROUNDS_LEAST, in any
 * case. */
static void fit_winners(struct tuning *t, const struct budget *b)
{
    const uint64_t gone = clock_monotonic_ns() - t->start_ns;
    const double runs = b->ns > gone ? (double)(b->ns - gone) / (double)b->each_ns : 0;
    while (t->winner_count > 1 && cost_of(t, t->plan.least) > runs)
        drop_slowest(t);
    while (t->plan.least > ROUNDS_LEAST && cost_of(t, t->plan.least) > runs)
        t->plan.least--;
    t->plan.most = t->plan.least;
}

/* --- the whole --- */

static int prepare_tuning(struct tuning *t, struct error *err)
{
    const struct tuning_options *o = &t->options;
    t->metric[0] = COMPARISON_PEAK;
    t->metric[1] = COMPARISON_AVERAGE;
    t->metric[2] = o->wall ? COMPARISON_WALL : COMPARISON_CPU;
    if (strchr(o->alloc, '+'))
        return error_set(err, ERROR_USAGE, "'%s': fixed settings go into --set", o->alloc);
    for (size_t i = 0; i < o->setting_count; i++)
        if (!strncmp(o->settings[i], "M_", 2) || !strncmp(o->settings[i], "MALLOC_CONF=", 12) ||
            !strncmp(o->settings[i], "GLIBC_TUNABLES=", 15))
            return error_set(err, ERROR_USAGE,
                             "'%s' cannot be fixed while others are searched; "
                             "glibc.malloc.NAME=VALUE can",
                             o->settings[i]);
    if (replay_find_allocator(o->alloc, t->library, err))
        return -1;
    /* The first run shows how many threads there are; it is of the default. */
    t->request.alloc = o->alloc;
    t->request.settings = o->settings;
    t->request.setting_count = o->setting_count;
    json_object *first = replaying_run(&t->request, err);
    if (!first)
        return -1;
    unsigned threads = (unsigned)measured_number(first, "threads", 1);
    json_object_put(first);
    t->runs++;
    if (tune_settings_find(&t->settings, o->alloc, t->library, threads, o->settings,
                           o->setting_count, err))
        return -1;
    struct tune_space *space = &t->settings.space;
    space->objectives = TUNING_OBJECTIVES;
    for (unsigned i = 0; i < TUNING_OBJECTIVES; i++)
        space->weight[i] = !o->objective || o->objective == (int)i + 1 ? 1 : 0.05;
    t->search = tune_search_new(space, o->seed);
    return t->search ? 0 : error_memory(err);
}

int tuning_run(struct tuning *t, struct error *err)
{
    struct budget budget = {0};
    divide(t, &budget);
    t->start_ns = clock_monotonic_ns();
    if (prepare_tuning(t, err))
        return -1;
    budget.each_ns = clock_monotonic_ns() - t->start_ns;
    reserve_confirmation(&budget);
    int failed = 0;
    for (unsigned i = 0; i < 3 && !failed && (!i || spent(t, &budget) < 0.3); i++)
        failed = run_default(t, &budget, err);
    if (!failed)
        failed = search_settings(t, &budget, err);
    if (failed)
        return -1;
    choose_winners(t, budget.winners);
    if (budget.ns)
        fit_winners(t, &budget);
    if (confirm(t, err))
        return -1;
    t->runs += t->confirmation.rounds * t->confirmation.count;
    return 0;
}

void tuning_release(struct tuning *t)
{
    comparison_release(&t->confirmation);
    for (size_t i = 0; i < t->candidate_count; i++)
        candidate_release(&t->candidates[i]);
    tune_search_free(t->search);
}

void tuning_line(const struct tuning *t, const struct tune_point *p, struct buffer *line)
{
    tune_settings_line(&t->settings, p->level, t->options.settings, t->options.setting_count, line);
}
