/* cmd_watch.c - `mallow watch`: what a running program holds, from samples, while it runs. With a
 * PROGRAM, text goes to stderr: the program's output is its own. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "cli/command.h"
#include "cli/preflight.h"
#include "cli/watch_left.h"
#include "cli/watch_session.h"
#include "cli/watch_system.h"
#include "inspect/library.h"
#include "watch/segment.h"

#define AT(field) offsetof(struct watch_cli, field)

static const struct option_spec specs[] = {
    {'p', "pid", OPTION_TEXTS, AT(pids), "PID",
     "watch this running process, and its children; may be repeated. One that was started without "
     "the library is attached to, and left as it was at the end",
     .completion = VALUE_PID},
    {'a', "all", OPTION_FLAG, AT(all), NULL,
     "watch every process of this machine that carries the library, by its static probes (root)"},
    {0, "how", OPTION_CHOICE, AT(how), "auto|inject|preloaded",
     "whether -p puts the library into a process that runs without it (default auto: it does)"},
    {0, "detach", OPTION_COUNT, AT(detach), "PID",
     "put back what a watch -p that was killed left in this process, and watch nothing", 1,
     INT_MAX},
    {0, "period", OPTION_SIZE, AT(period), "SIZE",
     "sample one byte in SIZE in the mean (default 512K)", 1, 1ull << 40},
    {0, "every", OPTION_DURATION, AT(every_ns), "DURATION",
     "report old blocks every DURATION (default: after 1, 2 and 5 minutes, then every 10)",
     100000000, 1000 * 3600 * 1000000000ull},
    {0, "old", OPTION_DURATION, AT(old_ns), "AGE",
     "blocks are old from AGE on (default: chosen by the lifetimes of the program's blocks)", 1,
     1000 * 3600 * 1000000000ull},
    {0, "high-water", OPTION_FLAG, AT(high_water), NULL,
     "report all live blocks whenever the heap reaches a new peak"},
    {0, "high-water-min", OPTION_SIZE, AT(high_water_min), "SIZE",
     "no such report while the heap is below SIZE", 1, 1ull << 50},
    {0, "known", OPTION_TEXT, AT(known), "FILE",
     "leave out stacks that FILE lists (suppressions of LeakSanitizer too); SIGUSR1 adds to it",
     .completion = VALUE_FILE},
    {0, "guard", OPTION_TEXT, AT(guard), "off|SHARE|all",
     "put this share of the samples (0.1, 10%) against guard pages to catch memory errors; all "
     "without --period guards every block"},
    {0, "on-error", OPTION_CHOICE, AT(on_error), "continue|die",
     "what the program does after a memory error was reported"},
    {0, "by", OPTION_CHOICE, AT(by), "bytes|growth|age|byte-seconds|allocated|other-thread",
     "order call sites by this (default bytes)"},
    {'n', NULL, OPTION_COUNT, AT(top), "N", "call sites in a report (default 10; JSON: all)", 1,
     1u << 30},
    {0, "depth", OPTION_COUNT, AT(depth), "N", "frames of a call site (default 8; JSON: all)", 1,
     1000},
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON object a line for each report"},
    {'o', "output", OPTION_TEXT, AT(output), "FILE", "append reports to FILE",
     .completion = VALUE_FILE},
    {0, "pprof", OPTION_TEXT, AT(pprof), "FILE",
     "write a pprof profile with each report and at the end; %p in FILE is the process id",
     .completion = VALUE_FILE},
    {0, "listen", OPTION_TEXT, AT(listen), "ADDR:PORT",
     "serve a live page, /report.json, /metrics and /debug/pprof by HTTP on this loopback address "
     "(port 0: "
     "any)"},
    {0, "plain", OPTION_FLAG, AT(plain), NULL, "reports one after the other on a terminal, too"},
    {0, "left", OPTION_CHOICE, AT(left), "list|clear",
     "say what processes that died left in /dev/shm, or remove it, and watch nothing"},
    {0, "force", OPTION_FLAG, AT(force), NULL, "run PROGRAM even when it cannot be watched"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL,
     "say nothing but reports, unless something is wrong"},
    {0, "debug-path", OPTION_TEXTS, AT(view.debug_paths), "DIR",
     "look for separate debug information here, too; may be repeated",
     .completion = VALUE_DIRECTORY},
    {0, "sysroot", OPTION_TEXT, AT(view.sysroot), "DIR",
     "look for programs and libraries below this directory", .completion = VALUE_DIRECTORY},
    {0, "no-debuginfod", OPTION_FLAG, AT(view.no_debuginfod), NULL,
     "do not ask the servers of DEBUGINFOD_URLS"},
    {0, "no-inline", OPTION_FLAG, AT(view.no_inline), NULL,
     "do not look up inlined functions, which is faster"},
    VIEW_LOOK_SPECS(struct watch_cli, view),
    OPTION_END,
};

static const struct watch_cli defaults = {.on_error = -1, .left = -1, .view = VIEW_DEFAULTS};

static int parse_pids(const struct command *self, const struct option_texts *texts, pid_t *pids)
{
    for (size_t i = 0; i < texts->count; i++) {
        uint64_t n;
        if (!human_parse_count(texts->items[i], &n) || n == 0 || n > INT_MAX)
            return command_usage(self, "--pid: '%s' is not a process id such as 4711",
                                 texts->items[i]);
        pids[i] = (pid_t)n;
    }
    return 0;
}

/* Processes that run without the library are attached to, and left at the end. */
static int attach_and_watch(struct watching *w, struct watch_options *options,
                            struct watch_result *result, struct error *err)
{
    const struct watch_cli *o = w->o;
    int bad = o->how == WATCH_PRELOADED
                  ? 0
                  : watch_attach(&w->attach, options->pids, options->pid_count, o->guard, err);
    if (!bad)
        bad = watch_session(w, options, result, err);
    if (watch_attach_end(&w->attach))
        w->failed = true;
    return bad;
}

