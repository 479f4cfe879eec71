/* cmd_advise.c - `mallow advise`: what would make a program's resident size smaller, measured.
 *
 * The recording up to a moment is replayed under each setting that its findings suggest. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "advise/advise.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/view.h"
#include "replay/run.h"
#include "report/sections.h"
#include "show/frame_texts.h"
#include "show/output.h"
#include "workload/convert.h"

/* The results of `mallow advise`, as text and as JSON. */

/* An interval of 99 % of two replays is some forty times as wide as they are apart. */
enum { INTERVAL_ROUNDS = 3 };

static const char *setting_of(const struct remedy *r)
{
    return strcmp(r->setting, "malloc_trim=end") ? r->setting : "malloc_trim";
}

/* The advice whose call site the remedy is about; NULL for none, or for several. */
static const struct advice *advice_of(const struct advising *a, const struct remedy *r)
{
    const unsigned bits = r->pooled | r->left_out;
    for (size_t i = 0; i < a->advice_count; i++)
        if (a->pool_of[i] && bits == 1u << (a->pool_of[i] - 1))
            return &a->advice[i];
    return NULL;
}

/* True if no replay shows what it saves. */
static bool is_unmeasured(const struct advising *a, const struct advice *v)
{
    return (v->kind == ADVICE_RELEASE && !advise_replays_release(a)) || v->kind == ADVICE_SHRINK ||
           v->kind == ADVICE_STACKS || v->kind == ADVICE_FILES || v->kind == ADVICE_HUGE ||
           v->kind == ADVICE_DONTNEED;
}

static void put_signed_size(struct buffer *b, double bytes)
{
    buffer_printf(b, "%s%s", bytes < 0 ? "-" : "", SIZE((uint64_t)fabs(bytes)));
}

/* "these 41,000 blocks of parse", and where that is */
static void put_advised_blocks(const struct advising *a, const struct page *p, struct buffer *b,
                               const struct advice *v)
{
    if (v->blocks == 1)
        buffer_append_text(b, "this block of ");
    else
        buffer_printf(b, "these %s blocks of ", COUNT(v->blocks));
    section_print_site(p, b, a->names, section_site(a->names, v->stack));
}

static void put_remedy(const struct advising *a, const struct page *p, struct buffer *b,
                       const struct remedy *r)
{
    const struct advice *v = advice_of(a, r);
    if (v && r->left_out)
        buffer_append_text(b, "without ");
    if (v)
        put_advised_blocks(a, p, b, v);
    else if (r->pooled)
        buffer_append_text(b, "the blocks of all these call sites");
    else
        buffer_append_text(b, r->environment[0] ? r->environment : setting_of(r));
    if (r->pooled)
        buffer_append_text(b, !v               ? ", a pool for each"
                              : v->blocks == 1 ? " in a pool of its own"
                                               : " in a pool of their own");
    if (!strcmp(r->setting, ADVISE_POOL_AND_TRIM))
        buffer_append_text(b, ", and then malloc_trim(0)");
}

/* True if it is more than a hundredth of the resident size: less, no one would notice. */
static bool does_save(const struct advising *a, const struct remedy *r)
{
    return r->saves * 100 >= (double)a->list.items[0].resident_bytes;
}

static bool has_intervals(const struct advising *a) { return a->o->rounds >= INTERVAL_ROUNDS; }

/* The interval, and what it costs in time. */
static void put_costs(const struct advising *a, struct buffer *b, const struct remedy *r)
{
    if (has_intervals(a)) {
        buffer_append_char(b, '(');
        put_signed_size(b, r->low);
        buffer_append_text(b, " .. ");
        put_signed_size(b, r->high);
        buffer_append_text(b, "), ");
    }
    if (r->cpu.method != STATS_NONE) {
        buffer_printf(b, "CPU time %+.1f %%", 100 * (r->cpu.ratio - 1));
        if (has_intervals(a))
            buffer_printf(b, " (%+.1f .. %+.1f)", 100 * (r->cpu.low - 1), 100 * (r->cpu.high - 1));
        buffer_append_text(b, ": ");
    }
}

