/* cmd_watch.c - `mallow watch`: what a running program holds, from samples, while it runs. With a
 * PROGRAM, text goes to stderr: the program's output is its own. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/preflight.h"
#include "cli/view.h"
#include "cli/watch_attach.h"
#include "cli/watch_left.h"
#include "cli/watch_screen.h"
#include "cli/watch_serve.h"
#include "cli/watch_system.h"
#include "export/watch_pprof.h"
#include "inspect/library.h"
#include "report/watch_view.h"
#include "watch/run.h"

#define TICK_NS  500000000ull
#define FIRST_NS 60000000000ull /* the first report, without --every */

struct watch_cli {
    struct option_texts pids;
    const char *guard, *known, *output, *pprof, *listen;
    uint64_t period, every_ns, old_ns, high_water_min, top, depth;
    int on_error, by, left, how;
    uint64_t detach;
    bool all, high_water, json, plain, quiet, force;
    struct view_options view;
};

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

struct watching {
    const struct command *command;
    const struct watch_cli *o;
    struct watch_view *view;
    struct watch_run *run;
    struct watch_screen *screen; /* NULL: none */
    struct watch_serve *serve;   /* NULL: nothing listens */
    struct symbols *symbols;
    FILE *out, *kept; /* kept: printed when the screen is restored; NULL without it */
    char *kept_text;
    size_t kept_bytes;
    unsigned columns;
    struct watch_attach attach;
    pid_t profiled; /* the process of --pprof without %p; 0: none yet */
    bool failed;    /* a report could not be written */
};

static void failed(struct watching *w, const struct error *err)
{
    if (!w->failed)
        command_warn(w->command, "%s", err->text);
    w->failed = true;
    watch_run_command(w->run, WATCH_STOP);
}

/* ---- the profile ---- */

/* FILE with the process id for %p. False: it does not fit. */
static bool profile_path(const char *pattern, pid_t pid, char path[PATH_MAX], bool *each)
{
    size_t n = 0;
    *each = false;
    for (const char *p = pattern; *p; p++) {
        char piece[24] = {*p, 0};
        if (p[0] == '%' && p[1] == 'p') {
            snprintf(piece, sizeof piece, "%d", (int)pid);
            *each = true;
            p++;
        } else if (p[0] == '%' && p[1] == '%') {
            p++;
        }
        size_t length = strlen(piece);
        if (n + length + 8 >= PATH_MAX)
            return false;
        memcpy(path + n, piece, length);
        n += length;
    }
    path[n] = 0;
    return true;
}

/* A whole profile takes the place of the one before. */
static int replace_profile(struct watching *w, struct watch_process *p, const char *path,
                           struct error *err)
{
    struct watch_report all;
    struct output output;
    int status = -1;
    if (watch_run_report(w->run, p, WATCH_ALL, REPORTED_SCREEN_ALL, &all, err)) {
        watch_report_free(&all);
        return -1;
    }
    if (!output_open(&output, path, err)) {
        status = watch_pprof_write(output.file, p, &all.sites, w->symbols, NULL, err);
        if (output_close(&output, status == 0, err))
            status = -1;
    }
    watch_report_free(&all);
    return status;
}

static void write_profile(struct watching *w, struct watch_process *p)
{
    char path[PATH_MAX];
    bool each;
    struct error err = {0};
    if (!w->o->pprof || !profile_path(w->o->pprof, p->pid, path, &each))
        return;
    if (!each && w->profiled && w->profiled != p->pid)
        return;
    w->profiled = p->pid;
    if (replace_profile(w, p, path, &err))
        failed(w, &err);
}

/* ---- what the run says ---- */

static void report(void *arg, const struct watch_report *r, bool marking)
{
    struct watching *w = arg;
    struct error err = {0};
    struct watch_process *process = r->process;
    bool only_screen = w->screen && !output_named(w->o->output) && r->kind != WATCH_FINAL &&
                       r->kind != WATCH_FREES && !(marking && w->o->known);
    watch_view_retarget(w->view, w->kept ? w->kept : w->out, w->columns);
    if (r->kind == WATCH_OLD || r->kind == WATCH_FINAL)
        write_profile(w, process);
    if (!only_screen && watch_view_report(w->view, r, marking, &err))
        failed(w, &err);
}

static void caught(void *arg, const struct watch_caught *c)
{
    struct watching *w = arg;
    struct error err = {0};
    watch_view_retarget(w->view, w->kept ? w->kept : w->out, w->columns);
    if (w->screen)
        watch_screen_say(w->screen, watch_error_name(c->error.kind));
    if (watch_view_caught(w->view, c, &err))
        failed(w, &err);
}

/* Who looks at a terminal learns at once that something goes on, and where to see it. */
static void joined(void *arg, const struct watch_process *p)
{
    struct watching *w = arg;
    char first[HUMAN_TEXT_BYTES];
    if (w->o->pids.count)
        watch_attach_joined(&w->attach, p);
    if (p->is_program && !w->o->quiet && !w->o->json && isatty(STDERR_FILENO))
        command_warn(w->command,
                     "watching %s [%d]; the first report comes after %s, and 'mallow watch -p %d' "
                     "in another terminal shows it live",
                     watch_process_name(p), (int)p->pid,
                     human_duration(first, w->o->every_ns ? w->o->every_ns : FIRST_NS),
                     (int)p->pid);
}