static int run(const struct command *self, const void *parsed, char **operands, int operand_count)
{
    const struct watch_cli *o = parsed;
    if (o->left >= 0)
        return o->pids.count || o->all || operand_count
                   ? command_usage(self, "--left watches nothing: without -p, -a and PROGRAM")
                   : watch_left(self, o->left == 1, o->json);
    if (o->detach)
        return o->pids.count || o->all || operand_count
                   ? command_usage(self, "--detach watches nothing: without -p, -a and PROGRAM")
                   : watch_detach(self, (pid_t)o->detach, o->quiet);
    struct watching w = {.command = self,
                         .o = o,
                         .attach = {.command = self, .period = o->period, .quiet = o->quiet}};
    struct error err = {0};
    char library[PATH_MAX] = "";
    uint32_t guard = 0, on_error = (uint32_t)o->on_error;
    if ((o->pids.count != 0) + (operand_count != 0) + o->all > 1)
        return command_usage(self, "one of -p PID, -a and a PROGRAM, not more");
    if (!o->pids.count && !operand_count && !o->all)
        return command_usage(self, "nothing to watch; 'mallow watch -p PID', 'mallow watch -a', or "
                                   "'mallow watch [OPTIONS] [--] PROGRAM [ARGS...]'");
    if (o->all && (o->period || o->guard || on_error != (uint32_t)-1))
        return command_usage(self, "--period, --guard and --on-error are not for -a, which only "
                                   "listens: set them where the processes are started");
    if (o->guard && !segment_parse_share(o->guard, &guard))
        return command_usage(self,
                             "--guard: '%s' is none of off, all, or a share such as 0.1 or "
                             "10%%",
                             o->guard);
    /* Who guards all blocks means all blocks, not all of the few that are sampled. */
    const uint64_t period = o->period || !o->guard || strcmp(o->guard, "all") != 0 ? o->period : 1;
    pid_t *pids = calloc(o->pids.count + 1, sizeof *pids);
    if (!pids || parse_pids(self, &o->pids, pids)) {
        free(pids);
        return EXIT_USAGE;
    }
    int status = 0;
    if ((operand_count || o->all) && inspect_find_library("libmallow-watch.so", library, &err)) {
        command_warn(self, "%s", err.text);
        status = operand_count ? EXIT_MALLOW_FAILED : EXIT_FAILED;
    } else if (operand_count) {
        status = preflight(self, operands[0], o->force);
    }
    if (status) {
        free(pids);
        return status;
    }
    struct watch_system system = {.command = self, .library = library};
    const struct watch_source source = watch_system_source(&system);
    struct watch_options options = {.pids = pids,
                                    .pid_count = o->pids.count,
                                    .source = o->all ? &source : NULL,
                                    .argv = operand_count ? operands : NULL,
                                    .library = library,
                                    .every_ns = o->every_ns,
                                    .old_ns = o->old_ns,
                                    .high_water = o->high_water || o->high_water_min,
                                    .high_water_bytes = o->high_water_min,
                                    .period_bytes = period ? &period : NULL,
                                    .guard_share = o->guard ? &guard : NULL,
                                    .on_error = o->on_error < 0 ? NULL : &on_error,
                                    .order = (enum watch_order)o->by,
                                    .input = -1,
                                    .served = -1,
                                    .listener = watch_session_listener(&w)};
    struct watch_result result = {.exit_status = operand_count ? EXIT_MALLOW_FAILED : EXIT_FAILED};
    const int bad = attach_and_watch(&w, &options, &result, &err);
    free(pids);
    if (bad) {
        command_warn(self, "%s", err.text);
        return o->listen && !w.serve && err.kind == ERROR_USAGE ? EXIT_USAGE : result.exit_status;
    }
    if (!result.processes)
        command_warn(self, o->all ? "no process that carries libmallow-watch.so was heard of: "
                                    "there is nothing to report"
                                  : "no process loaded libmallow-watch.so: there is nothing to "
                                    "report");
    if (result.left_running && operand_count)
        command_warn(self, "%u processes are still running; 'mallow watch -p PID' goes on with one",
                     result.left_running);
    return w.failed && !operand_count ? EXIT_FAILED : result.exit_status;
}

const struct command command_watch = {
    .name = "watch",
    .summary = "sample a live program: old blocks, high-water mark, memory errors",
    .operands = "[--] PROGRAM [ARGS...]",
    .description =
        "Runs PROGRAM with a library that samples its allocations, or attaches to a\n"
        "process that runs already (-p), or listens to all that carry the library (-a),\n"
        "and reports which call sites hold blocks that have grown old: in a server that\n"
        "has come to rest, these are its leaks. Sizes are estimates from the samples,\n"
        "with an interval that holds the truth 95 times in 100.\n"
        "\n"
        "A program can be watched all the time, in production. On a terminal, -p shows a\n"
        "live table to work with; ? lists its keys. Signals to mallow: SIGHUP reports all\n"
        "live samples, SIGUSR1 marks old blocks as known, SIGUSR2 reports the latest\n"
        "frees.\n",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct watch_cli),
    .min_operands = 0,
    .max_operands = -1,
    .flags = COMMAND_PROGRAM,
    .run = run,
};