static void print_remedy(const struct advising *a, const struct page *p, const struct remedy *r)
{
    const struct advice *v = advice_of(a, r);
    const char *text = v ? advice_text(v->kind) : r->text;
    struct buffer b = {0}, saves = {0};
    put_signed_size(&saves, r->saves);
    page_right(&b, buffer_text(&saves), 11);
    buffer_append_text(&b, "  ");
    put_costs(a, &b, r);
    put_remedy(a, p, &b, r);
    page_wrap(p, &b, 13);
    if (text && does_save(a, r)) {
        buffer_clear(&b);
        buffer_printf(&b, "             %s", text);
        page_wrap(p, &b, 13);
    }
    buffer_release(&b);
    buffer_release(&saves);
}

static void print_remedies(const struct advising *a, const struct page *p)
{
    if (!a->count)
        return;
    const bool any = does_save(a, &a->remedies[0]); /* the largest saving stands first */
    const char *interval = has_intervals(a)
                               ? "(99 % interval of the replays)"
                               : "(no intervals: two replays of each are too few, see --rounds)";
    page_heading(
        p, any ? "Saves      %s" : "Tried, and nothing saves a hundredth of the resident size  %s",
        interval);
    for (size_t i = 0; i < a->count; i++) { /* they stand in order */
        if (i && !does_save(a, &a->remedies[i]) && does_save(a, &a->remedies[i - 1]))
            page_heading(p, "Tried, and saves less than a hundredth of the resident size, or "
                            "costs memory");
        print_remedy(a, p, &a->remedies[i]);
    }
}

static void print_unmeasured(const struct advising *a, const struct page *p)
{
    bool any = false;
    for (size_t i = 0; i < a->advice_count; i++) {
        const struct advice *v = &a->advice[i];
        struct buffer b = {0};
        if (!is_unmeasured(a, v))
            continue;
        if (!any)
            page_heading(p, "Saves at most, by the kernel's count (a replay cannot show it)");
        any = true;
        buffer_printf(&b, "%11s  %s", SIZE(v->most_bytes), advice_text(v->kind));
        if (v->saves_address_bytes)
            buffer_printf(&b, " (%s)", SIZE(v->saves_address_bytes));
        if (advice_has_site(v->kind)) {
            buffer_append_text(&b, ": ");
            put_advised_blocks(a, p, &b, v);
        }
        page_wrap(p, &b, 13);
    }
}

/* Print to standard output. `path`: the recording's. */
static void advise_print_text(const struct advising *a)
{
    struct report_options looks = {0};
    const struct explained *e = &a->list.items[0];
    const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
    struct buffer b = {0};
    view_looks(&looks);
    const struct page page = {
        .out = stdout, .columns = looks.columns, .unicode = looks.unicode, .bold = looks.bold};
    buffer_printf(&b, "process %u, %s after the start: %s resident, %s live", a->of->pid,
                  TIME(e->measured_ns - a->of->start_ns), SIZE(program), SIZE(e->live_bytes));
    page_wrap(&page, &b, 2);
    if (a->count) {
        buffer_printf(&b, "replayed up to there, %zu times for each setting: ", a->o->rounds);
        put_signed_size(&b, a->replayed);
        buffer_append_text(&b, " of the heap were resident; in the program ");
        put_signed_size(&b, a->recorded);
        buffer_append_text(&b, " of heap and anonymous memory");
    } else {
        buffer_append_text(&b, "No setting that mallow knows would save a twentieth of it.");
    }
    page_wrap(&page, &b, 2);
    print_remedies(a, &page);
    print_unmeasured(a, &page);
}

static void json_share(struct json *j, const char *key, double value)
{
    char text[64];
    json_raw(j, key, text, (size_t)snprintf(text, sizeof text, "%.4f", value));
}

