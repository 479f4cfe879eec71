/* cmd_replay.c - `mallow replay`: runs a workload against one allocator and reports the cost. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "show/document.h"
#include "cli/replaying.h"
#include "show/json_document.h"
#include "compare/measured.h"
#include "stats/stats.h"
#include "workload/pack.h"

struct replay_cli {
    struct replaying how;
    const char *alloc;
    bool dry, json;
    uint64_t repeat;
};

#define AT(field) offsetof(struct replay_cli, field)

static const struct option_spec specs[] = {
    {0, "alloc", OPTION_TEXT, AT(alloc), "NAME|PATH",
     "the allocator: glibc, jemalloc, tcmalloc, mimalloc, or a library's path (default glibc)",
     .completion = VALUE_FILE},
    REPLAYING_OPTIONS(struct replay_cli, how, "none"),
    {0, "repeat", OPTION_COUNT, AT(repeat), "N",
     "run N times; the figures are the run's whose wall time is the median (default 1)", 1, 1000},
    {0, "dry-run", OPTION_FLAG, AT(dry), NULL, "account for everything, but do not allocate"},
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    OPTION_END,
};

static const struct replay_cli defaults = {.alloc = "glibc", .repeat = 1};

static const char *count_text(char out[HUMAN_TEXT_BYTES], double v)
{
    return human_count(out, v > 0 ? (uint64_t)llround(v) : 0);
}

static void print_call(const char *name, json_object *call)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    double count = measured_number(call, "count", 0),
           mean = measured_number(call, "mean_cycles", -1);
    const char *calls = count == 1 ? "call" : "calls";
    if (mean < 0)
        text_printf(stdout, "Avg %-14s %8s cycles in %s %s\n", name, "-", count_text(b, count),
                    calls);
    else
        text_printf(stdout,
                    "Avg %-14s %8s cycles in %s %s (p50 %.0f ns, p99 %.0f, p99.9 %.0f, max %.0f)\n",
                    name, count_text(a, mean), count_text(b, count), calls,
                    measured_number(call, "p50_ns", 0), measured_number(call, "p99_ns", 0),
                    measured_number(call, "p999_ns", 0), measured_number(call, "max_ns", 0));
}

/* The four that every program knows, called or not, then the rest. */
static void print_calls(json_object *run)
{
    static const char *const usual[] = {"malloc", "calloc", "realloc", "free"};
    json_object *calls = NULL, *call;
    if (!json_object_object_get_ex(run, "calls", &calls))
        return;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        print_call(usual[i], json_object_object_get_ex(calls, usual[i], &call) ? call : NULL);
    json_object_object_foreach(calls, name, other)
    {
        bool is_usual = false;
        for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
            is_usual |= !strcmp(name, usual[i]);
        if (!is_usual)
            print_call(name, other);
    }
}

/* The lines that the project began with: one figure a line, then what it is. */
static void print_replay_text(json_object *run)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES], c[HUMAN_TEXT_BYTES];
#define N(path) measured_number(run, path, 0)
    text_printf(stdout, "%18s cycles\n", count_text(a, N("cycles")));
    text_printf(stdout, "%18s usec wall time\n", count_text(a, N("wall_ns") / 1000));
    text_printf(stdout, "%18s usec across %.0f thread%s (%s user, %s system)\n",
                count_text(a, (N("user_ns") + N("system_ns")) / 1000), N("threads"),
                N("threads") == 1 ? "" : "s", count_text(b, N("user_ns") / 1000),
                count_text(c, N("system_ns") / 1000));
    text_printf(stdout, "%18s bytes Max RSS (%s -> %s)\n",
                count_text(a, N("workload_peak_rss_bytes")), count_text(b, N("start_rss_bytes")),
                count_text(c, N("peak_rss_bytes")));
    text_printf(stdout, "%18s Kb Max Ideal RSS\n", count_text(a, N("peak_ideal_rss_bytes") / 1024));
    text_printf(stdout, "%18s bytes Max VmSize\n", count_text(a, N("peak_vmsize_bytes")));
    text_printf(stdout, "%18s minor page faults, %s major\n", count_text(a, N("page_faults_minor")),
                count_text(b, N("page_faults_major")));
    print_calls(run);
    if (N("allocator_cycles") > 0)
        text_printf(stdout, "Total call time: %s cycles (%.0f%% of the CPU time)\n",
                    count_text(a, N("allocator_cycles")), 100 * N("allocator_share"));
    json_object *slowest;
    if (json_object_object_get_ex(run, "slowest", &slowest) && json_object_array_length(slowest)) {
        text_printf(stdout, "Slowest:");
        for (size_t i = 0; i < json_object_array_length(slowest) && i < 4; i++) {
            json_object *s = json_object_array_get_idx(slowest, i), *name = NULL;
            json_object_object_get_ex(s, "function", &name);
            text_printf(stdout, "%s %s", i ? "," : "", json_object_get_string(name));
            if (measured_number(s, "size_bytes", 0) > 0)
                text_printf(stdout, " of %.0f", measured_number(s, "size_bytes", 0));
            text_printf(stdout, " %s",
                        human_duration(a, (uint64_t)measured_number(s, "time_ns", 0)));
        }
        text_printf(stdout, "\n");
    }
    if (measured_number(run, "mallinfo/arena_bytes", -1) >= 0)
        text_printf(
            stdout, "glibc at the end: %s bytes from the system, %s in use, %s free; %s mmapped\n",
            count_text(a, N("mallinfo/arena_bytes")), count_text(b, N("mallinfo/in_use_bytes")),
            count_text(c, N("mallinfo/free_bytes")), COUNT((uint64_t)N("mallinfo/mmapped_bytes")));
