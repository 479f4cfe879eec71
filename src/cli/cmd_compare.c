/* cmd_compare.c - `mallow compare`: a workload against several allocators and settings, side by
 * side. What a round is, and what the figures are, is in comparison.h; the statistics in stats.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/gate.h"
#include "cli/recorded.h"
#include "cli/replaying.h"
#include "compare/baseline.h"
#include "compare/comparison.h"
#include "compare/judge.h"
#include "compare/shards.h"
#include "compare/show.h"
#include "show/document.h"
#include "show/json_document.h"
#include "workload/pack.h"

/* A file, a corpus, or the shards of one: measured, shown, saved and judged.
 *
 * Owns: what it prints to standard output, and the exit status, which each function returns. */

/* The options of `mallow compare`. */
struct compare_cli {
    struct replaying how;
    struct text_list alloc;
    const char *save, *against, *fail_above, *precision, *html;
    struct gate_options gate;
    const char *shard;
    bool json, corpus, merge;
    uint64_t repeat, max_repeat, pid;
};

/* The candidates that stand ready to run. */
struct comparing {
    const struct command *self;
    const struct compare_cli *o;
    struct comparison_plan plan;
    struct shard shard;
    double fail_above; /* a share; negative for no gate */
    struct candidate candidates[COMPARISON_CANDIDATES];
    size_t count;
};

/* Judges the gated figures of all candidates. */
static void judge_comparison(const struct comparing *k, const struct comparison *c,
                             const char *workload, struct gate *g)
{
    for (size_t i = comparison_first_judged(c); i < c->count && k->fail_above >= 0; i++)
        for (unsigned m = 0; m < COMPARISON_METRICS && !c->failed[i]; m++) {
            const struct stats_ratio *q = &c->cells[i][m].ratio;
            if (!comparison_metrics[m].gate)
                continue;
            const enum comparison_verdict verdict = comparison_judge(c, i, m, k->fail_above);
            char name[300], between[100] = "it was not measured";
            snprintf(name, sizeof name, "%.100s%s%.100s: %s", workload ? workload : "",
                     workload ? ": " : "", c->candidates[i].label, comparison_metrics[m].title);
            if (q->method != STATS_NONE)
                snprintf(between, sizeof between, "between %+.1f%% and %+.1f%%", 100 * (q->low - 1),
                         100 * (q->high - 1));
            if (verdict == COMPARISON_WORSE)
                gate_judge(g, GATE_ABOVE, name, NULL, 0, "%s is %.1f%% worse (%s), above %g%%",
                           name, 100 * (q->ratio - 1), between, 100 * k->fail_above);
            else if (verdict == COMPARISON_NOT_WORSE)
                gate_judge(g, GATE_BELOW, name, NULL, 0, "%s is not worse (%s) by more than %g%%",
                           name, between, 100 * k->fail_above);
            else
                gate_judge(g, GATE_UNKNOWN, name, NULL, 0,
                           "%s: not known whether it is worse (%s) by more than %g%%; "
                           "measure longer (--max-repeat), or on a machine that does "
                           "nothing else",
                           name, between, 100 * k->fail_above);
        }
}

static int measure(const struct comparing *k, struct comparison *c)
{
    struct error err = {0};
    struct progress bar;
    progress_begin(&bar, "comparing");
    c->progress = progress_update;
    c->progress_arg = &bar;
    int failed = comparison_run_surely(c, &k->plan, k->fail_above, &err);
    progress_end(&bar);
    if (!failed && c->baseline)
        failed = baseline_matches(c->baseline, comparison_some_run(c), &err);
    return failed ? command_fail(k->self, &err) : 0;
}

/* Says which candidates failed, and what others made otherwise than the workload has it. An exit
 * status. `workload`: of the corpus, or NULL. */
static int say_failures(const struct comparing *k, const struct comparison *c, const char *workload)
{
    int status = 0;
    for (size_t i = 0; i < c->count; i++) {
        const char *label = c->candidates[i].label;
        struct error err = {0};
        if (!c->failed[i]) {
            replaying_say_replaced(k->self, c->runs[i], label);
            continue;
        }
        error_set(&err, ERROR_UNSUPPORTED, "%s%s%s: %s", workload ? workload : "",
                  workload ? ": " : "", label, c->failed[i]);
        status = command_fail(k->self, &err);
    }
    return status;
}

