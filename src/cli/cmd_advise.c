/* cmd_advise.c - `mallow advise`: what would make a program's resident size smaller, measured.
 *
 * The recording up to a moment is replayed under each setting that its findings suggest. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/advice.h"
#include "base/text.h"
#include "cli/advise_replay.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/view.h"
#include "frames/select.h"
#include "model/replay.h"
#include "replay/run.h"
#include "report/explained.h"
#include "report/frame_texts.h"
#include "report/sections.h"
#include "workload/convert.h"

struct advise_cli {
    struct view_options view;
    bool json, lossy;
    const char *at;
    uint64_t rounds;
    struct option_texts settings;
};

#define AT(field) offsetof(struct advise_cli, field)

static const struct option_spec specs[] = {
    {0, "json", OPTION_FLAG, AT(json), NULL, "one JSON document instead of text"},
    {0, "at", OPTION_TEXT, AT(at), "peak|rss|gap|end|TIME|MARK",
     "the moment whose resident size is to become smaller (default gap: where most is resident "
     "above the live bytes)"},
    {0, "rounds", OPTION_COUNT, AT(rounds), "N", "replay each setting N times (default 5)", 2,
     REMEDY_ROUNDS},
    {0, "set", OPTION_TEXTS, AT(settings), "K=V",
     "try this setting of glibc's malloc, too, as of mallow replay; may be repeated"},
    {0, "lossy", OPTION_FLAG, AT(lossy), NULL,
     "take a recording that lost calls; it is refused otherwise"},
    VIEW_PID_SPEC(struct advise_cli, view),
    VIEW_DEBUG_SPECS(struct advise_cli, view),
    OPTION_END,
};

struct advising {
    const struct advise_cli *o;
    struct trace *trace;
    struct symbols *symbols;
    uint32_t image;
    const struct trace_image *of;
    struct model *model;
    struct names *names;
    struct explained_list list; /* one */
    struct advice advice[ADVICE_KINDS];
    size_t advice_count;
    struct remedy remedies[REMEDIES];
    size_t count;
    char workload[64];         /* path; "" when there is none */
    double replayed, recorded; /* resident bytes of the heap, at the moment */
};

/* ---- the settings tried ---- */

static void try_setting(struct advising *a, const char *setting, const char *text)
{
    struct remedy *r = &a->remedies[a->count];
    for (size_t i = 0; i < a->count; i++)
        if (!strcmp(a->remedies[i].setting, setting))
            return;
    if (a->count == REMEDIES || strlen(setting) > sizeof r->spec - 16)
        return;
    *r = (struct remedy){.text = text};
    snprintf(r->spec, sizeof r->spec, "glibc+%s", setting);
    r->setting = r->spec + strlen("glibc+");
    if (!strncmp(setting, "glibc.", 6))
        snprintf(r->environment, sizeof r->environment, "GLIBC_TUNABLES=%s", setting);
    a->count++;
}

static void try_allocators(struct advising *a)
{
    char path[PATH_MAX];
    struct error ignored;
    for (size_t i = 0; replay_allocators[i]; i++) {
        const char *name = replay_allocators[i];
        struct remedy *r = &a->remedies[a->count];
        if (!strcmp(name, "glibc") || a->count == REMEDIES ||
            replay_find_allocator(name, path, &ignored))
            continue;
        *r = (struct remedy){.text = "another allocator"};
        snprintf(r->spec, sizeof r->spec, "%s", name);
        r->setting = r->spec;
        if (strlen(path) < sizeof r->environment - 16)
            snprintf(r->environment, sizeof r->environment, "LD_PRELOAD=%s", path);
        a->count++;
    }
}

static void try_arenas(struct advising *a, const char *text)
{
    const size_t arenas = a->list.items[0].pinned.arena_count;
    for (size_t n = 1; n < arenas && n <= 4; n *= 2) {
        char setting[64];
        snprintf(setting, sizeof setting, "glibc.malloc.arena_max=%zu", n);
        try_setting(a, setting, text);
    }
}

