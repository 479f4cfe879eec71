/* cmd_report.c - `mallow report`: where the memory went. */
#include <stdio.h>
#include <unistd.h>

#include "base/human.h"
#include "cli/command.h"
#include "cli/gate.h"
#include "cli/limits.h"
#include "show/output.h"
#include "cli/view.h"
#include "page/page.h"
#include "report/report.h"
#include "trace/trace.h"

struct report_cli {
    struct view_options view;
    bool json, only_new, all_frames, heap, source_text;
    int plots, frames, index;
    int by; /* enum metric; -1: not given */
    uint64_t top, depth, min_lifetime_ns;
    const char *suppressions;
    const char *at, *html, *fail_above;
    struct gate_options gate;
};

enum { FRAMES_INLINE, FRAMES_TABLE };
enum { INDEX_AUTO, INDEX_ALWAYS, INDEX_NEVER };
enum { PLOTS_AUTO, PLOTS_ALWAYS, PLOTS_NEVER };

#define TOP_NOT_GIVEN UINT64_MAX
#define AT(field)     offsetof(struct report_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "html", OPTION_TEXT, AT(html), "OUT",
     "write a page for a browser to OUT: one file that needs nothing else",
     .completion = VALUE_FILE, .not_with = "json|at"},
    {0, "source-text", OPTION_FLAG, AT(source_text), NULL,
     "put the source lines around the call sites onto the page; needs --source-root",
     .with = "html"},
    {0, "heap", OPTION_FLAG, AT(heap), NULL,
     "also show where the free memory of the heap lies and whose blocks keep it; reads the "
     "recording twice (the text and the page always do)",
     .with = "json"},
    {0, "plots", OPTION_CHOICE, AT(plots), "auto|always|never",
     "time as a plot of several lines: on a terminal with UTF-8 (auto, the default), always (in "
     "ASCII without UTF-8), or never, which leaves out all bars"},
    {0, "by", OPTION_CHOICE, AT(by), "peak|end|allocated|temporary|calls",
     "show the call sites by this figure only (default: peak and end, and the rest in short)"},
    {'n', NULL, OPTION_COUNT, AT(top), "N",
     "show the N largest call sites, 0 for all (default 10; 20 with --by; 1000 in JSON)", 0,
     UINT32_MAX},
    {0, "frames", OPTION_CHOICE, AT(frames), "inline|table",
     "write each call site with its frames (inline, the default), or each frame once in a table, "
     "which is shorter",
     .with = "json"},
    {0, "depth", OPTION_COUNT, AT(depth), "N", "callers shown of each call site (default 8)", 1,
     100000},
    {0, "all-frames", OPTION_FLAG, AT(all_frames), NULL,
     "let wrappers such as xmalloc and frames of a language's library be call sites"},
    {0, "min-lifetime", OPTION_DURATION, AT(min_lifetime_ns), "DURATION",
     "only blocks that lived at least this long; they count from that age on"},
    {0, "only-new", OPTION_FLAG, AT(only_new), NULL,
     "with --time: leave out blocks from before the range"},
    {0, "at", OPTION_TEXT, AT(at), "peak|rss|gap|end|TIME|MARK",
     "the moment whose resident size is explained (default: those of the first four that differ)"},
    {0, "suppressions", OPTION_TEXT, AT(suppressions), "FILE",
     "leave out known leaks, listed as for LeakSanitizer, from the blocks live at the end",
     .completion = VALUE_FILE},
    {0, "fail-above", OPTION_TEXT, AT(fail_above), "FIGURE=SIZE,...",
     "exit 1 when a figure of a process is above its limit, 3 when one is not known: peak, end, "
     "allocated, temporary, calls, rss, gap"},
    {0, "index", OPTION_CHOICE, AT(index), "auto|always|never",
     "keep the figures in FILE, so that the next report of it is fast: of a large recording "
     "of your own (auto, the default), of any of your own (always), or neither keep nor use it "
     "(never)"},
    GATE_SPECS(struct report_cli, gate),
    VIEW_ALLOC_SPEC(struct report_cli, view),
    VIEW_LOOK_SPECS(struct report_cli, view),
    VIEW_SPECS(struct report_cli, view),
    OPTION_END,
};

/* The page, beside OUT until it is complete: a page that is there is whole. */
static int write_report_page(const char *path, const char *recording, struct trace *t,
                             struct symbols *symbols, struct report_options *o, struct error *err)
{
    struct output output;
    struct progress progress;
    if (output_open(&output, path, err))
        return -1;
    progress_begin(&progress, "page");
    o->progress = progress_update;
    o->progress_arg = &progress;
    int status = report_html(output.file, recording, t, symbols, o, err);
    progress_end(&progress);
    return output_close(&output, status == 0, err) ? -1 : status;
}