/* Prints, saves, and reports the judgment of `subject`; releases g. */
static int finish_comparison(const struct comparing *k, json_object *json, struct gate *g,
                             const char *subject)
{
    struct error err;
    int status = 0;
    if (k->o->json)
        document_print(json);
    if (k->o->html && document_page(k->o->html, "comparison of allocators", "compare", json, &err))
        status = command_fail(k->self, &err);
    if (k->o->save && baseline_save(k->o->save, json, &err))
        status = command_fail(k->self, &err);
    if (!status)
        status = command_finish(k->self);
    const int judged = gate_finish(g, subject);
    return status ? status : judged;
}

/* Runs one workload into *c. `name`: of the corpus; NULL otherwise. 0 or an exit status. */
static int compare_one(const struct comparing *k, struct comparison *c, const char *path,
                       const char *name, json_object *document)
{
    *c = (struct comparison){.tolerant = true,
                             .candidates = k->candidates,
                             .count = k->count,
                             .apart = k->o->save != NULL,
                             .random = (uint64_t)getpid() * 0x9e3779b97f4a7c15u | 1};
    struct workload_source source;
    struct error err;
    int status = replaying_request(k->self, &k->o->how, &c->request);
    if (!status && document) {
        c->baseline = baseline_runs(document, name);
        if (!c->baseline)
            status = command_usage(k->self, "the baseline '%s' has no runs%s%s", k->o->against,
                                   name ? " of " : "", name ? name : "");
    }
    if (status)
        return status;
    if (workload_source_expect(&source, path, &err))
        return command_fail(k->self, &err);
    c->request.workload = source.path;
    status = measure(k, c);
    workload_source_close(&source);
    return status;
}

/* A workload, or a recording that is made one. `document`: the baseline, or NULL. */
static int compare_file(const struct comparing *k, const char *path, json_object *document)
{
    static struct comparison c;
    char name[32];
    const char *workload = path;
    int fd = -1, status = 0;
    if (recorded_is(path)) {
        const struct recorded how = {.pid = k->o->pid};
        status = recorded_unnamed(k->self, &how, path, &fd);
        if (status)
            return status;
        snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
        workload = name;
    } else if (k->o->pid) {
        return command_usage(k->self,
                             "--pid chooses a process of a recording; %s is not a recording", path);
    }
    status = compare_one(k, &c, workload, NULL, document);
    if (!status) {
        json_object *json = comparison_json(&c, &k->plan);
        if (!k->o->json)
            comparison_print(&c, &k->plan, terminal_color(1), terminal_columns(1, 160));
        struct gate g = {.self = k->self, .options = &k->o->gate};
        judge_comparison(k, &c, NULL, &g);
        const int failures = say_failures(k, &c, NULL);
        status = finish_comparison(k, json, &g, path);
        status = status ? status : failures;
        json_object_put(json);
    }
    comparison_release(&c);
    if (fd >= 0)
        close(fd);
    return status;
}

/* Prints the comparisons of a corpus, and asks the gate. */
static int show_corpus(const struct comparing *k, const struct corpus *corpus,
                       const struct comparison *all)
{
    json_object *json = corpus_json(corpus, all, &k->plan);
    if (k->shard.count)
        json_object_object_add(json, "shard", json_object_new_string(k->o->shard));
    if (!k->o->json)
        corpus_print(corpus, all, terminal_color(1));
    struct gate g = {.self = k->self, .options = &k->o->gate};
    for (size_t i = 0; i < corpus->count; i++)
        judge_comparison(k, &all[i], corpus->entry[i].name, &g);
    int failures = 0;
    for (size_t i = 0; i < corpus->count; i++)
        failures |= say_failures(k, &all[i], corpus->entry[i].name);
    int status = finish_comparison(k, json, &g, "corpus");
    json_object_put(json);
    return status ? status : failures;
}

/* The documents that all shards of a corpus printed, as one. */
static int compare_merge(const struct comparing *k, char **files, int count)
{
    static struct shards_merged merged;
    struct error err;
    json_object **documents = calloc((size_t)count, sizeof(json_object *));
    int status = documents ? 0 : command_no_memory(k->self);
    for (int i = 0; i < count && !status; i++)
        if (!(documents[i] = document_read(files[i], &err)))
            status = err.kind == ERROR_FORMAT ? command_usage(k->self, "%s", err.text)
                                              : command_fail(k->self, &err);
    if (!status && shards_merge(documents, files, (size_t)count, &merged, &err))
        status = command_fail(k->self, &err);
    if (!status)
        status = show_corpus(k, &merged.corpus, merged.all);
    shards_release(&merged);
    for (int i = 0; documents && i < count; i++)
        json_object_put(documents[i]);
    free(documents);
    return status;
}

