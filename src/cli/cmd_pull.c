/* cmd_pull.c - `mallow pull`: a recording that was sent in segments, put together again. */
#include <json-c/json.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/human.h"
#include "base/text.h"
#include "cli/command.h"
#include "show/document.h"
#include "cli/transfer.h"
#include "show/output.h"
#include "cli/upload_options.h"
#include "show/json_document.h"
#include "push/segments.h"

#define SECOND_NS 1000000000ull

struct pull_cli {
    struct uploading_options from;
    const char *output;
    uint64_t retries, timeout_ns;
    bool partial, json, quiet;
};

#define AT(field)      offsetof(struct pull_cli, field)
#define FROM_AT(field) offsetof(struct pull_cli, from.field)

static const struct option_spec specs[] = {
    {'o', "output", OPTION_TEXT, AT(output), "FILE", "write the recording to FILE (required)",
     .completion = VALUE_FILE},
    {0, "partial", OPTION_FLAG, AT(partial), NULL,
     "accept an incomplete recording: fetch the part that exists"},
    UPLOADING_HEADER(FROM_AT, NULL),
    UPLOADING_CA(FROM_AT, NULL),
    UPLOADING_S3(FROM_AT, NULL),
    UPLOADING_REGION(FROM_AT),
    {0, "retry", OPTION_COUNT, AT(retries), "N", "try N times more when it fails (default 3)", 0,
     100},
    {0, "timeout", OPTION_DURATION, AT(timeout_ns), "DURATION",
     "give up a try when almost no data moves for DURATION (default 1m)", SECOND_NS,
     86400 * SECOND_NS},
    {0, "json", OPTION_FLAG, AT(json), NULL, "print one JSON document instead of text"},
    {'q', "quiet", OPTION_FLAG, AT(quiet), NULL, "say nothing unless something is wrong"},
    OPTION_END,
};

static void print_pulled(const struct command *self, const struct pull_cli *cli, const char *url,
                         const struct segments_result *r, bool whole, uint64_t took_ns)
{
    if (!whole)
        command_warn(self, "%s is truncated: the store has only the first part of the recording",
                     cli->output);
    if (cli->json) {
        struct json_object *o = document_new();
        json_object_object_add(o, "url", json_object_new_string(url));
        json_object_object_add(o, "file", json_object_new_string(cli->output));
        json_object_object_add(o, "bytes", json_object_new_int64((int64_t)r->bytes));
        json_object_object_add(o, "segments", json_object_new_int64((int64_t)r->segments));
        json_object_object_add(o, "complete", json_object_new_boolean(whole));
        json_object_object_add(o, "duration_ns", json_object_new_int64((int64_t)took_ns));
        document_print_indented(o);
        json_object_put(o);
    } else if (!cli->quiet)
        text_printf(stdout, "%s: %s in %llu segment%s from %s in %s\n", cli->output, SIZE(r->bytes),
                    (unsigned long long)r->segments, r->segments == 1 ? "" : "s", url,
                    TIME(took_ns));
}

static int pull(const struct command *self, const struct pull_cli *cli,
                const struct objects_options *o, struct transfer *transfer, struct error *err)
{
    const uint64_t start = clock_monotonic_ns();
    const struct segments_options how = {.progress = transfer_show, .arg = transfer};
    struct segments_result result;
    struct output output;
    bool whole = false;
    struct objects *from = objects_open(o, err);
    if (!from)
        return -1;
    int status = output_open(&output, cli->output, err);
    if (!status) {
        struct error closing = {0};
        progress_begin(&transfer->progress, "reading");
        status = segments_pull(from, fileno(output.file), cli->partial, &how, &result, &whole, err);
        progress_end(&transfer->progress);
        if (output_close(&output, !status, &closing) && !status) {
            *err = closing;
            status = -1;
        }
    }
    if (!status)
        print_pulled(self, cli, objects_url(from), &result, whole, clock_monotonic_ns() - start);
    objects_close(from);
    return status;
}

static int run_pull(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    struct pull_cli cli = *(const struct pull_cli *)options;
    struct transfer transfer = {
        .self = self, .verb = "reading", .retries = cli.retries, .quiet = cli.quiet};
    struct uploading up;
    struct error err = {0};
    (void)operand_count;
    if (!cli.output)
        return command_usage(self, "no output given; use -o FILE");
    cli.from.url = operands[0];
    int status = output_must_be_regular(cli.output, "a recording", &err);
    if (status)
        return command_fail(self, &err);
    status = uploading_prepare(&up, &cli.from, NULL, &err);
    if (!status) {
        up.objects.timeout_ns = cli.timeout_ns;
        up.objects.pause = transfer_pause;
        up.objects.arg = &transfer;
        status = pull(self, &cli, &up.objects, &transfer, &err);
    }
    uploading_release(&up);
    return status ? command_fail(self, &err) : command_finish(self);
}

static const struct pull_cli defaults = {.retries = 3, .timeout_ns = 60 * SECOND_NS};

const struct command command_pull = {
    .name = "pull",
    .summary = "put a recording together that was sent in segments",
    .operands = "URL",
    .description = "Reads the segments that 'mallow push --segments' or 'mallow record --to' put\n"
                   "below URL, checks each, and puts them together to FILE: bit for bit the\n"
                   "recording that was sent. FILE appears when it is whole.\n"
                   "\n"
                   "Of a recording that still runs, or whose machine is gone, --partial takes the\n"
                   "part that is there.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct pull_cli),
    .min_operands = 1,
    .max_operands = 1,
    .run = run_pull,
};