static void json_site(struct json *j, const struct advising *a, const struct advice *v,
                      struct frame_texts *texts)
{
    json_number(j, "blocks", v->blocks);
    (void)frame_texts_stack(j, v->stack, texts, a->names);
}

static void json_remedy(struct json *j, const struct advising *a, const struct remedy *r,
                        struct frame_texts *texts)
{
    const struct advice *v = advice_of(a, r);
    const char *text = v || r->pooled ? advice_text(v ? v->kind : ADVICE_POOL) : r->text;
    json_open_object(j, NULL);
    json_text(j, "text", text ? text : r->setting);
    json_text(j, "setting", setting_of(r));
    json_bool(j, "measured", true);
    json_signed(j, "saves_bytes", llround(r->saves));
    json_signed(j, "saves_low_bytes", llround(r->low));
    json_signed(j, "saves_high_bytes", llround(r->high));
    if (r->cpu.method != STATS_NONE) {
        json_share(j, "cpu_ratio", r->cpu.ratio);
        if (has_intervals(a)) {
            json_share(j, "cpu_ratio_low", r->cpu.low);
            json_share(j, "cpu_ratio_high", r->cpu.high);
        } else {
            json_null(j, "cpu_ratio_low");
            json_null(j, "cpu_ratio_high");
        }
    } else {
        json_null(j, "cpu_ratio");
    }
    json_text(j, "command", r->environment[0] ? r->environment : NULL);
    if (v)
        json_site(j, a, v, texts);
    else if (r->pooled)
        json_number(j, "call_sites", (uint64_t)__builtin_popcount(r->pooled));
    json_close_object(j);
}

static void json_unmeasured(struct json *j, const struct advising *a, const struct advice *v,
                            struct frame_texts *texts)
{
    json_open_object(j, NULL);
    json_text(j, "text", advice_text(v->kind));
    json_text(j, "setting", advice_setting(v->kind));
    json_bool(j, "measured", false);
    json_number(j, "saves_bytes", v->most_bytes); /* at most, as the kernel counted it */
    if (v->saves_address_bytes)
        json_number(j, "saves_address_bytes", v->saves_address_bytes);
    json_null(j, "command");
    if (advice_has_site(v->kind))
        json_site(j, a, v, texts);
    json_close_object(j);
}

static void advise_print_json(const struct advising *a, const char *path)
{
    struct json j = {.out = stdout};
    struct frame_texts texts = {0};
    const struct explained *e = &a->list.items[0];
    json_begin(&j);
    json_text(&j, "file", path);
    json_number(&j, "pid", a->of->pid);
    json_text(&j, "at", a->o->at);
    json_signed(&j, "measured_ns", (int64_t)(e->measured_ns - a->of->start_ns));
    json_number(&j, "rss_bytes", e->resident_bytes);
    json_number(&j, "live_bytes", e->live_bytes);
    json_number(&j, "rounds", a->o->rounds);
    if (a->count) {
        json_number(&j, "recorded_heap_bytes", (uint64_t)a->recorded);
        json_signed(&j, "replayed_heap_bytes", llround(a->replayed));
    }
    json_open_array(&j, "advice"); /* both lists have most first */
    size_t k = 0;
    for (size_t i = 0; i <= a->advice_count; i++) {
        const struct advice *v = i < a->advice_count ? &a->advice[i] : NULL;
        if (v && !is_unmeasured(a, v))
            continue;
        for (; k < a->count && (!v || a->remedies[k].saves >= (double)v->most_bytes); k++)
            json_remedy(&j, a, &a->remedies[k], &texts);
        if (v)
            json_unmeasured(&j, a, v, &texts);
    }
    json_close_array(&j);
    json_close_object(&j);
    json_end(&j);
    frame_texts_release(&texts);
}

struct advise_cli {
    struct view_options view;
    bool json, lossy;
    const char *at;
    uint64_t rounds;
    struct text_list settings;
};

