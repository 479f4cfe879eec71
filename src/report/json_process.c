/* json_process.c - Writes the JSON of one process except for its call sites: calls, sizes,
 * lifetimes, timeline, threads, marks and warnings. */
#include "report/json_process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "analyse/faults.h"
#include "analyse/resident.h"
#include "base/cmdline.h"
#include "frames/names.h"
#include "report/columns.h"
#include "report/report.h"

static void write_calls(struct json *j, const char *key, const uint64_t *counts, bool zeros)
{
    json_open_object(j, key);
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        if (mlw_op_is_call(op) && (counts[op] || zeros))
            json_number(j, mlw_op_name(op), counts[op]);
    json_close_object(j);
}

static void write_classes(struct json *j, const char *key, const struct column *columns,
                          const struct report_class *of, size_t count)
{
    json_open_array(j, key);
    for (size_t i = 0; i < count; i++)
        if (of[i].sums.count)
            table_object(j, NULL, TABLE(columns), &of[i]);
    json_close_array(j);
}

static void write_histograms(struct json *j, const struct model *m)
{
    struct report_class sizes[REPORT_SIZES], lives[MODEL_LIFETIMES];
    report_sizes(m, sizes);
    for (unsigned i = 0; i < MODEL_LIFETIMES; i++)
        lives[i] = (struct report_class){model_lifetime_min_ns(i),
                                         i + 1 < MODEL_LIFETIMES ? model_lifetime_min_ns(i + 1) - 1
                                                                 : UINT64_MAX,
                                         model_lifetimes(m)[i]};
    write_classes(j, "size_histogram", report_size_columns, sizes, REPORT_SIZES);
    write_classes(j, "lifetime_histogram", report_lifetime_columns, lives, MODEL_LIFETIMES);
}

/* The exact sizes in place of samples; of a long series the largest of each stretch. The address
 * space is as at the sample before. */
static void write_levels(struct json *j, const struct table *t, const struct trace_image *image)
{
    const uint32_t step = image->level_count / 1000 + 1;
    uint32_t sample = 0;
    for (uint32_t i = 0; i < image->level_count; i += step) {
        const struct trace_level *l = level_largest(image, i, step);
        while (sample + 1 < image->resident_count &&
               image->resident[sample + 1].clock <= l->time_ns)
            sample++;
        const uint64_t vmsize = image->resident_count ? image->resident[sample].vmsize : 0;
        table_object(
            j, NULL, t,
            &(struct mlw_resident){l->time_ns, vmsize, level_resident(l), l->file + l->shared});
    }
}

static void write_timeline(struct json *j, const struct model *m)
{
    uint64_t start_ns, width_ns;
    size_t n;
    const struct trace_image *image = model_image(m);
    const struct model_bin *bins = model_timeline(m, &start_ns, &width_ns, &n);
    const struct model_totals *totals = model_totals(m);
    const struct table t = {.columns = report_sample_columns, .start_ns = image->start_ns};
    if (!totals->events && !totals->carried_blocks)
        n = 0; /* nothing was ever live */
    json_open_array(j, "timeline");
    for (size_t i = 0; i < n; i++) {
        json_open_object(j, NULL);
        json_number(j, "time_ns", start_ns + (i + 1) * width_ns - image->start_ns);
        table_fields(j, TABLE(report_bin_columns), &bins[i]);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "resident");
    if (image->level_count)
        write_levels(j, &t, image);
    size_t step = image->resident_count / 1000 + 1;
    for (size_t i = 0; i < image->resident_count && !image->level_count; i += step)
        table_object(j, NULL, &t, &image->resident[i]);
    json_close_array(j);
}

static void write_resident(struct json *j, const struct model *m)
{
    struct resident_view v;
    const struct trace_image *image = model_image(m);
    resident_at_peak(m, &v);
    const struct table t = {.columns = report_resident_columns,
                            .with = v.glibc ? REPORT_GLIBC : REPORT_OTHER,
                            .start_ns = image->start_ns};
    if (v.known) {
        json_open_object(j, "resident_at_peak");
        table_fields(j, &t, &v);
        json_signed(j, "above_live_bytes", (int64_t)(v.resident_bytes - v.live_bytes));
        json_close_object(j);
    } else {
        json_null(j, "resident_at_peak");
    }
    if (v.sampled) {
        json_number(j, "peak_rss_bytes", v.largest_bytes);
        json_signed(j, "peak_rss_time_ns", (int64_t)(v.largest_time_ns - image->start_ns));
    } else {
        json_null(j, "peak_rss_bytes");
        json_null(j, "peak_rss_time_ns");
    }
}