#undef N
}

static void print_notes(const struct command *self, json_object *run)
{
    double n = measured_number(run, "unexpected_results", 0);
    if (n > 0)
        command_warn(self, "%.0f call%s failed where the recording's did not, or the reverse", n,
                     n == 1 ? "" : "s");
    n = measured_number(run, "recorded/lost_calls", 0);
    if (n > 0)
        command_warn(self, "the recording lost %.0f call%s; the workload is not the whole program",
                     n, n == 1 ? "" : "s");
    json_object *exact;
    if (json_object_object_get_ex(run, "peak_rss_exact", &exact) && !json_object_get_boolean(exact))
        command_warn(self, "the kernel's high-water mark could not be reset; the peak is sampled");
}

/* The index of the run whose wall time is the median. */
static size_t middle(json_object **runs, size_t n)
{
    size_t best = 0;
    double *walls = malloc(n * sizeof *walls);
    if (!walls)
        return 0;
    for (size_t i = 0; i < n; i++)
        walls[i] = measured_number(runs[i], "wall_ns", 0);
    double median = stats_median(walls, n);
    free(walls);
    for (size_t i = 1; i < n; i++)
        if (fabs(measured_number(runs[i], "wall_ns", 0) - median) <
            fabs(measured_number(runs[best], "wall_ns", 0) - median))
            best = i;
    return best;
}

static void print_replay_json(json_object **runs, size_t n, size_t chosen)
{
    json_object *out = document_new();
    json_object_object_foreach(runs[chosen], key, value)
        json_object_object_add(out, key, json_object_get(value));
    if (n > 1) {
        json_object *all = json_object_new_array();
        for (size_t i = 0; i < n; i++)
            json_object_array_add(all, json_object_get(runs[i]));
        json_object_object_add(out, "runs", all);
    }
    document_print(out);
    json_object_put(out);
}

static int run_replay(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    (void)operand_count;
    const struct replay_cli *o = options;
    struct replaying how = o->how;
    how.dry = o->dry;
    struct replay_request request = {.workload = operands[0],
                                     .alloc = o->alloc,
                                     .settings = how.settings.items,
                                     .setting_count = how.settings.count};
    int status = replaying_request(self, &how, &request);
    if (status)
        return status;
    struct error err = {0};
    struct workload_source source;
    if (workload_source_expect(&source, operands[0], &err))
        return command_fail(self, &err);
    request.workload = source.path;
    size_t n = (size_t)o->repeat, done = 0;
    json_object **runs = calloc(n, sizeof(json_object *));
    if (!runs)
        return command_no_memory(self);
    struct progress bar = {0};
    progress_begin(&bar, "replaying");
    for (; done < n; done++) {
        progress_update(&bar, done, n);
        runs[done] = replaying_run(&request, &err);
        if (!runs[done])
            break;
    }
    progress_end(&bar);
    if (done < n) {
        status = command_fail(self, &err);
    } else {
        size_t chosen = middle(runs, n);
        print_notes(self, runs[chosen]);
        replaying_say_replaced(self, runs[chosen], o->alloc);
        if (o->json)
            print_replay_json(runs, n, chosen);
        else
            print_replay_text(runs[chosen]);
        status = command_finish(self);
    }
    for (size_t i = 0; i < done; i++)
        json_object_put(runs[i]);
    free(runs);
    workload_source_close(&source);
    return status;
}

const struct command command_replay = {
    .name = "replay",
    .summary = "run a workload against an allocator and report the cost",
    .operands = "OUT.mwl",
    .description = "Runs the workload OUT.mwl with as many real threads as the recorded program\n"
                   "had, against one allocator, and reports the cost: time, memory, page faults,\n"
                   "and each function's mean and percentiles. The replayer's own memory is mapped\n"
                   "and touched before the start and taken off every figure.\n",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct replay_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_replay,
};
