/* cmd_import.c - `mallow import`: a foreign trace, turned into a recording. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "show/output.h"
#include "import/import.h"

struct import_cli {
    const char *output;
    int format; /* enum import_format less 1; -1: by content */
    bool quiet;
};

#define AT(field) offsetof(struct import_cli, field)

static const struct option_spec specs[] = {
    {'o', "output", OPTION_TEXT, AT(output), "FILE", "write the recording to FILE (required)",
     .completion = VALUE_FILE},
    {0, "format", OPTION_CHOICE, AT(format), "heaptrack|mtrace|perf",
     "the format of the file (default: detected)"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

static int run_import(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct import_cli *cli = options;
    struct import_result result;
    struct error err;
    (void)operand_count;
    if (!cli->output)
        return command_usage(self, "no output given; use -o FILE.mlw");
    if (output_is(cli->output, operands[0]))
        return command_usage(self, "%s is the input file", cli->output);
    if (output_must_be_regular(cli->output, "a recording", &err))
        return command_fail(self, &err);
    if (import_file(operands[0], (enum import_format)(cli->format + 1), cli->output, &result, &err))
        return command_fail(self, &err);
    if (!cli->quiet)
        text_printf(stdout, "%s: %s calls from %s\n", cli->output, COUNT(result.calls),
                    import_names[result.format]);
    if (result.cut)
        command_warn(self, "%s is truncated; the recording holds the part before that",
                     operands[0]);
    if (result.unsure)
        command_warn(self,
                     "%s calls did not fit together (their records are missing or out of order)",
                     COUNT(result.unsure));
    return command_finish(self);
}

static const struct import_cli defaults = {.format = -1};

const struct command command_import = {
    .name = "import",
    .summary = "turn a trace of another tool into a recording",
    .operands = "FILE",
    .description =
        "Reads a trace of another tool and writes a recording, which report, diff, export\n"
        "and workload read like one of 'mallow record':\n"
        "\n"
        "  heaptrack  heaptrack's files (formats 1 to 3)\n"
        "  mtrace     the text of mtrace(3), or dj/malloc's records of 64 bytes\n"
        "  perf       the output of perf script, of probes on malloc and its like\n"
        "\n"
        "Text may be compressed by gzip or zstd.\n"
        "\n"
        "What a trace does not say, the recording lacks, and says so.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct import_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_import,
};