static void write_threshold(struct json *j, const struct model *m)
{
    static const char *const doubts[] = {NULL,         NULL,           "inherited",
                                         "lost calls", "contradicted", "no memory"};
    static const char *const starts[] = {"assumed", "default", "environment"};
    const struct threshold *t = model_threshold(m);
    const uint64_t start_ns = model_image(m)->start_ns;
    if (t->doubt == THRESHOLD_OTHER_ALLOCATOR) {
        json_null(j, "mmap_threshold");
        return;
    }
    json_open_object(j, "mmap_threshold");
    json_bool(j, "known", t->doubt == THRESHOLD_KNOWN);
    if (t->doubt)
        json_text(j, "why_not", doubts[t->doubt]);
    if (t->doubt == THRESHOLD_CONTRADICTED) {
        json_number(j, "contradiction_bytes", t->contradiction_bytes);
        json_signed(j, "contradiction_time_ns", (int64_t)(t->contradiction_ns - start_ns));
    }
    json_text(j, "start", starts[t->start]);
    json_bool(j, "fixed", t->fixed);
    json_open_array(j, "steps");
    for (size_t i = 0; i < t->count && !t->doubt; i++) {
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(t->steps[i].time_ns - start_ns));
        json_number(j, "bytes", t->steps[i].bytes);
        json_close_object(j);
    }
    json_close_array(j);
    json_close_object(j);
}

static void write_threads(struct json *j, const struct model *m)
{
    json_open_array(j, "thread_figures");
    for (uint32_t i = 0; i < model_image(m)->thread_count; i++) {
        const struct report_thread row = report_thread(m, i);
        table_object(j, NULL, TABLE(report_thread_columns), &row);
    }
    json_close_array(j);
}

const char *mark_control(const struct trace_event_note *n)
{
    static const char *const controls[] = {"",        "start", "stop", "pause",
                                           "unpause", "sync",  "reset"};
    return n->control < sizeof controls / sizeof *controls ? controls[n->control] : "control";
}

void json_marks(struct json *j, const struct trace_image *image)
{
    uint32_t shown = image->note_count < MARKS_SHOWN ? image->note_count : MARKS_SHOWN;
    json_open_array(j, "marks");
    for (uint32_t i = 0; i < shown; i++) {
        const struct trace_event_note *n = &image->event_notes[i];
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(n->time_ns - image->start_ns));
        if (n->control)
            json_text(j, "control", mark_control(n));
        else
            json_text(j, "label", n->label);
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "marks_total", image->note_count);
}

void json_warnings(struct json *j, const struct warnings *w)
{
    const char *text = buffer_text(&w->text);
    json_open_array(j, "warnings");
    for (size_t i = 0; i < w->count; i++, text += strlen(text) + 1)
        json_text(j, NULL, text);
    json_close_array(j);
}

void json_problems(struct json *j, struct symbols *symbols, size_t most)
{
    const char *const *texts = NULL;
    const size_t n = symbols ? symbols_problems(symbols, &texts) : 0;
    json_texts(j, "symbol_problems", texts, n < most ? n : most);
}

static void write_command(struct json *j, const struct trace_image *image)
{
    json_texts(j, "command", image->command, SIZE_MAX);
    json_text(j, "name", cmdline_name(image->exe, image->command));
    struct buffer title = {0};
    cmdline_append(&title, image->exe, image->title, false);
    json_text(j, "title", image->title ? buffer_text(&title) : NULL);
    buffer_release(&title);
    if (image->environment) /* else it was not asked for */
        json_texts(j, "environment", image->environment, SIZE_MAX);
}

