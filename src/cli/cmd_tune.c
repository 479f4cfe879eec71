/* cmd_tune.c - `mallow tune`: searches an allocator's settings for a workload. See tune/tuning.h.
 */
#include <stdio.h>
#include <string.h>

#include "show/document.h"
#include "cli/replaying.h"
#include "tune/show.h"
#include "workload/pack.h"

/* The user's options. */
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
     "the figure to minimize: all, or mainly one of peak RSS, average RSS and time (default all)"},
    {0, "time", OPTION_CHOICE, AT(time), "cpu|wall",
     "the time to measure: the CPU time of all threads, or wall time (default cpu)"},
    {0, "runs", OPTION_COUNT, AT(runs), "N",
     "how many runs in all, confirmation included (default 120, or as many as --budget allows)", 12,
     100000},
    {0, "budget", OPTION_DURATION, AT(budget_ns), "DURATION", "how long in all", 1000000000,
     100ull * 3600 * 1000000000},
    {0, "confirm", OPTION_COUNT, AT(confirm), "N",
     "fresh rounds against the default for those that look best (default 8)", 3, COMPARISON_ROUNDS},
    {0, "seed", OPTION_COUNT, AT(seed), "N",
     "the seed of the search; the same figures and seed give the same search (default 1)", 0,
     UINT64_MAX},
    REPLAYING_OPTIONS(struct tune_cli, how, "pages"),
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "also write a page for a browser to OUT: one file that needs nothing else",
     .completion = VALUE_FILE},
    OPTION_END,
};

static const struct tune_cli defaults = {.alloc = "glibc", .how.touch = 1, .confirm = 8, .seed = 1};

static void confirming(void *arg, uint64_t done, uint64_t expected)
{
    struct progress *bar = arg;
    bar->label = "comparing";
    progress_update(bar, done, expected);
}

static int show_tuning(const struct command *self, const struct tune_cli *o, struct tuning *t,
                       const char *workload)
{
    struct error err;
    json_object *json = o->json || o->html ? tuning_json(t, workload) : NULL;
    int status = 0;
    if (o->json)
        document_print(json);
    else
        tune_print(t, workload);
    if (o->html && document_page(o->html, "settings of an allocator", "tune", json, &err))
        status = command_fail(self, &err);
    json_object_put(json);
    return status ? status : command_finish(self);
}

static int run_tune(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    (void)operand_count;
    static struct tuning t;
    const struct tune_cli *o = options;
    struct progress bar;
    struct error err = {0};
    struct workload_source source;
    t = (struct tuning){.options = {.alloc = o->alloc,
                                    .settings = o->how.settings.items,
                                    .setting_count = o->how.settings.count,
                                    .objective = o->objective,
                                    .wall = o->time,
                                    .runs = o->runs,
                                    .budget_ns = o->budget_ns,
                                    .seed = o->seed,
                                    .confirm = o->confirm},
                        .searching = progress_update,
                        .confirming = confirming,
                        .arg = &bar};
    if (workload_source_expect(&source, operands[0], &err))
        return command_fail(self, &err);
    t.request.workload = source.path;
    int status = replaying_request(self, &o->how, &t.request);
    progress_begin(&bar, "searching");
    const int failed = status ? 0 : tuning_run(&t, &err);
    progress_end(&bar);
    if (failed)
        status = command_fail(self, &err);
    if (!status)
        status = show_tuning(self, o, &t, operands[0]);
    tuning_release(&t);
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
    .run = run_tune,
};
