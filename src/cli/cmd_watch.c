/* cmd_watch.c - `mallow watch`: what a running program holds, from samples, while it runs. With a
 * PROGRAM, text goes to stderr: the program's output is its own. */
#include <json-c/json.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/preflight.h"
#include "cli/watch_config.h"
#include "cli/watch_session.h"
#include "inspect/library.h"
#include "show/document.h"
#include "show/json_document.h"
#include "watch/left.h"
#include "watch/segment.h"

/* `mallow watch --left`: what watched processes that died left behind. */

static void print_left_text(const struct left *l)
{
    char when[32];
    if (!l->count)
        puts("no watched process left memory in /dev/shm");
    for (size_t i = 0; i < l->count; i++) {
        const struct left_item *item = &l->items[i];
        if (item->is_session)
            text_printf(stdout, "%-19s  %7d  %9s  %s, of a watch that was killed\n", "?",
                        (int)item->pid, "-", item->path);
        if (item->is_session)
            continue;
        time_t seconds = (time_t)(item->realtime_ns / 1000000000u);
        struct tm t;
        snprintf(when, sizeof when, "?");
        if (item->realtime_ns && localtime_r(&seconds, &t))
            strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &t);
        text_printf(stdout, "%-19s  %7d  %9s  %s\n", when, (int)item->pid, SIZE(item->bytes),
                    *item->exe ? item->exe : "?");
    }
    if (l->count)
        text_printf(
            stdout,
            "%s in all; 'mallow watch -p PID' reads one, 'mallow watch --left clear' removes "
            "all\n",
            SIZE(l->bytes));
}

static void print_left_json(const struct left *l)
{
    for (size_t i = 0; i < l->count; i++) {
        const struct left_item *item = &l->items[i];
        struct json_object *o = document_new();
        json_object_object_add(o, "kind",
                               json_object_new_string(item->is_session ? "left-session" : "left"));
        json_object_object_add(o, "pid", json_object_new_int((int)item->pid));
        json_object_object_add(o, "exe", json_object_new_string(item->exe));
        json_object_object_add(o, "path", json_object_new_string(item->path));
        json_object_object_add(o, "bytes", json_object_new_uint64(item->bytes));
        json_object_object_add(o, "realtime_ns", json_object_new_uint64(item->realtime_ns));
        document_print(o);
        json_object_put(o);
    }
}

/* Lists it, or removes it; returns the exit status. */
static int watch_left(const struct command *self, bool clear, bool json)
{
    struct left left;
    struct error err = {0};
    if (left_find(&left, &err))
        return command_fail(self, &err);
    int status = EXIT_DONE;
    if (json)
        print_left_json(&left);
    else if (!clear)
        print_left_text(&left);
    if (clear) {
        size_t done = left_clear(&left, &err);
        if (done < left.count)
            status = command_fail(self, &err);
        const size_t sessions = left.count - left.segments;
        const size_t dead = done > sessions ? done - sessions : 0;
        if (!json)
            text_printf(stdout, "removed what %zu %s had left, %s", dead,
                        dead == 1 ? "process" : "processes", SIZE(left.bytes));
        if (!json && sessions)
            text_printf(stdout, ", and %zu %s of watches that were killed", sessions,
                        sessions == 1 ? "directory" : "directories");
        if (!json)
            putchar('\n');
    }
    left_release(&left);
    int finished = command_finish(self);
    return finished ? finished : status;
}

#define AT(field) offsetof(struct watch_cli, field)

