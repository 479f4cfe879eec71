/* cmd_probe.c - `mallow probe`: chooses the kind and the processes, and prints what came of it. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/command.h"
#include "cli/preflight.h"
#include "cli/view.h"
#include "inspect/inspect.h"
#include "probe/probe.h"
#include "probe/show/show.h"
#include "show/output.h"

/* The counts of `mallow probe`, as they come and at the end. Owns: the form of it. */

struct probe_printing {
    const struct command *self;
    bool json, folded;
    bool screen; /* text takes the whole screen of a terminal, again for each interval */
    struct probe_report how;
    struct probe_arenas_lines lines;
    FILE *out;
    bool failed; /* something could not be printed; err says what */
    struct error err;
};

static void flush_printed_rows(struct probe_printing *p)
{
    if ((!ferror(p->out) && !fflush(p->out)) || p->failed)
        return;
    error_system(&p->err, "cannot write the result");
    p->failed = true;
}

static void probe_show_result(struct probe_printing *p, const struct probe_result *r)
{
    if (!p->json && !p->folded)
        probe_arenas_rest(p->out, &p->lines);
    int bad = p->json     ? probe_report_json(p->out, r, &p->how, &p->err)
              : p->folded ? probe_report_folded(p->out, r, &p->how, &p->err)
                          : probe_report_text(p->out, r, &p->how, &p->err);
    p->failed = p->failed || bad;
    flush_printed_rows(p);
}

/* Callbacks of struct probe_options, with a struct probe_printing as `arg`. */
static void probe_show_interval(void *arg, struct probe_result *since)
{
    struct probe_printing *p = arg;
    if (!p->json && !p->folded && p->screen)
        fputs("\033[H\033[J", stdout); /* the live view takes the screen */
    probe_show_result(p, since);
    if (!p->json)
        putc('\n', p->out);
}

static void probe_show_line(void *arg, const char *line)
{
    const struct probe_printing *p = arg;
    command_warn(p->self, "%s", line);
}

static void probe_show_moment(void *arg, uint32_t pid, const struct arena_moment *m)
{
    struct probe_printing *p = arg;
    (void)pid;
    if (!p->json && !p->folded) {
        probe_arenas_line(p->out, &p->lines, m);
        flush_printed_rows(p);
    }
}

/* Prints the functions that would be probed to the file `path` (NULL: standard output): their
 * names, in JSON with where they are. Returns the exit status; said. */
static int probe_show_list(const struct command *self, const struct probe_options *options,
                           const char *path, bool json)
{
    static struct probe_functions list;
    struct error err;
    struct output to = {.file = stdout};
    const char *output = output_named(path);
    if ((output && output_open(&to, output, &err)) || probe_list(options, &list, &err)) {
        if (output && to.file)
            output_close(&to, false, &(struct error){0});
        probe_list_release(&list);
        return command_fail(self, &err);
    }
    if (json)
        probe_report_list(to.file, &list);
    else
        for (size_t i = 0; i < list.count; i++)
            text_printf(to.file, "%s\n", list.name[i]);
    probe_list_release(&list);
    if (output && output_close(&to, true, &err))
        return command_fail(self, &err);
    return command_finish(self);
}

/* The exit status that stands for the program's; a failure to execute it is said. */
static int probe_show_status(const struct command *self, const struct probe_result *r,
                             const char *program)
{
    if (!r->has_program)
        return EXIT_DONE;
    if (r->exec_errno) {
        command_warn(self, "cannot execute '%s': %s", program, strerror(r->exec_errno));
        return r->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    }
    if (WIFSIGNALED(r->wait_status))
        return 128 + WTERMSIG(r->wait_status);
    return WEXITSTATUS(r->wait_status);
}