/* The workloads that come with mallow. */
static int compare_corpus(const struct comparing *k, json_object *document)
{
    static struct corpus corpus;
    struct error err;
    if (corpus_find(&corpus, &err) || (k->shard.count && shard_select(&k->shard, &corpus, &err)))
        return command_fail(k->self, &err);
    struct comparison *all = calloc(corpus.count, sizeof *all);
    int status = all ? 0 : command_no_memory(k->self);
    size_t done = 0;
    for (; done < corpus.count && !status; done++) {
        const struct corpus_entry *e = &corpus.entry[done];
        status = compare_one(k, &all[done], e->path, e->name, document);
    }
    if (!status)
        status = show_corpus(k, &corpus, all);
    for (size_t i = 0; i < done; i++)
        comparison_release(&all[i]);
    free(all);
    return status;
}

#define AT(field) offsetof(struct compare_cli, field)

static const struct option_spec specs[] = {
    {0, "alloc", OPTION_TEXTS, AT(alloc), "A,B,...",
     "the allocators, each NAME or PATH, or with settings of its own NAME+K=V+K=V (then alone in "
     "its "
     "--alloc); may be repeated (default: every one found)"},
    REPLAYING_OPTIONS(struct compare_cli, how, "pages"),
    {0, "repeat", OPTION_COUNT, AT(repeat), "N",
     "exactly N rounds (default: 10, and then as many as --precision takes)", 2, COMPARISON_ROUNDS},
    {0, "max-repeat", OPTION_COUNT, AT(max_repeat), "N",
     "at most N rounds (default 100, of the corpus 16)", 2, COMPARISON_ROUNDS},
    {0, "precision", OPTION_TEXT, AT(precision), "P%",
     "go on until CPU time and peak memory are known to P percent (default 1%)"},
    {'p', "pid", OPTION_COUNT, AT(pid), "PID",
     "with a recording: the process to use (default: the only one that allocated)", 1, UINT32_MAX},
    {0, "corpus", OPTION_FLAG, AT(corpus), NULL,
     "run the workloads that come with mallow, all of them, instead of OUT.mwl"},
    {0, "shard", OPTION_TEXT, AT(shard), "K/N",
     "run only part K of N; use --json for a later --merge", .with = "corpus"},
    {0, "merge", OPTION_FLAG, AT(merge), NULL,
     "merge the results of all N shards, the FILEs that --shard --json printed",
     .completion = VALUE_FILE, .not_with = "corpus|shard|against|html"},
    {0, "save", OPTION_TEXT, AT(save), "NAME",
     "save the result as the baseline NAME (a path when it has a slash)"},
    {0, "against", OPTION_TEXT, AT(against), "NAME",
     "compare each candidate with the same one in the baseline NAME, not with the first"},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "P%",
     "exit 1 when time or peak memory of a candidate is surely worse by more than P%, 3 when that "
     "is not known"},
    GATE_SPECS(struct compare_cli, gate),
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "also write a page for a browser to OUT: one file that needs nothing else",
     .completion = VALUE_FILE, .not_with = "corpus"},
    OPTION_END,
};

static const struct compare_cli defaults = {.how.touch = 1};

/* Ranks reach 99% with 8. */
enum { LEAST_ROUNDS = 10, MOST_ROUNDS = 100, CORPUS_LEAST = 8, CORPUS_MOST = 16 };

/* A share of 1 from "P%" or "P"; `otherwise` from NULL; negative when it is no percentage. */
static double percentage(const char *text, double otherwise)
{
    if (!text)
        return otherwise;
    char *end;
    double percent = strtod(text, &end);
    if (end == text || (strcmp(end, "%") != 0 && *end) || !(percent >= 0 && percent < 1e6))
        return -1;
    return percent / 100;
}

static int add_candidate_spec(struct comparing *k, const char *spec, size_t n)
{
    if (k->count == COMPARISON_CANDIDATES)
        return command_usage(k->self, "more than %d allocators", COMPARISON_CANDIDATES);
    struct error err;
    if (candidate_init(&k->candidates[k->count++], spec, n, k->o->how.settings.items,
                       k->o->how.settings.count, &err))
        return command_fail(k->self, &err);
    return 0;
}