static const struct option_spec specs[] = {
    {'p', "pid", OPTION_TEXTS, AT(pids), "PID",
     "watch this running process, and its children; may be repeated. A process that was started "
     "without the library is attached to, and restored at the end",
     .completion = VALUE_PID},
    {'a', "all", OPTION_FLAG, AT(all), NULL,
     "watch every process that carries the library: by its static probes (root), or of this user"},
    {0, "comm", OPTION_TEXTS, AT(select.comms), "NAME",
     "only processes of this name (as ps -o comm shows it); may be repeated", .with = "a"},
    {0, "cgroup", OPTION_TEXT, AT(select.cgroup), "PATH",
     "only processes in this control group and those below, "
     "/system.slice/nginx.service",
     .with = "a"},
    {0, "user", OPTION_TEXT, AT(select.user), "USER",
     "only processes of this user, by name or number", .with = "a"},
    {0, "config", OPTION_TEXT, AT(config), "FILE",
     "options as lines of 'key = value', below those of the command line; SIGHUP reads it again",
     .completion = VALUE_FILE},
    {0, "how", OPTION_CHOICE, AT(how), "auto|inject|preloaded",
     "whether -p puts the library into a process that runs without it (default auto: it does); -a "
     "with preloaded reads what processes share, without probes"},
    {0, "detach", OPTION_COUNT, AT(detach), "PID",
     "put back what a watch -p that was killed left in this process, and watch nothing", 1,
     INT_MAX},
    {0, "period", OPTION_SIZE, AT(period), "SIZE",
     "sample one byte in SIZE on average (default 512K)", 1, 1ull << 40},
    {0, "every", OPTION_DURATION, AT(every_ns), "DURATION",
     "report old blocks every DURATION (default: after 1, 2 and 5 minutes, then every 10)",
     100000000, 1000 * 3600 * 1000000000ull},
    {'d', "duration", OPTION_DURATION, AT(duration_ns), "DURATION",
     "end after DURATION with a last report, as an interrupt would", 1000000,
     1000 * 3600 * 1000000000ull, .with = "p|a"},
    {0, "old", OPTION_DURATION, AT(old_ns), "AGE",
     "blocks are old from AGE on (default: chosen by the lifetimes of the program's blocks)", 1,
     1000 * 3600 * 1000000000ull},
    {0, "high-water", OPTION_FLAG, AT(high_water), NULL,
     "report all live blocks whenever the heap reaches a new peak"},
    {0, "high-water-min", OPTION_SIZE, AT(high_water_min), "SIZE",
     "no such report while the heap is below SIZE", 1, 1ull << 50},
    {0, "dump-when", OPTION_TEXT, AT(dump_when), "EXPR",
     "write the live blocks to files when memory gets short: rss>2G, rss>90% of the limit of the "
     "control group, psi>20%; several with commas"},
    {0, "dump-to", OPTION_TEXT, AT(dump_to), "DIR",
     "the directory of the dumps (default: the working directory)", .completion = VALUE_DIRECTORY,
     .with = "dump-when"},
    {0, "known", OPTION_TEXT, AT(known), "FILE",
     "leave out stacks that FILE lists (suppressions of LeakSanitizer too); SIGUSR1 adds to it",
     .completion = VALUE_FILE},
    {0, "guard", OPTION_TEXT, AT(guard), "off|SHARE|all",
     "put this share of the samples (0.1, 10%) against guard pages to catch memory errors; all "
     "without --period guards every block"},
    {0, "guard-side", OPTION_CHOICE, AT(guard_side), "right|left|both",
     "where the guard page of a block lies: behind it (default), before it, or at random"},
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
    {0, "listen", OPTION_TEXT, AT(serve.listen), "ADDR:PORT",
     "serve a live page, /report.json, /metrics and /debug/pprof by HTTP on this loopback address "
     "(port 0: any); on another one with a token and TLS"},
    {0, "token-file", OPTION_TEXT, AT(serve.token_file), "FILE",
     "answer only requests that name the token in the first line of FILE; without --listen, the "
     "token for the server of --push",
     .completion = VALUE_FILE, .with = "listen|push"},
    {0, "tls-cert", OPTION_TEXT, AT(serve.certificate), "FILE",
     "encrypt answers, with the certificate (PEM, with its chain) in FILE",
     .completion = VALUE_FILE, .with = "listen"},
    {0, "tls-key", OPTION_TEXT, AT(serve.key), "FILE",
     "its private key (PEM), which others cannot read", .completion = VALUE_FILE, .with = "listen"},
    {0, "metrics-file", OPTION_TEXT, AT(metrics_file), "FILE",
     "keep the metrics in FILE, for the textfile collector of Prometheus's node exporter",
     .completion = VALUE_FILE},
    {0, "push", OPTION_TEXT, AT(push.url), "URL",
     "push profiles to this server while the watch runs (https, or http on this machine)"},
    {0, "push-as", OPTION_CHOICE, AT(push.as), "pyroscope|otlp|clickhouse",
     "what the server is: pyroscope takes pprof by /ingest (default), otlp profiles of "
     "OpenTelemetry (experimental), clickhouse reports into a store of mallow fleet",
     .with = "push"},
    {0, "push-every", OPTION_DURATION, AT(push.every_ns), "DURATION",
     "push each process every DURATION, and when it ends (default 1m)", 100000000,
     1000 * 3600 * 1000000000ull, .with = "push"},
    {0, "push-size", OPTION_SIZE, AT(push.most_bytes), "SIZE",
     "split profiles that are larger before compression (default 4M)", 1, 1ull << 30,
     .with = "push"},
    {0, "label", OPTION_TEXTS, AT(push.labels), "KEY=VALUE",
     "push with this label; service_name is the program's name without it; may be repeated",
     .with = "push"},
    {0, "push-token-file", OPTION_TEXT, AT(push.token_file), "FILE",
     "the token for the server is the first line of FILE (default: --token-file without --listen)",
     .completion = VALUE_FILE, .with = "push"},
    {0, "ca", OPTION_TEXT, AT(push.ca), "FILE",
     "trust the certificates in FILE when pushing (default: the system's)",
     .completion = VALUE_FILE, .with = "push"},
    {0, "spool", OPTION_TEXT, AT(push.spool), "DIR",
     "keep profiles in DIR until the server has them, beyond the end of the watch (default: in "
     "memory)",
     .completion = VALUE_DIRECTORY, .with = "push"},
    {0, "spool-size", OPTION_SIZE, AT(push.spool_bytes), "SIZE",
     "keep at most SIZE of profiles, and drop the oldest (default 64M)", 4u << 10, 1ull << 40,
     .with = "push"},
    {0, "plain", OPTION_FLAG, AT(plain), NULL, "reports one after the other on a terminal, too"},
    {0, "left", OPTION_CHOICE, AT(left), "list|clear",
     "list or remove the memory that dead processes left in /dev/shm, and watch nothing"},
    {0, "force", OPTION_FLAG, AT(force), NULL, "run PROGRAM even when it cannot be watched"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL,
     "say nothing but reports, unless something is wrong"},
    VIEW_DEBUG_SPECS(struct watch_cli, view),
    VIEW_ALLOC_SPEC(struct watch_cli, view),
    VIEW_LOOK_SPECS(struct watch_cli, view),
    OPTION_END,
};

