/* cmd_compare.c - `mallow compare`: a workload against several allocators and settings, side by
 * side. What a round is, and what the figures are, is in comparison.h; the statistics in stats.h.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/compare_job.h"
#include "compare/baseline.h"

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
     "of a recording: the process to take (default: the only one that allocated)", 1, UINT32_MAX},
    {0, "corpus", OPTION_FLAG, AT(corpus), NULL,
     "run the workloads that come with mallow, all of them, instead of OUT.mwl"},
    {0, "shard", OPTION_TEXT, AT(shard), "K/N",
     "of the corpus: run the K-th of N parts only; with --json, for --merge"},
    {0, "merge", OPTION_FLAG, AT(merge), NULL,
     "put the results of all N shards together: FILEs that --shard --json printed",
     .completion = VALUE_FILE},
    {0, "save", OPTION_TEXT, AT(save), "NAME",
     "keep the result as the baseline NAME (a path when it has a slash)"},
    {0, "against", OPTION_TEXT, AT(against), "NAME",
     "compare each candidate with the same one in the baseline NAME, not with the first"},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "P%",
     "exit 1 when time or peak memory of a candidate is surely worse by more than P%, 3 when that "
     "is not known"},
    GATE_SPECS(struct compare_cli, gate),
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "write a page for a browser to OUT, too: one file that needs nothing else",
     .completion = VALUE_FILE},
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
        return command_usage(k->self, "'%s' is no percentage, like 5%%", o->fail_above);
    if (!o->fail_above)
        k->fail_above = -1;
    k->plan.precision = percentage(o->precision, 0.01);
    if (k->plan.precision < 0)
        return command_usage(k->self, "'%s' is no percentage, like 1%%", o->precision);
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
        if (k.o->corpus || k.o->shard || k.o->against || k.o->html || !operand_count)
            return command_usage(self, "--merge takes the FILEs of all shards, and neither "
                                       "--corpus, --shard, --against nor --html");
        int failed = gate_check(self, &k.o->gate, k.o->fail_above);
        if (!failed)
            failed = plan_comparison(&k);
        return failed ? failed : compare_merge(&k, operands, operand_count);
    }
    if (operand_count > 1)
        return command_usage(self, "one workload at a time");
    if (k.o->shard && !k.o->corpus)
        return command_usage(self, "--shard is for --corpus");
    if (k.o->shard && shard_parse(k.o->shard, &k.shard, &err))
        return command_usage(self, "%s", err.text);
    if (k.o->corpus == (operand_count > 0))
        return k.o->corpus
                   ? command_usage(self, "either a workload or --corpus, not both")
                   : command_usage(self, "say which workload: OUT.mwl, RUN.mlw, or --corpus");
    if (k.o->corpus && k.o->html)
        return command_usage(self, "--html shows one workload; with --corpus there is --json");
    int status = gate_check(self, &k.o->gate, k.o->fail_above);
    if (!status)
        status = plan_comparison(&k);
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
