/* cmd_export.c - `mallow export`: a recording in the format of another tool. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/command.h"
#include "show/output.h"
#include "cli/view.h"
#include "export/export.h"

struct export_cli {
    struct view_options view;
    int format, by; /* -1: not given */
    const char *output;
};

#define AT(field) offsetof(struct export_cli, field)

#define FORMATS "pprof|folded|speedscope|heaptrack|ctf|chrome|massif|sqlite|hdf5|series|csv|mtrace"

static const struct option_spec specs[] = {
    {0, "format", OPTION_CHOICE, AT(format), FORMATS, "write this format (required)"},
    {'o', "output", OPTION_TEXT, AT(output), "OUT",
     "write to OUT instead of standard output; required for ctf, which makes a directory, and for "
     "sqlite and hdf5, which cannot be streams",
     .completion = VALUE_FILE},
    {0, "by", OPTION_CHOICE, AT(by), "peak|end|allocated|temporary|calls",
     "the figure, for formats that have one value a stack (default peak; speedscope: all of them)"},
    VIEW_SPECS(struct export_cli, view),
    OPTION_END,
};

/* The format of the option's number: both are in the order of the table. */
static const struct export_format *format_of(int choice)
{
    return choice < 0 ? NULL : &export_formats[choice];
}

static int write_out(const struct export_cli *cli, const char *recording,
                     const struct export_format *format, struct trace *t, struct symbols *symbols,
                     const struct export_options *o, struct export_result *result,
                     struct error *err)
{
    const char *path = output_named(cli->output);
    const bool to_file = path && !(format->flags & (EXPORT_DIRECTORY | EXPORT_DATABASE));
    struct output output = {.file = path ? NULL : stdout};
    if (to_file && output_open(&output, path, err))
        return -1;
    const struct export_request request = {
        .format = format, .out = output.file, .output = path, .recording = recording, .options = o};
    int status = export_write(t, symbols, &request, result, err);
    if (to_file)
        return output_close(&output, status == 0, err) ? -1 : status;
    if (output.file && (ferror(stdout) | fflush(stdout)) && !status)
        status = error_system(err, "cannot write standard output");
    return status;
}

static int run_export(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct export_cli *cli = options;
    const struct export_format *format = format_of(cli->format);
    const char *recording = operands[0];
    struct export_result result;
    struct error err;
    (void)operand_count;
    if (!format)
        return command_usage(self, "--format is needed: one of %s", FORMATS);
    const char *output = output_named(cli->output);
    if (format->flags & (EXPORT_DIRECTORY | EXPORT_DATABASE) && !output)
        return command_usage(self, "%s needs -o OUT: it is not a stream", format->name);
    if (format->flags & EXPORT_BINARY && !output && isatty(STDOUT_FILENO))
        return command_usage(self, "%s is binary and not written to a terminal; use -o FILE",
                             format->name);
    if (output && output_is(output, recording))
        return command_usage(self, "%s is the recording itself", output);
    if (format->flags & EXPORT_DATABASE && output_must_be_regular(output, "a database", &err))
        return command_fail(self, &err);
    struct report_options o = view_filters(&cli->view);

    struct trace *t =
        view_open(recording, export_columns(format), o.select.to_ns, cli->view.threads, &err);
    if (!t)
        return command_fail(self, &err);
    struct symbols *symbols = view_symbols(&cli->view, &err);
    int status = symbols ? view_times(&cli->view, t, &o, &err) : -1;
    if (!status)
        status =
            write_out(cli, recording, format, t, symbols,
                      &(struct export_options){.select = o.select,
                                               .threads = o.threads,
                                               .look = o.look,
                                               .by = cli->by < 0 ? BY_PEAK : (enum metric)cli->by,
                                               .by_given = cli->by >= 0},
                      &result, &err);
    symbols_free(symbols);
    if (!status)
        view_tell_losses(self, recording, t);
    trace_close(t);
    if (status)
        return command_fail(self, &err);
    if (result.left_out)
        command_warn(self, "%s calls are left out: %s cannot express them", COUNT(result.left_out),
                     format->name);
    return EXIT_DONE;
}

static const struct export_cli defaults = {.view = VIEW_DEFAULTS, .format = -1, .by = -1};

const struct command command_export = {
    .name = "export",
    .summary = "write a recording in the format of another tool",
    .operands = "FILE",
    .description =
        "Writes a recording of 'mallow record' in a format that other tools read:\n"
        "\n"
        "  pprof       profile for go tool pprof: allocated, live at the end and at the\n"
        "              peak, temporary; build-ids, inlined functions\n"
        "  folded      a line for each call stack, for flamegraph.pl and its like\n"
        "  speedscope  flame graphs for speedscope.app\n"
        "  heaptrack   every event, for heaptrack_gui and heaptrack_print\n"
        "  ctf         every event in the Common Trace Format, for babeltrace2\n"
        "  chrome      memory over time and marks, for chrome://tracing\n"
        "  massif      snapshots for ms_print\n"
        "  sqlite      a database of blocks and call sites\n"
        "  hdf5        every event as columns of numbers, for h5dump, MATLAB and pandas\n"
        "  series      RSS, address space, live heap and chunks by size over time, as CSV\n"
        "  csv         a line for each event\n"
        "  mtrace      every event as glibc's dj/malloc traces it, 64 bytes each\n"
        "\n"
        "Filters combine, as in 'mallow report'.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct export_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_export,
};