static int collect_candidates(struct comparing *k)
{
    const struct compare_cli *o = k->o;
    char path[PATH_MAX];
    struct error err;
    int status = 0;
    for (size_t i = 0; i < o->alloc.count && !status; i++) {
        const char *p = o->alloc.items[i];
        if (strchr(p, '+')) {
            status = add_candidate_spec(k, p, strlen(p));
            continue;
        }
        while (!status) {
            size_t n = strcspn(p, ",");
            status = n ? add_candidate_spec(k, p, n)
                       : command_usage(k->self, "an empty name in --alloc");
            if (!p[n])
                break;
            p += n + 1;
        }
    }
    for (size_t i = 0; !o->alloc.count && replay_allocators[i] && !status; i++)
        if (!replay_find_allocator(replay_allocators[i], path, &err))
            status = add_candidate_spec(k, replay_allocators[i], strlen(replay_allocators[i]));
        else
            command_warn(k->self, "%s", err.text);
    return status;
}

static int plan_comparison(struct comparing *k)
{
    const struct compare_cli *o = k->o;
    k->fail_above = percentage(o->fail_above, 0);
    if (k->fail_above < 0)
        return command_usage(k->self, "'%s' is not a percentage such as 5%%", o->fail_above);
    if (!o->fail_above)
        k->fail_above = -1;
    k->plan.precision = percentage(o->precision, 0.01);
    if (k->plan.precision < 0)
        return command_usage(k->self, "'%s' is not a percentage such as 1%%", o->precision);
    k->plan.least = o->corpus ? CORPUS_LEAST : LEAST_ROUNDS;
    k->plan.most = o->corpus ? CORPUS_MOST : MOST_ROUNDS;
    if (o->max_repeat)
        k->plan.most = (size_t)o->max_repeat;
    if (k->plan.least > k->plan.most)
        k->plan.least = k->plan.most;
    if (o->repeat)
        k->plan.least = k->plan.most = (size_t)o->repeat;
    return 0;
}

static int run_compare(const struct command *self, const void *options, char **operands,
                       int operand_count)
{
    static struct comparing k;
    k = (struct comparing){.self = self, .o = options};
    struct error err;
    json_object *document = NULL;
    if (k.o->merge) {
        if (!operand_count)
            return command_usage(self, "--merge takes the FILEs of all shards");
        const int failed = plan_comparison(&k);
        return failed ? failed : compare_merge(&k, operands, operand_count);
    }
    if (operand_count > 1)
        return command_usage(self, "one workload at a time");
    if (k.o->shard && shard_parse(k.o->shard, &k.shard, &err))
        return command_usage(self, "%s", err.text);
    if (k.o->corpus == (operand_count > 0))
        return k.o->corpus
                   ? command_usage(self, "either a workload or --corpus, not both")
                   : command_usage(self, "no workload given; use OUT.mwl, RUN.mlw or --corpus");
    int status = plan_comparison(&k);
    if (!status)
        status = collect_candidates(&k);
    if (!status && k.o->fail_above && !k.o->against && k.count == 1)
        status = command_usage(self, "--fail-above needs something to compare with: a second "
                                     "--alloc, or --against");
    if (!status && k.o->against) {
        document = baseline_load(k.o->against, &err);
        if (!document)
            status = command_fail(self, &err);
    }
    if (!status)
        status =
            k.o->corpus ? compare_corpus(&k, document) : compare_file(&k, operands[0], document);
    for (size_t i = 0; i < k.count; i++)
        candidate_release(&k.candidates[i]);
    json_object_put(document);
    return status;
}

const struct command command_compare = {
    .name = "compare",
    .summary = "run a workload against several allocators, side by side",
    .operands = "(OUT.mwl | RUN.mlw | --corpus | --merge FILE...)",
    .description =
        "Runs the workload OUT.mwl (or makes one of the recording RUN.mlw, for this\n"
        "time only, and runs that) against several allocators and settings, interleaved\n"
        "and repeated until the figures are known well enough, and prints medians and\n"
        "how they differ from the first's (or from a baseline's) with 99% intervals. A\n"
        "difference is only called one when the interval excludes none.\n",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct compare_cli),
    .min_operands = 0,
    .max_operands = -1,
    .flags = COMMAND_FILES,
    .run = run_compare,
};