/* One figure of one process against its limit. */
static void judge_figure(struct gate *g, const struct gate_limit *l, const struct gate_process *p,
                         bool several)
{
    const uint64_t value = p->values.value[l->figure];
    const bool above = value > l->amount;
    const char *unknown = above ? NULL : p->values.unknown[l->figure];
    const struct gate_place *at =
        (unsigned)l->figure < METRICS ? &p->place[l->figure] : &(struct gate_place){0};
    char whose[300] = "", text[HUMAN_TEXT_BYTES], name[sizeof l->text + sizeof whose];
    if (several)
        snprintf(whose, sizeof whose, " of process %u (%.200s)", p->pid, p->exe ? p->exe : "");
    snprintf(name, sizeof name, "%s%s", l->text, whose);
    if (gate_in_bytes(l->figure))
        human_size(text, value);
    else
        human_count(text, value);
    if (unknown)
        gate_judge(g, GATE_UNKNOWN, name, NULL, 0, "%s%s: not known whether it is above %s: %s",
                   gate_words(l->figure), whose, l->text, unknown);
    else if (above && at->function)
        gate_judge(g, GATE_ABOVE, name, at->file, at->line, "%s%s: %s, above %s; most of it at %s",
                   gate_words(l->figure), whose, text, l->text, at->function);
    else
        gate_judge(g, above ? GATE_ABOVE : GATE_BELOW, name, NULL, 0, "%s%s: %s, %s %s",
                   gate_words(l->figure), whose, text, above ? "above" : "not above", l->text);
}

/* The exit status: the figures against the limits. */
static int judge_report(const struct command *self, const struct report_cli *cli,
                        const struct gate_limits *limits, const struct gate_processes *read,
                        const char *path)
{
    struct gate g = {.self = self, .options = &cli->gate};
    for (size_t i = 0; i < read->count; i++)
        for (size_t k = 0; k < limits->count; k++)
            judge_figure(&g, &limits->items[k], &read->items[i], read->count > 1);
    for (size_t k = 0; k < limits->count && !read->count; k++)
        gate_judge(&g, GATE_UNKNOWN, limits->items[k].text, NULL, 0,
                   "%s: not known, there is no process in the recording",
                   gate_words(limits->items[k].figure));
    return gate_finish(&g, path);
}

static int run_report(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct report_cli *cli = options;
    struct error err;
    (void)operand_count;
    if (cli->only_new && !cli->view.time.range.from && !cli->view.time.marks)
        return command_usage(self, "--only-new needs the start of a range, as in --time 10s..");
    struct report_options o = view_filters(&cli->view);
    o.select.min_lifetime_ns = cli->min_lifetime_ns;
    o.select.only_new = cli->only_new;
    o.suppressions = cli->suppressions;
    o.at = cli->at;
    o.by = cli->by < 0 ? BY_PEAK : (enum metric)cli->by;
    o.by_given = cli->by >= 0;
    o.top = cli->top == TOP_NOT_GIVEN ? 0 : cli->top ? cli->top : REPORT_ALL;
    o.depth = (unsigned)cli->depth;
    o.all_frames = cli->all_frames;
    if (cli->source_text && !o.look.source_root)
        return command_usage(self, "--source-text needs --source-root with the directory below "
                                   "which sources may be read");
    o.sources = cli->source_text ? o.look.source_root : NULL;
    o.frame_table = cli->frames == FRAMES_TABLE;
    if (!cli->json && !cli->html)
        view_looks(&o);
    o.heap = cli->heap;
    o.plots = cli->plots == PLOTS_ALWAYS ||
              (cli->plots == PLOTS_AUTO && o.unicode && terminal_draws(STDOUT_FILENO));
    o.numbers = cli->plots == PLOTS_NEVER;

    struct gate_limits limits;
    struct gate_processes read = {.places = cli->gate.annotate == GATE_GITHUB};
    if (gate_parse(&limits, cli->fail_above, false, GATE_FIGURES, &err) ||
        view_alloc_fns(&cli->view, &o.look, &err))
        return command_fail(self, &err);
    o.gate = limits.count ? &read : NULL;

    static const enum trace_index index[] = {[INDEX_AUTO] = TRACE_INDEX_WRITE,
                                             [INDEX_ALWAYS] = TRACE_INDEX_ALWAYS,
                                             [INDEX_NEVER] = TRACE_INDEX_NONE};
    const struct trace_open_options open = {.columns = report_columns(),
                                            .to_ns = o.select.to_ns,
                                            .threads = (unsigned)cli->view.threads,
                                            .index = index[cli->index]};
    struct trace *t = view_open_as(operands[0], &open, &err);
    if (!t)
        return command_fail(self, &err);
    struct symbols *symbols = view_symbols(&cli->view, &err);
    int status = symbols ? view_times(&cli->view, t, &o, &err) : -1;
    if (!status)
        status = cli->html   ? write_report_page(cli->html, operands[0], t, symbols, &o, &err)
                 : cli->json ? report_json(stdout, operands[0], t, symbols, &o, &err)
                             : report_text(stdout, operands[0], t, symbols, &o, &err);
    symbols_free(symbols);
    if (status)
        status = command_fail(self, &err);
    else
        status = command_finish(self);
    if (!status && limits.count)
        status = judge_report(self, cli, &limits, &read, operands[0]);
    gate_release(&read);
    trace_close(t);
    return status;
}

static const struct report_cli defaults = {.view = VIEW_DEFAULTS, .by = -1, .top = TOP_NOT_GIVEN};

const struct command command_report = {
    .name = "report",
    .summary = "say where the memory of a recorded program went",
    .operands = "FILE",
    .description = "Reads a recording of 'mallow record' and says how much memory was live at the\n"
                   "peak and when, call sites of the blocks live at the end, how sizes\n"
                   "and lifetimes are distributed, and why more was resident than asked for.\n"
                   "\n"
                   "Of several processes, all are listed and the one with the highest peak is\n"
                   "shown in detail; -p chooses another. Filters combine.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct report_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_report,
};
