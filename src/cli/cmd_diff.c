/* cmd_diff.c - `mallow diff`: what changed between two recordings, by call stack. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/view.h"
#include "report/diff.h"

struct diff_cli {
    struct view_options view;
    bool json;
    int by; /* enum metric; -1: not given */
    uint64_t top, depth;
    const char *fail_above, *html;
};

#define AT(field) offsetof(struct diff_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "write a page for a browser to OUT: one file that needs nothing else",
     .completion = VALUE_FILE},
    {0, "by", OPTION_CHOICE, AT(by), "peak|end|allocated|temporary|calls",
     "order by the growth of this figure (default: end, then peak; in JSON peak)"},
    {'n', NULL, OPTION_COUNT, AT(top), "N",
     "show the N call sites that grew most, and that shrank most (default 10; all in JSON)", 1,
     UINT32_MAX},
    {0, "depth", OPTION_COUNT, AT(depth), "N", "callers shown of each call site (default 8)", 1,
     100000},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "SIZE|P%",
     "exit 1 when the sum of the figure of --by (default peak) grew by more than this"},
    VIEW_OTHER_SPECS(struct diff_cli, view),
    OPTION_END,
};

/* A limit of growth: a share of the old figure, or a number. */
struct limit {
    bool given, percent;
    double share;
    uint64_t amount;
};

static bool parse_limit(const char *text, struct limit *l)
{
    memset(l, 0, sizeof *l);
    if (!text)
        return true;
    l->given = true;
    size_t n = strlen(text);
    if (!n || text[n - 1] != '%')
        return human_parse_size(text, &l->amount);
    char *end;
    l->percent = true;
    l->share = strtod(text, &end) / 100;
    return end != text && !strcmp(end, "%") && l->share >= 0 && l->share < 1e6;
}

/* Says so, and returns true, when the figure grew too much. */
static bool exceeds(const struct command *self, const struct diff *d, enum metric by,
                    const struct limit *l, const char *limit_text)
{
    static const char *const names[METRICS] = {"what is live at the peak",
                                               "what is live at the end", "what is allocated",
                                               "temporary allocations", "calls that allocate"};
    uint64_t old = figures_metric(&d->old.totals, by), now = figures_metric(&d->now.totals, by);
    char n[HUMAN_TEXT_BYTES];
    if (!l->given || now <= old)
        return false;
    if (l->percent ? (double)(now - old) <= l->share * (double)old : now - old <= l->amount)
        return false;
    bool bytes = by != BY_TEMPORARY && by != BY_CALLS;
    command_warn(self, "%s grew by %s, more than %s", names[by],
                 bytes ? human_size(n, now - old) : human_count(n, now - old), limit_text);
    return true;
}

static int write_page(const char *path, const struct diff *d, struct symbols *symbols,
                      const struct report_options *o, struct error *err)
{
    struct output output;
    if (output_open(&output, path, err))
        return -1;
    int status = diff_html(output.file, d, symbols, o, err);
    return output_close(&output, status == 0, err) ? -1 : status;
}

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    const struct diff_cli *cli = options;
    struct limit limit;
    struct error err;
    struct diff d = {0};
    (void)operand_count;
    if (!parse_limit(cli->fail_above, &limit))
        return command_usage(self,
                             "--fail-above: '%s' is neither a size like 10M nor a share like "
                             "5%%",
                             cli->fail_above);
    struct report_options o = view_filters(&cli->view);
    o.by = cli->by < 0 ? BY_PEAK : (enum metric)cli->by;
    o.by_given = cli->by >= 0;
    o.top = cli->top;
    o.depth = (unsigned)cli->depth;
    if (cli->html && cli->json)
        return command_usage(self, "--html and --json are two reports; choose one of them");
    if (!cli->json && !cli->html)
        view_looks(&o);
    struct symbols *symbols = view_symbols(&cli->view, &err);
    struct trace *old = symbols ? view_open(operands[0], report_columns(), o.to_ns, &err) : NULL;
    struct trace *now = old ? view_open(operands[1], report_columns(), o.to_ns, &err) : NULL;
    int status = -1;
    if (now)
        status = diff_build(&d, operands[0], old, operands[1], now, symbols, &o, &err);
    bool above = false;
    if (!status && cli->html)
        status = write_page(cli->html, &d, symbols, &o, &err);
    if (!status) {
        if (cli->html)
            ; /* written */
        else if (cli->json)
            diff_json(stdout, &d, symbols, &o);
        else
            diff_text(stdout, &d, symbols, &o);
        above = exceeds(self, &d, o.by, &limit, cli->fail_above);
    }
    if (!status) {
        view_tell_losses(self, operands[0], old);
        view_tell_losses(self, operands[1], now);
    }
    diff_release(&d);
    trace_close(old);
    trace_close(now);
    symbols_free(symbols);
    if (status)
        return command_fail(self, &err);
    status = command_finish(self);
    return status ? status : above ? EXIT_FAILED : EXIT_DONE;
}

static const struct diff_cli defaults = {.view = VIEW_DEFAULTS, .by = -1};

const struct command command_diff = {
    .name = "diff",
    .summary = "say what changed between two recordings, by call stack",
    .operands = "OLD NEW",
    .description =
        "Compares two recordings of 'mallow record' by call stack: what is live at the\n"
        "end and at the peak, allocated, temporary, call sites that grew first. Addresses\n"
        "may have moved and the program may have been built again: functions and modules\n"
        "are compared, not addresses and line numbers. Processes of a recording are\n"
        "added up.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct diff_cli),
    .min_operands = 2,
    .max_operands = 2,
    .flags = COMMAND_FILES,
    .run = run,
};