static void choose_remedies(struct advising *a)
{
    const struct explained *e = &a->list.items[0];
    a->advice_count = advice_find(a->of, e, model_threshold(a->model), a->advice);
    for (size_t i = 0; i < a->advice_count; i++) {
        const enum advice_kind kind = a->advice[i].kind;
        const char *text = advice_text(kind);
        switch (kind) {
        case ADVICE_TRIM: try_setting(a, "malloc_trim=end", text); break;
        case ADVICE_ARENA_MAX: try_arenas(a, text); break;
        case ADVICE_POOL: break; /* no setting does that */
        case ADVICE_ALLOCATOR: try_allocators(a); break;
        default: try_setting(a, advice_setting(kind), text); break;
        }
    }
    for (size_t i = 0; i < a->o->settings.count; i++)
        try_setting(a, a->o->settings.items[i], NULL);
}

/* ---- the recording ---- */

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

static int read_recording(struct advising *a, struct error *err)
{
    const struct model_filter all = {0};
    const struct report_options o = {.at = a->o->at ? a->o->at : "gap"};
    if (model_replay(a->trace, a->image, &all, &a->model, err) ||
        explained_find(a->trace, a->image, a->model, &o, &a->list, err))
        return -1;
    if (!a->list.count)
        return error_set(err, ERROR_USAGE, "process %u has no such moment", a->of->pid);
    if (!a->list.items[0].measured_ns)
        return error_set(err, ERROR_UNSUPPORTED,
                         "the resident size was not measured at that moment; mallow report --at "
                         "names the nearest");
    if (!a->list.items[0].glibc)
        return error_set(err, ERROR_UNSUPPORTED,
                         "process %u ran with %s; mallow knows what to advise for glibc's malloc",
                         a->of->pid, a->of->allocator);
    return 0;
}

/* The calls up to the measurement, in a file that is gone afterwards. */
static int write_workload(struct advising *a, struct progress *bar, struct error *err)
{
    const struct workload_options how = {.lossy = a->o->lossy,
                                         .to_ns = a->list.items[0].measured_ns};
    struct workload_written written;
    const char *directory = getenv("TMPDIR");
    char pattern[sizeof a->workload - 16];
    if (!directory || directory[0] != '/' || strlen(directory) > sizeof pattern - 32)
        directory = "/tmp";
    snprintf(pattern, sizeof pattern, "%s/mallow-advise-XXXXXX", directory);
    if (!mkdtemp(pattern))
        return error_system(err, "cannot make a directory in %s", directory);
    snprintf(a->workload, sizeof a->workload, "%s/calls.mwl", pattern);
    return workload_convert(a->trace, a->image, a->workload, &how, &written, progress_update, bar,
                            err);
}

static void remove_workload(struct advising *a)
{
    if (!a->workload[0])
        return;
    unlink(a->workload);
    *strrchr(a->workload, '/') = 0;
    rmdir(a->workload);
}

/* ---- output ---- */

static const char *setting_of(const struct remedy *r)
{
    return strcmp(r->setting, "malloc_trim=end") ? r->setting : "malloc_trim";
}

static void signed_size(struct buffer *b, double bytes)
{
    char n[HUMAN_TEXT_BYTES];
    buffer_printf(b, "%s%s", bytes < 0 ? "-" : "", human_size(n, (uint64_t)fabs(bytes)));
}