static void write_not_seen(struct json *j, const struct trace_image *image)
{
    json_open_array(j, "not_seen");
    for (const char *const *note = image->notes; note && *note; note++) {
        const char *reason, *module;
        char text[TRACE_UNSEEN_BYTES];
        if (!trace_unseen_read(*note, &reason, &module, text))
            continue;
        json_open_object(j, NULL);
        json_text(j, "reason", reason);
        json_text(j, "module", module);
        json_text(j, "text", text);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_end(struct json *j, const struct trace_image *image)
{
    static const char *const how[] = {"unknown", "exit", "exec", "killed"};
    int status = (int)image->end_status;
    json_text(j, "end", image->end_how < 4 ? how[image->end_how] : "unknown");
    bool said = image->end_how == MLW_END_EXIT || image->end_how == MLW_END_KILLED;
    if (said && WIFSIGNALED(status))
        json_number(j, "signal", (uint64_t)WTERMSIG(status));
    else if (image->end_how == MLW_END_EXIT) /* by which signal one was killed may be unknown */
        json_number(j, "exit_status", (uint64_t)WEXITSTATUS(status));
}

void json_filter(struct json *j, const struct selection *s)
{
    const struct selection_options *o = s->options;
    if (!selection_filters(s) && !o->pid)
        return;
    json_open_object(j, "filter");
    if (o->pid)
        json_number(j, "pid", o->pid);
    if (o->from_ns || o->to_ns) {
        json_number(j, "from_ns", o->from_ns);
        if (o->to_ns)
            json_number(j, "to_ns", o->to_ns - 1);
        json_bool(j, "only_new", o->only_new);
    }
    if (o->min_bytes || o->below_bytes) {
        json_number(j, "min_bytes", o->min_bytes);
        if (o->below_bytes)
            json_number(j, "max_bytes", o->below_bytes - 1);
    }
    if (o->min_lifetime_ns)
        json_number(j, "min_lifetime_ns", o->min_lifetime_ns);
    if (o->thread)
        json_text(j, "thread", o->thread);
    if (o->function)
        json_text(j, "function", o->function);
    if (o->module)
        json_text(j, "module", o->module);
    if (o->source)
        json_text(j, "source_file", o->source);
    json_close_object(j);
}

void json_process(struct json *j, const struct model *m)
{
    static const char *const modes[] = {"full", "caller", "none"};
    const struct trace_image *image = model_image(m);
    const struct model_totals *t = model_totals(m);
    struct warnings w = {0};
    uint8_t *cut = names_cut_stacks(image);
    warn_about_image(&w, image, false);
    warn_about_model(&w, m, cut, false);
    free(cut);

    const struct table totals = {.columns = report_totals_columns,
                                 .with = image->attached ? REPORT_ATTACHED : 0,
                                 .start_ns = image->start_ns};
    const struct report_listed row = report_listed(image, t);
    uint64_t usable = 0;
    for (unsigned i = 0; i < MODEL_PLACES; i++)
        usable += t->peak_usable[i];
    table_fields(j, TABLE(report_listed_columns), &row);
    table_fields(j, TABLE(report_image_columns), image);
    table_fields(j, &totals, t);
    write_command(j, image);
    json_number(j, "threads", image->thread_count ? image->thread_count : 1);
    write_end(j, image);
    json_text(j, "stacks_mode", image->stack_mode < 3 ? modes[image->stack_mode] : "full");
    json_warnings(j, &w);
    write_not_seen(j, image);
    write_calls(j, "calls", t->calls, true);
    write_calls(j, "failed", t->failed, false);
    json_number(j, "peak_usable_bytes", usable);
    if (image->attached && image->before_blocks != UINT64_MAX)
        json_number(j, "before_blocks", image->before_blocks);
    if (image->attached && image->before_bytes != UINT64_MAX)
        json_number(j, "before_bytes", image->before_bytes);
    json_number(j, "stacks", model_distinct_stacks(m));
    write_histograms(j, m);
    write_threshold(j, m);
    table_object(j, "reallocs", TABLE(report_realloc_columns), model_reallocs(m));
    write_threads(j, m);
    write_resident(j, m);
    write_timeline(j, m);
    warnings_release(&w);
}