static const struct watch_cli defaults = {.on_error = -1,
                                          .guard_side = -1,
                                          .left = -1,
                                          .by = -1,
                                          .how = -1,
                                          .view = VIEW_DEFAULTS,
                                          .push = {.as = -1}};

/* The numbers, to be freed. NULL: *status, and the reason has been printed. */
static pid_t *parse_pids(const struct command *self, const struct text_list *texts, int *status)
{
    pid_t *pids = calloc(texts->count + 1, sizeof *pids);
    if (!pids) {
        struct error err = {0};
        error_memory(&err);
        *status = command_fail(self, &err);
        return NULL;
    }
    for (size_t i = 0; i < texts->count; i++) {
        uint64_t n;
        if (!human_parse_count(texts->items[i], &n) || n == 0 || n > INT_MAX) {
            *status = command_usage(self, "--pid: '%s' is not a process id such as 4711",
                                    texts->items[i]);
            free(pids);
            return NULL;
        }
        pids[i] = (pid_t)n;
    }
    return pids;
}

static int detach(const struct command *self, pid_t pid, bool quiet)
{
    struct error err = {0};
    return watch_detach(pid, quiet, command_note(self), &err) ? command_fail(self, &err)
                                                              : EXIT_DONE;
}

/* --left and --detach, which watch nothing. */
static int clean_up(const struct command *self, const struct watch_cli *o, int operand_count)
{
    const char *name = o->left >= 0 ? "left" : "detach";
    if (o->pids.count || o->all || operand_count)
        return command_usage(self, "--%s watches nothing; use it without -p, -a and PROGRAM", name);
    return o->left >= 0 ? watch_left(self, o->left == 1, o->json)
                        : detach(self, (pid_t)o->detach, o->quiet);
}