static void print_remedy(const struct page *p, const struct remedy *r)
{
    struct buffer b = {0}, saves = {0};
    signed_size(&saves, r->saves);
    page_right(&b, buffer_text(&saves), 11);
    buffer_append_text(&b, "  (");
    signed_size(&b, r->low);
    buffer_append_text(&b, " .. ");
    signed_size(&b, r->high);
    buffer_append_char(&b, ')');
    if (r->cpu.method != STATS_NONE)
        buffer_printf(&b, ", CPU time %+.1f %% (%+.1f .. %+.1f)", 100 * (r->cpu.ratio - 1),
                      100 * (r->cpu.low - 1), 100 * (r->cpu.high - 1));
    buffer_printf(&b, ": %s", r->environment[0] ? r->environment : setting_of(r));
    page_wrap(p, &b, 13);
    if (r->text) {
        buffer_clear(&b);
        buffer_printf(&b, "             %s", r->text);
        page_wrap(p, &b, 13);
    }
    buffer_release(&b);
    buffer_release(&saves);
}

static void print_unmeasured(const struct advising *a, const struct page *p)
{
    char n[HUMAN_TEXT_BYTES];
    for (size_t i = 0; i < a->advice_count; i++) {
        struct buffer b = {0};
        if (a->advice[i].kind != ADVICE_POOL)
            continue;
        page_heading(p, "Not measured, at most by the addresses");
        page_right(&b, human_size(n, a->advice[i].saves_bytes), 11);
        buffer_printf(&b, "  %s: ", advice_text(ADVICE_POOL));
        section_print_site(p, &b, a->names, section_site(a->names, a->advice[i].stack));
        page_wrap(p, &b, 13);
        buffer_release(&b);
    }
}

static void print_text(const struct advising *a)
{
    struct report_options looks = {0};
    const struct explained *e = &a->list.items[0];
    const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    view_looks(&looks);
    const struct page page = {
        .out = stdout, .columns = looks.columns, .unicode = looks.unicode, .bold = looks.bold};
    buffer_printf(&b, "process %u, ", a->of->pid);
    buffer_printf(&b, "%s after the start: ", human_duration(n, e->measured_ns - a->of->start_ns));
    buffer_printf(&b, "%s resident", human_size(n, program));
    buffer_printf(&b, ", %s live", human_size(n, e->live_bytes));
    page_wrap(&page, &b, 2);
    buffer_clear(&b);
    if (!a->count) {
        buffer_append_text(&b, "No setting that mallow knows would save a twentieth of it.");
        page_wrap(&page, &b, 2);
        buffer_release(&b);
        print_unmeasured(a, &page);
        return;
    }
    buffer_printf(&b, "replayed up to there, %zu times for each setting: ", (size_t)a->o->rounds);
    signed_size(&b, a->replayed);
    buffer_append_text(&b, " of the heap were resident; in the program ");
    signed_size(&b, a->recorded);
    buffer_append_text(&b, " of heap and anonymous memory");
    page_wrap(&page, &b, 2);
    buffer_release(&b);
    page_heading(&page, "Saves      (99 %% interval of the replays)");
    for (size_t i = 0; i < a->count; i++)
        print_remedy(&page, &a->remedies[i]);
    print_unmeasured(a, &page);
}

static void json_share(struct json *j, const char *key, double value)
{
    char text[64];
    json_raw(j, key, text, (size_t)snprintf(text, sizeof text, "%.4f", value));
}

static void json_remedy(struct json *j, const struct remedy *r)
{
    json_open_object(j, NULL);
    json_text(j, "text", r->text ? r->text : r->setting);
    json_text(j, "setting", setting_of(r));
    json_bool(j, "measured", true);
    json_signed(j, "saves_bytes", llround(r->saves));
    json_signed(j, "saves_low_bytes", llround(r->low));
    json_signed(j, "saves_high_bytes", llround(r->high));
    if (r->cpu.method != STATS_NONE) {
        json_share(j, "cpu_ratio", r->cpu.ratio);
        json_share(j, "cpu_ratio_low", r->cpu.low);
        json_share(j, "cpu_ratio_high", r->cpu.high);
    } else {
        json_null(j, "cpu_ratio");
    }
    json_text(j, "command", r->environment[0] ? r->environment : NULL);
    json_close_object(j);
}