static void say(void *arg, bool wrong, const char *line)
{
    struct watching *w = arg;
    if (w->screen)
        watch_screen_say(w->screen, line);
    else if (wrong || !w->o->quiet)
        command_warn(w->command, "%s", line);
}

static void tick(void *arg)
{
    struct watching *w = arg;
    if (w->screen)
        watch_screen_tick(w->screen);
}

static void key(void *arg)
{
    struct watching *w = arg;
    if (w->screen)
        watch_screen_keys(w->screen);
}

static void serve(void *arg)
{
    struct watching *w = arg;
    watch_serve_round(w->serve);
}

/* ---- options ---- */

/* off, all, 0.1, 10% */
static bool parse_guard(const char *text, uint32_t *share)
{
    char *end_of;
    double v = strtod(text, &end_of);
    if (!strcmp(text, "off") || !strcmp(text, "all")) {
        *share = *text == 'o' ? 0 : MLW_WATCH_SHARE_ALL;
        return true;
    }
    if (end_of == text || strspn(text, "0123456789.") != (size_t)(end_of - text))
        return false;
    if (!strcmp(end_of, "%"))
        v /= 100;
    else if (*end_of)
        return false;
    if (!(v >= 0 && v <= 1))
        return false;
    *share = (uint32_t)(v * MLW_WATCH_SHARE_ALL + 0.5);
    if (v > 0 && !*share)
        *share = 1;
    return true;
}

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

/* ---- the command ---- */

static int open_view(struct watching *w, bool program, struct error *err)
{
    const struct watch_cli *o = w->o;
    struct report_options looks = {0};
    view_looks(&looks);
    const char *output = output_named(o->output);
    w->out = program && !o->json && !o->output ? stderr : stdout;
    if (output && !(w->out = fopen(output, "ae")))
        return error_system(err, "cannot write to %s", output);
    w->columns = output ? 0 : terminal_columns(fileno(w->out), 0);
    w->symbols = view_symbols(&o->view, err);
    if (!w->symbols)
        return -1;
    const struct watch_view_options options = {.out = w->out,
                                               .look = view_look(&w->o->view),
                                               .json = o->json,
                                               .symbols = w->symbols,
                                               .known = o->known,
                                               .top = o->top,
                                               .depth = (unsigned)o->depth,
                                               .columns = w->columns,
                                               .unicode = looks.unicode,
                                               .bold = !output && terminal_color(fileno(w->out)),
                                               .order = (enum watch_order)o->by};
    w->view = watch_view_new(&options, err);
    return w->view ? 0 : -1;
}

static int watch(struct watching *w, struct watch_options *options, struct watch_result *result,
                 struct error *err)
{
    const struct watch_cli *o = w->o;
    bool program = options->argv != NULL;
    bool live = !program && !o->json && !o->plain && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    if (open_view(w, program, err))
        return -1;
    if (live) {
        options->input = STDIN_FILENO;
        options->tick_ns = TICK_NS;
    }
    if (o->listen) {
        w->serve = watch_serve_open(o->listen, w->view, w->symbols, err);
        if (!w->serve)
            return -1;
        options->served = watch_serve_descriptor(w->serve);
    }
    w->run = watch_run_new(options, err);
    if (!w->run)
        return -1;
    if (w->serve)
        watch_serve_run(w->serve, w->run);
    if (live && !output_named(o->output))
        w->kept = open_memstream(&w->kept_text, &w->kept_bytes);
    if (live)
        w->screen = watch_screen_begin(w->view, w->run, options->order, err);
    if (live && !w->screen)
        return -1;
    return watch_run_loop(w->run, result, err);
}

static void close_all(struct watching *w)
{
    watch_screen_end(w->screen);
    w->screen = NULL;
    watch_serve_close(w->serve);
    watch_run_free(w->run);
    watch_view_free(w->view);
    symbols_free(w->symbols);
    if (w->kept) {
        fclose(w->kept);
        fwrite(w->kept_text, 1, w->kept_bytes, stdout);
        free(w->kept_text);
    }
    if (output_named(w->o->output) && w->out && fclose(w->out))
        w->failed = true;
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
    if (o->guard && !parse_guard(o->guard, &guard))
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
                                    .listener = {.arg = &w,
                                                 .joined = joined,
                                                 .report = report,
                                                 .caught = caught,
                                                 .say = say,
                                                 .tick = tick,
                                                 .key = key,
                                                 .serve = serve}};
    struct watch_result result = {.exit_status = operand_count ? EXIT_MALLOW_FAILED : EXIT_FAILED};
    int bad = o->how == WATCH_PRELOADED
                  ? 0
                  : watch_attach(&w.attach, pids, o->pids.count, o->guard, &err);
    if (!bad)
        bad = watch(&w, &options, &result, &err);
    close_all(&w);
    if (watch_attach_end(&w.attach))
        w.failed = true;
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