/* Says that there is no kind of this name, and which there are. Returns EXIT_USAGE. */
static int probe_show_kinds(const struct command *self, const char *name)
{
    char list[512] = "";
    size_t n = 0;
    for (const struct probe_kind *const *k = probe_kinds; *k; k++)
        n +=
            (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", probe_kind_name(*k));
    return command_usage(self, "unknown probe kind '%s'; one of %s", name, list);
}

struct probe_cli {
    uint64_t pid, duration_ns, interval_ns, top;
    const char *by, *order, *where, *histogram, *library, *output, *command;
    uint64_t frames;
    struct text_list functions;
    int source;
    bool all, list, no_follow, mmap, live, sizes, json, folded, verbose;
};

#define AT(field) offsetof(struct probe_cli, field)

static const struct option_spec specs[] = {
    {'p', "pid", OPTION_COUNT, AT(pid), "PID",
     "a process that runs, with the threads and children it has and will have", 1, INT32_MAX,
     .completion = VALUE_PID},
    {'a', "all", OPTION_FLAG, AT(all), NULL, "every process of this machine"},
    {0, "comm", OPTION_TEXT, AT(command), "NAME",
     "only processes of this name, as ps -C finds them", .with = "a"},
    {0, "no-follow", OPTION_FLAG, AT(no_follow), NULL, "leave out children of the process"},
    {'d', "duration", OPTION_DURATION, AT(duration_ns), "DURATION",
     "end after DURATION (default: when the process ends, or at Ctrl-C)", 1000000,
     31ull * 86400 * 1000000000},
    {'i', "interval", OPTION_DURATION, AT(interval_ns), "DURATION",
     "also print the counts of each DURATION", 10000000, 31ull * 86400 * 1000000000},
    {'n', "top", OPTION_COUNT, AT(top), "N", "print the first N groups (default 20)", 1, 100000},
    {0, "by", OPTION_TEXT, AT(by), "KEYS",
     "key of the rows, with commas: process, command, thread, stack, kstack, size, "
     "cache, caller, function, mapping, address, access, cpu, user, parent, or none"},
    {0, "where", OPTION_TEXT, AT(where), "EXPR",
     "count only these events, as the kernel judges them: 'bytes>64K && comm==\"git\"'"},
    {0, "hist", OPTION_TEXT, AT(histogram), "FIELD",
     "a histogram of this figure in each row, as JSON names it: time_ns"},
    {0, "order", OPTION_TEXT, AT(order), "FIELD",
     "sort the rows by this figure, the largest first, as JSON names it: major"},
    {0, "frames", OPTION_COUNT, AT(frames), "N",
     "the N innermost frames of a user stack make its row (default and most: 64)", 1,
     PROBE_DEPTH_MAX},
    {0, "lib", OPTION_TEXT, AT(library), "LIBRARY",
     "the library or program whose functions are probed, a path or part of its name (default: "
     "the one with malloc)",
     .completion = VALUE_FILE},
    {0, "function", OPTION_TEXTS, AT(functions), "PATTERN",
     "probe these functions, by a name or a glob; may be repeated"},
    {0, "list", OPTION_FLAG, AT(list), NULL,
     "calls: list the functions that would be probed, and probe none"},
    {0, "mmap", OPTION_FLAG, AT(mmap), NULL, "brk: anonymous mappings as well"},
    {0, "live", OPTION_FLAG, AT(live), NULL, "slab: only memory that has not been freed"},
    {0, "sizes", OPTION_FLAG, AT(sizes), NULL,
     "arenas: also count requests, below and above the mmap threshold"},
    {0, "source", OPTION_CHOICE, AT(source), "best|static|symbols|preload|calls",
     "arenas: the source of the events (default: the first that works here)"},
    {'o', "output", OPTION_TEXT, AT(output), "FILE",
     "write to FILE instead of standard output, where PROGRAM may write as well",
     .completion = VALUE_FILE},
    {0, "json", OPTION_FLAG, AT(json), NULL,
     "one JSON document instead of text; with -i, one on a line for each interval, too"},
    {0, "folded", OPTION_FLAG, AT(folded), NULL,
     "one line for each stack and its count, for flame graphs", .not_with = "json"},
    {'v', "verbose", OPTION_FLAG, AT(verbose), NULL, "print the messages of the BPF library"},
    OPTION_END,
};

static int check_probe_options(const struct command *self, const struct probe_cli *o,
                               const struct probe_kind *kind, int operand_count)
{
    int targets = (o->pid != 0) + o->all + (operand_count > 0);
    if (o->list && !probe_kind_has_list(kind))
        return command_usage(self, "--list does not apply to '%s'", probe_kind_name(kind));
    if (targets != 1 && !(o->list && !targets))
        return command_usage(self, "%s",
                             targets ? "too many targets; use one of -p PID, -a for every process, "
                                       "and a PROGRAM"
                                     : "no target given; use -p PID, -a for every process, or a "
                                       "PROGRAM");
    if ((o->library || o->functions.count) && !probe_kind_uses_library(kind))
        return command_usage(self, "--lib and --function do not apply to '%s'",
                             probe_kind_name(kind));
    if (o->mmap && !probe_kind_has_mmap(kind))
        return command_usage(self, "--mmap does not apply to '%s'", probe_kind_name(kind));
    if (o->live && !probe_kind_has_live(kind))
        return command_usage(self, "--live does not apply to '%s'", probe_kind_name(kind));
    if ((o->sizes || o->source) && !probe_kind_has_sizes(kind))
        return command_usage(self, "--sizes and --source do not apply to '%s'",
                             probe_kind_name(kind));
    if (o->pid && kill((pid_t)o->pid, 0) && errno == ESRCH) {
        command_warn(self, "there is no process %lu", (unsigned long)o->pid);
        return EXIT_FAILED;
    }
    return 0;
}

static int run_list(const struct command *self, const struct probe_cli *o,
                    const struct probe_kind *kind, char **program)
{
    static struct inspect found;
    const int status = program ? preflight_find(self, program[0], &found) : 0;
    const struct probe_options options = {.kind = kind,
                                          .pid = (uint32_t)o->pid,
                                          .argv = program,
                                          .program = found.path,
                                          .all = !o->pid && !program,
                                          .library = o->library,
                                          .functions = o->functions.items,
                                          .function_count = o->functions.count};
    return status ? status : probe_show_list(self, &options, o->output, o->json);
}

/* Fills what the options say, in the words of the kind. Returns the exit status, 0 for none. */
static int fill_options(const struct command *self, const struct probe_cli *o,
                        struct probe_options *to)
{
    const struct probe_kind *kind = to->kind;
    struct error err = {0};
    if (probe_by_parse(kind, o->by, &to->by, &err))
        return command_usage(self, "--by%s", err.text);
    if (probe_order_parse(kind, o->order, &to->order, &err))
        return command_usage(self, "--order%s", err.text);
    if (probe_histogram_parse(kind, o->histogram, &to->histogram, &err))
        return command_usage(self, "--hist%s", err.text);
    if (probe_where_parse(kind, o->where, &to->where, &err))
        return command_usage(self, "--where%s", err.text);
    to->pid = (uint32_t)o->pid;
    to->all = o->all;
    to->no_follow = o->no_follow;
    to->duration_ns = o->duration_ns;
    to->interval_ns = o->interval_ns;
    to->command = o->command;
    to->frames = (uint32_t)o->frames;
    to->library = o->library;
    to->functions = o->functions.items;
    to->function_count = o->functions.count;
    to->mmap = o->mmap;
    to->live = o->live;
    to->sizes = o->sizes;
    to->source = (enum probe_source)o->source;
    to->verbose = o->verbose;
    return 0;
}

static int run_kind(const struct command *self, const struct probe_cli *o,
                    const struct probe_kind *kind, char **program)
{
    static struct inspect found;
    struct error err = {0};
    struct probe_options options = {.kind = kind};
    int status = fill_options(self, o, &options);
    if (!status && program)
        status = preflight_find(self, program[0], &found);
    if (status)
        return status;
    struct report_options looks = {0};
    view_looks(&looks);
    const char *output = output_named(o->output);
    struct probe_printing printing = {.self = self,
                                      .json = o->json,
                                      .folded = o->folded,
                                      .screen = !o->output && isatty(STDOUT_FILENO),
                                      .how = {.one_line = o->interval_ns != 0,
                                              .where = o->where,
                                              .top = o->top,
                                              .columns = looks.columns,
                                              .unicode = looks.unicode,
                                              .bold = looks.bold}};
    printing.out = output ? output_stream(output, false, &printing.err) : stdout;
    if (!printing.out) {
        command_warn(self, "%s", printing.err.text);
        return program ? EXIT_MALLOW_FAILED : EXIT_FAILED;
    }
    printing.how.symbols = symbols_new(NULL, &printing.err);
    if (!printing.how.symbols)
        return command_fail(self, &printing.err);
    options.argv = program;
    options.program = found.path;
    options.interval = probe_show_interval;
    options.say = probe_show_line;
    options.moment = probe_show_moment;
    options.arg = &printing;
    struct probe_result result;
    if (o->where)
        options.no_preload = "--where is judged in the kernel";
    else if (program && probe_kind_has_sizes(kind))
        options.preload = preflight_arenas(&found, &options.no_preload);
    if (probe_run(&options, &result, &err)) {
        status = command_fail(self, &err);
        if (program && status == EXIT_FAILED)
            status = EXIT_MALLOW_FAILED;
    } else {
        status = probe_show_status(self, &result, program ? program[0] : NULL);
        if (!result.exec_errno)
            probe_show_result(&printing, &result);
        int finished = printing.failed ? command_fail(self, &printing.err) : command_finish(self);
        status = finished ? finished : status;
    }
    probe_release(&result);
    symbols_free(printing.how.symbols);
    if (output && fclose(printing.out)) {
        command_warn(self, "cannot write %s: %s", output, strerror(errno));
        status = status ? status : EXIT_FAILED;
    }
    return status;
}

static int run_probe(const struct command *self, const void *options, char **operands,
                     int operand_count)
{
    struct probe_cli o = *(const struct probe_cli *)options;
    const struct probe_kind *kind = probe_kind_find(operands[0]);
    if (!kind)
        return probe_show_kinds(self, operands[0]);
    /* Options may stand behind KIND: they are parsed as if it were the command. */
    struct command rest = *self;
    rest.min_operands = 0;
    char **program = NULL;
    int count = 0;
    switch (options_parse(&rest, operand_count, operands, &o, &program, &count)) {
    case OPTIONS_HELP: options_print_help(self); return command_finish(self);
    case OPTIONS_BAD: return EXIT_USAGE;
    case OPTIONS_OK: break;
    }
    int status = options_check(self, &o);
    if (!status)
        status = check_probe_options(self, &o, kind, count);
    if (!status)
        status = (o.list ? run_list : run_kind)(self, &o, kind, count ? program : NULL);
    if (o.functions.items != ((const struct probe_cli *)options)->functions.items)
        free(o.functions.items);
    return status;
}

static const struct probe_cli defaults = {.top = 20};

static void list_kinds(void)
{
    for (const struct probe_kind *const *k = probe_kinds; *k; k++)
        text_printf(stdout, "  %-8s %s\n", probe_kind_name(*k), probe_kind_summary(*k));
}

const struct command command_probe = {
    .name = "probe",
    .summary = "ask the kernel what a running program does with memory",
    .operands = "KIND (-p PID | -a | [--] PROGRAM [ARGS...])",
    .description = "Counts in the kernel, while a program runs, and prints the sums. KIND is\n",
    .list = list_kinds,
    .remarks = "Options stand before or behind KIND, and before PROGRAM. PROGRAM is counted from\n"
               "its first instruction on, with its threads and children. Needs root, or\n"
               "CAP_BPF and CAP_PERFMON, and a kernel with type information.\n"
               "\n"
               "Exit status: that of PROGRAM; 125 when mallow failed before it ran.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct probe_cli),
    .min_operands = 1,
    .max_operands = -1,
    .flags = COMMAND_PROGRAM | COMMAND_CHECKS,
    .run = run_probe,
};