static void print_json(const struct advising *a, const char *path)
{
    struct json j = {.out = stdout};
    struct frame_texts texts = {0};
    const struct explained *e = &a->list.items[0];
    json_open_object(&j, NULL);
    json_number(&j, "schema", 1);
    json_text(&j, "file", path);
    json_number(&j, "pid", a->of->pid);
    json_text(&j, "at", a->o->at ? a->o->at : "gap");
    json_signed(&j, "measured_ns", (int64_t)(e->measured_ns - a->of->start_ns));
    json_number(&j, "rss_bytes", e->resident_bytes);
    json_number(&j, "live_bytes", e->live_bytes);
    json_number(&j, "rounds", (size_t)a->o->rounds);
    if (a->count) {
        json_number(&j, "recorded_heap_bytes", (uint64_t)a->recorded);
        json_signed(&j, "replayed_heap_bytes", llround(a->replayed));
    }
    json_open_array(&j, "advice");
    for (size_t i = 0; i < a->count; i++)
        json_remedy(&j, &a->remedies[i]);
    for (size_t i = 0; i < a->advice_count; i++) {
        if (a->advice[i].kind != ADVICE_POOL)
            continue;
        json_open_object(&j, NULL);
        json_text(&j, "text", advice_text(ADVICE_POOL));
        json_text(&j, "setting", advice_setting(ADVICE_POOL));
        json_bool(&j, "measured", false);
        json_number(&j, "saves_bytes", a->advice[i].saves_bytes);
        json_null(&j, "command");
        (void)frame_texts_stack(&j, a->advice[i].stack, &texts, a->names);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_close_object(&j);
    json_end(&j);
    frame_texts_release(&texts);
}

static int advise(struct advising *a, struct error *err)
{
    struct progress bar = {0};
    int status = read_recording(a, err);
    if (status)
        return status;
    choose_remedies(a);
    if (!a->count)
        return 0;
    progress_begin(&bar, "converting");
    status = write_workload(a, &bar, err);
    progress_end(&bar);
    if (status)
        return status;
    progress_begin(&bar, "replaying");
    const struct remedy_trial trial = {a->workload, (size_t)a->o->rounds, progress_update, &bar};
    status = remedies_measure(&trial, a->remedies, a->count, &a->replayed, err);
    progress_end(&bar);
    const struct mlw_split *s = &a->of->splits[a->list.items[0].moment.split];
    a->recorded = (double)(s->heap + s->arenas + s->anonymous);
    return status;
}

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    static struct advising advising;
    struct advising *a = &advising;
    struct error err = {0};
    (void)operand_count;
    *a = (struct advising){.o = options};
    for (size_t i = 0; i < a->o->settings.count; i++)
        if (replay_check_setting(a->o->settings.items[i], &err))
            return command_usage(self, "%s", err.text);
    a->trace = view_open(operands[0], report_columns() | WORKLOAD_COLUMNS, 0, &err);
    if (!a->trace)
        return command_fail(self, &err);
    const int64_t image = choose_image(trace_info(a->trace), a->o->view.pid);
    int status = -1;
    if (image < 0) {
        error_set(&err, ERROR_USAGE, "%s has no such process that allocated", operands[0]);
    } else {
        a->image = (uint32_t)image;
        a->of = &trace_info(a->trace)->images[image];
        a->symbols = view_symbols(&a->o->view, &err);
        a->names = a->symbols ? names_new(a->symbols, a->of, &err) : NULL;
        status = a->names ? advise(a, &err) : -1;
    }
    remove_workload(a);
    if (!status && a->o->json)
        print_json(a, operands[0]);
    else if (!status)
        print_text(a);
    explained_release(&a->list);
    model_free(a->model);
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
        "malloc_trim, fewer arenas, thresholds that stay, other allocators. Says what\n"
        "each saves at that moment, with an interval and its cost in CPU time.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct advise_cli),
    .min_operands = 1,
    .max_operands = 1,
    .flags = COMMAND_FILES,
    .run = run,
};
