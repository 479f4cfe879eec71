/* cmd_diff.c - `mallow diff`: what changed between two recordings, by call stack. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "cli/command.h"
#include "cli/gate.h"
#include "cli/limits.h"
#include "show/output.h"
#include "cli/view.h"
#include "page/page.h"
#include "report/diff.h"

#define TOP_NOT_GIVEN UINT64_MAX

struct diff_cli {
    struct view_options view;
    bool json;
    int by; /* enum metric; -1: not given */
    uint64_t top, depth;
    const char *fail_above, *html;
    struct gate_options gate;
};

#define AT(field) offsetof(struct diff_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "write a page for a browser to OUT: one file that needs nothing else",
     .completion = VALUE_FILE, .not_with = "json"},
    {0, "by", OPTION_CHOICE, AT(by), "peak|end|allocated|temporary|calls",
     "order by the growth of this figure (default: end, then peak; in JSON peak)"},
    {'n', NULL, OPTION_COUNT, AT(top), "N",
     "show the N call sites that grew most, and that shrank most (default 10; in JSON 1000, 0: "
     "all)",
     0, UINT32_MAX},
    {0, "depth", OPTION_COUNT, AT(depth), "N", "callers shown of each call site (default 8)", 1,
     100000},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "[FIGURE=]SIZE|P%,...",
     "exit 1 when a figure grew by more than this, 3 when that is not known: peak, end, allocated, "
     "temporary, calls, rss, gap (without a name: that of --by, default peak)"},
    GATE_SPECS(struct diff_cli, gate),
    VIEW_ALLOC_SPEC(struct diff_cli, view),
    VIEW_LOOK_SPECS(struct diff_cli, view),
    VIEW_OTHER_SPECS(struct diff_cli, view),
    OPTION_END,
};

/* The growth of one figure against its limit. */
static void judge_growth(struct gate *g, const struct gate_limit *l, const struct diff *d)
{
    const uint64_t old = d->old.gate.value[l->figure], now = d->now.gate.value[l->figure];
    const uint64_t growth = now > old ? now - old : 0;
    const bool above = l->percent ? (double)growth > l->share * (double)old : growth > l->amount;
    const char *unknown = d->old.gate.unknown[l->figure] ? d->old.gate.unknown[l->figure]
                                                         : d->now.gate.unknown[l->figure];
    const struct name_frame *at =
        above && (unsigned)l->figure < METRICS ? diff_grown_most(d, (enum metric)l->figure) : NULL;
    char text[HUMAN_TEXT_BYTES];
    if (gate_in_bytes(l->figure))
        human_size(text, growth);
    else
        human_count(text, growth);
    if (unknown)
        gate_judge(g, GATE_UNKNOWN, l->text, NULL, 0,
                   "%s: not known whether it grew by more than %s: %s", gate_words(l->figure),
                   l->text, unknown);
    else if (at)
        gate_judge(g, GATE_ABOVE, l->text, at->file, at->line,
                   "%s: grew by %s, more than %s; most of it at %s", gate_words(l->figure), text,
                   l->text, at->function);
    else
        gate_judge(g, above ? GATE_ABOVE : GATE_BELOW, l->text, NULL, 0, "%s: grew by %s, %s %s",
                   gate_words(l->figure), text, above ? "more than" : "not more than", l->text);
}

static int judge_diff(const struct command *self, const struct diff_cli *cli,
                      const struct gate_limits *limits, const struct diff *d)
{
    struct gate g = {.self = self, .options = &cli->gate};
    for (size_t i = 0; i < limits->count; i++)
        judge_growth(&g, &limits->items[i], d);
    return gate_finish(&g, d->now.path);
}

static int write_diff_page(const char *path, const struct diff *d, struct symbols *symbols,
                           const struct report_options *o, struct error *err)
{
    struct output output;
    if (output_open(&output, path, err))
        return -1;
    int status = diff_html(output.file, d, symbols, o, err);
    return output_close(&output, status == 0, err) ? -1 : status;
}

static int run_diff(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct diff_cli *cli = options;
    struct gate_limits limits;
    struct error err;
    struct diff d = {0};
    (void)operand_count;
    struct report_options o = view_filters(&cli->view);
    o.by = cli->by < 0 ? BY_PEAK : (enum metric)cli->by;
    o.by_given = cli->by >= 0;
    o.top = cli->top == TOP_NOT_GIVEN ? 0 : cli->top ? cli->top : REPORT_ALL;
    o.depth = (unsigned)cli->depth;
    if (gate_parse(&limits, cli->fail_above, true, (enum gate_figure)o.by, &err) ||
        view_alloc_fns(&cli->view, &o.look, &err))
        return command_fail(self, &err);
    if (!cli->json && !cli->html)
        view_looks(&o);
    struct symbols *symbols = view_symbols(&cli->view, &err);
    struct trace *old =
        symbols ? view_open(operands[0], report_columns(), o.select.to_ns, cli->view.threads, &err)
                : NULL;
    struct trace *now =
        old ? view_open(operands[1], report_columns(), o.select.to_ns, cli->view.threads, &err)
            : NULL;
    struct report_options of_old = o; /* marks have times of their own in each */
    int status = now ? view_times(&cli->view, old, &of_old, &err) : -1;
    if (!status)
        status = view_times(&cli->view, now, &o, &err);
    if (!status)
        status = diff_build(&d, operands[0], old, &of_old, operands[1], now, &o, symbols, &err);
    if (!status && cli->html)
        status = write_diff_page(cli->html, &d, symbols, &o, &err);
    else if (!status && cli->json)
        diff_json(stdout, &d, symbols, &o);
    else if (!status)
        diff_text(stdout, &d, symbols, &o);
    if (!status) {
        view_tell_losses(self, operands[0], old);
        view_tell_losses(self, operands[1], now);
    }
    status = status ? command_fail(self, &err) : command_finish(self);
    if (!status && limits.count)
        status = judge_diff(self, cli, &limits, &d);
    diff_release(&d);
    trace_close(old);
    trace_close(now);
    symbols_free(symbols);
    return status;
}

static const struct diff_cli defaults = {.view = VIEW_DEFAULTS, .by = -1, .top = TOP_NOT_GIVEN};

const struct command command_diff = {
    .name = "diff",
    .summary = "say what changed between two recordings, by call stack",
    .operands = "OLD NEW",
    .description =
        "Compares two recordings of 'mallow record' by call stack: bytes live at the\n"
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
    .run = run_diff,
};