/* True if the options go together, and those that need no system for their meaning. */
static int check_watch_options(struct watch_config *config, struct watching *w,
                               struct watch_options *options, int operand_count)
{
    const struct watch_cli *o = &config->now;
    const struct command *self = w->command;
    if ((o->pids.count != 0) + (operand_count != 0) + o->all > 1)
        return command_usage(self, "-p PID, -a and a PROGRAM exclude each other");
    if (!o->pids.count && !operand_count && !o->all)
        return command_usage(self, "nothing to watch; 'mallow watch -p PID', 'mallow watch -a', or "
                                   "'mallow watch [OPTIONS] [--] PROGRAM [ARGS...]'");
    struct error err = {0};
    int status = options_check(self, o);
    if (!status)
        status = watch_config_check(self, o);
    if (status)
        return status;
    w->look = view_look(&o->view);
    if (watch_dump_check(o->dump_when, o->dump_to, &options->when, &err) ||
        view_alloc_fns(&o->view, &w->look, &err))
        return command_fail(self, &err);
    return watch_config_settings(config, options, &w->run);
}

/* The library for a program, and whether it can be watched. 0, or an exit status. */
static int prepare_program(const struct command *self, char *const program[], bool force,
                           char library[PATH_MAX])
{
    struct error err = {0};
    if (!inspect_find_library("libmallow-watch.so", library, &err))
        return preflight(self, program, force);
    command_warn(self, "%s", err.text);
    return EXIT_MALLOW_FAILED;
}

static int watch_programs(const struct command *self, struct watch_config *config, char **operands,
                          int operand_count)
{
    const struct watch_cli *o = &config->now;
    if (o->left >= 0 || o->detach)
        return clean_up(self, o, operand_count);
    struct watching w = {
        .command = self,
        .o = o,
        .attach = {.note = command_note(self), .period = o->period, .quiet = o->quiet},
        .dump = {.directory = o->dump_to}};
    char library[PATH_MAX] = "";
    struct watch_options options = {.argv = operand_count ? operands : NULL,
                                    .library = library,
                                    .order = (enum watch_order)o->by,
                                    .input = -1,
                                    .served = -1,
                                    .listener = watch_session_listener(&w)};
    int status = check_watch_options(config, &w, &options, operand_count);
    if (status)
        return status;
    pid_t *pids = parse_pids(self, &o->pids, &status);
    if (!pids)
        return status;
    options.pids = pids;
    options.pid_count = o->pids.count;
    if (operand_count)
        status = prepare_program(self, operands, o->force, library);
    if (!status)
        status = watch_session(&w, &options);
    free(pids);
    return status;
}

static int run_watch(const struct command *self, const void *parsed, char **operands,
                     int operand_count)
{
    struct watch_config config;
    int status = watch_config_open(&config, self, parsed);
    if (!status)
        status = watch_programs(self, &config, operands, operand_count);
    else if (status == EXIT_FAILED && operand_count)
        status = EXIT_MALLOW_FAILED;
    watch_config_release(&config);
    return status;
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
    .flags = COMMAND_PROGRAM | COMMAND_CHECKS,
    .run = run_watch,
};