#define AT(field) offsetof(struct advise_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "at", OPTION_TEXT, AT(at), "peak|rss|gap|end|TIME|MARK",
     "the moment whose resident size to reduce (default gap: the largest excess of resident over "
     "live bytes)"},
    {0, "rounds", OPTION_COUNT, AT(rounds), "N", "replay each setting N times (default 5)", 2,
     REMEDY_ROUNDS},
    {0, "set", OPTION_TEXTS, AT(settings), "K=V",
     "also try this setting of glibc's malloc, as in mallow replay --set; may be repeated"},
    {0, "lossy", OPTION_FLAG, AT(lossy), NULL, "accept a recording that lost calls"},
    VIEW_PID_SPEC(struct advise_cli, view),
    VIEW_DEBUG_SPECS(struct advise_cli, view),
    OPTION_END,
};

/* The process of --pid, or the one that called most. -1: there is none. */
static int64_t choose_image(const struct trace_info *info, uint64_t pid)
{
    int64_t found = -1;
    for (uint32_t i = 0; i < info->image_count; i++)
        if (info->images[i].calls && (!pid || info->images[i].pid == pid) &&
            (found < 0 || info->images[i].calls > info->images[found].calls))
            found = i;
    return found;
}

/* One bar for each thing that takes long. */
static void stage(void *arg, const char *name)
{
    progress_end(arg);
    if (name)
        progress_begin(arg, name);
}

static int run_advise(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    static struct advising advising;
    const struct advise_cli *o = options;
    struct advising *a = &advising;
    struct error err = {0};
    (void)operand_count;
    struct progress bar = {0};
    const struct advise_options how = {.at = o->at ? o->at : "gap",
                                       .rounds = (size_t)o->rounds,
                                       .lossy = o->lossy,
                                       .settings = o->settings.items,
                                       .setting_count = o->settings.count,
                                       .stage = stage,
                                       .progress = progress_update,
                                       .arg = &bar};
    *a = (struct advising){.o = &how};
    for (size_t i = 0; i < o->settings.count; i++)
        if (replay_check_setting(o->settings.items[i], &err))
            return command_usage(self, "%s", err.text);
    a->trace = view_open(operands[0], report_columns() | WORKLOAD_COLUMNS, 0, 0, &err);
    if (!a->trace)
        return command_fail(self, &err);
    const int64_t image = choose_image(trace_info(a->trace), o->view.pid);
    int status = -1;
    if (image < 0) {
        if (o->view.pid)
            error_set(&err, ERROR_USAGE, "no process of that id allocated anything in %s",
                      operands[0]);
        else
            error_set(&err, ERROR_UNSUPPORTED, "no process in %s allocated anything", operands[0]);
    } else {
        a->image = (uint32_t)image;
        a->of = &trace_info(a->trace)->images[image];
        a->symbols = view_symbols(&o->view, &err);
        a->names = a->symbols ? names_new(a->symbols, a->of, &err) : NULL;
        status = a->names ? advise_run(a, &err) : -1;
    }
    if (!status && o->json)
        advise_print_json(a, operands[0]);
    else if (!status)
        advise_print_text(a);
    advise_release(a);
    names_free(a->names);
    symbols_free(a->symbols);
    trace_close(a->trace);
    return status ? command_fail(self, &err) : command_finish(self);
}

static const struct advise_cli defaults = {.view = VIEW_DEFAULTS, .rounds = 5};

const struct command command_advise = {
    .name = "advise",
    .summary = "measure what would make a recorded program's resident size smaller",
    .operands = "FILE",
    .description =
        "Replays a recording of 'mallow record' up to a moment, by default where most was\n"
        "resident above the live bytes, under each setting that its findings suggest:\n"
        "malloc_trim, fewer arenas, thresholds that stay, other allocators, the blocks\n"
        "of a call site in a pool of their own. Prints what each saves at that moment,\n"
        "with an interval and its cost in CPU time.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct advise_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run_advise,
};
