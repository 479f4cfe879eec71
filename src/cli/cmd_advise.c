/* cmd_advise.c - `mallow advise`: what would make a program's resident size smaller, measured.
 *
 * The recording up to a moment is replayed under each setting that its findings suggest. */
#include "cli/advise_show.h"
#include "cli/command.h"
#include "show/output.h"
#include "cli/view.h"
#include "replay/run.h"
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
            error_set(&err, ERROR_USAGE, "%s has no such process that allocated", operands[0]);
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
