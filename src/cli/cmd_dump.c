/* cmd_dump.c - `mallow dump`: every event, one line each, in the order of time. */
#include <stdio.h>

#include "cli/command.h"
#include "cli/view.h"
#include "report/report.h"
#include "trace/trace.h"

struct dump_cli {
    struct view_options view;
    bool json, names;
    uint64_t every, window_ns;
};

#define AT(field) offsetof(struct dump_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON object a line instead of text"},
    {0, "names", OPTION_FLAG, AT(names), NULL,
     "the functions of each stack instead of its number; slower"},
    {0, "every", OPTION_COUNT, AT(every), "N", "print every N-th call only", 1, UINT32_MAX},
    {0, "window", OPTION_DURATION, AT(window_ns), "DURATION",
     "a line for each DURATION with calls: how many, and the least, mean and most of the requested "
     "size and of the live bytes",
     1, UINT64_MAX, .not_with = "every|names"},
    VIEW_SPECS(struct dump_cli, view),
    OPTION_END,
};

static int run_dump(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct dump_cli *cli = options;
    struct error err;
    struct report_options o = view_filters(&cli->view);
    (void)operand_count;
    o.every = cli->every;
    o.window_ns = cli->window_ns;
    o.names = cli->names;
    struct trace *t =
        view_open(operands[0], report_dump_columns(), o.select.to_ns, cli->view.threads, &err);
    if (!t)
        return command_fail(self, &err);
    struct symbols *symbols = view_symbols(&cli->view, &err);
    int status = symbols ? view_times(&cli->view, t, &o, &err) : -1;
    if (!status)
        status = report_dump(stdout, t, symbols, &o, cli->json, &err);
    symbols_free(symbols);
    if (!status)
        view_tell_losses(self, operands[0], t);
    trace_close(t);
    if (status)
        return command_fail(self, &err);
    return command_finish(self);
}

static const struct dump_cli defaults = {.view = VIEW_DEFAULTS};

const struct command command_dump = {
    .name = "dump",
    .summary = "print every event of a recording, in the order of time",
    .operands = "FILE",
    .description =
        "Prints every call of a recording of 'mallow record', one line each, in the\n"
        "order of time over all processes and threads, and between them the starts and\n"
        "ends of processes and threads, marks and controls.\n"
        "\n"
        "A line is: seconds since the start of the recording, process id, thread id,\n"
        "the call. A realloc that moves or resizes a block is two lines, the release of\n"
        "the old block and the new one.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct dump_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_dump,
};
