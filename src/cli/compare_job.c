/* compare_job.c - see compare_job.h. */
#include "cli/compare_job.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "compare/show.h"
#include "show/document.h"
#include "cli/recorded.h"
#include "compare/baseline.h"
#include "show/json_document.h"
#include "compare/judge.h"
#include "workload/pack.h"

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

int compare_file(const struct comparing *k, const char *path, json_object *document)
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
        return command_usage(k->self, "--pid chooses a process of a recording, and %s is none",
                             path);
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

int compare_merge(const struct comparing *k, char **files, int count)
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

int compare_corpus(const struct comparing *k, json_object *document)
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
