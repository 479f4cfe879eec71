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
#include "report/report.h"

static void write_calls(struct json *j, const char *key, const uint64_t *counts, bool zeros)
{
    json_open_object(j, key);
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        if (mlw_op_is_call(op) && (counts[op] || zeros))
            json_number(j, mlw_op_name(op), counts[op]);
    json_close_object(j);
}

static void write_sizes(struct json *j, const struct model *m)
{
    const struct model_count *sizes = model_sizes(m);
    struct model_count by_bits[65] = {{0, 0}};
    for (unsigned i = 0; i < MODEL_SIZE_COUNTS; i++) {
        unsigned bits = i > MODEL_EXACT_SIZES ? i - MODEL_EXACT_SIZES
                        : i                   ? 32u - (unsigned)__builtin_clz(i)
                                              : 0;
        by_bits[bits].count += sizes[i].count;
        by_bits[bits].bytes += sizes[i].bytes;
    }
    json_open_array(j, "size_histogram");
    for (unsigned bits = 0; bits <= 64; bits++) {
        if (!by_bits[bits].count)
            continue;
        json_open_object(j, NULL);
        json_number(j, "min_bytes", bits ? (uint64_t)1 << (bits - 1) : 0);
        json_number(j, "max_bytes", bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1);
        json_number(j, "calls", by_bits[bits].count);
        json_number(j, "bytes", by_bits[bits].bytes);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_lifetimes(struct json *j, const struct model *m)
{
    const struct model_count *lives = model_lifetimes(m);
    json_open_array(j, "lifetime_histogram");
    for (unsigned c = 0; c < MODEL_LIFETIMES; c++) {
        if (!lives[c].count)
            continue;
        json_open_object(j, NULL);
        json_number(j, "min_ns", model_lifetime_min_ns(c));
        if (c + 1 < MODEL_LIFETIMES)
            json_number(j, "max_ns", model_lifetime_min_ns(c + 1) - 1);
        else
            json_null(j, "max_ns");
        json_number(j, "blocks", lives[c].count);
        json_number(j, "bytes", lives[c].bytes);
        json_close_object(j);
    }
    json_close_array(j);
}

/* The exact sizes in place of samples; of a long series the largest of each stretch. The address
 * space is as at the sample before. */
static void write_levels(struct json *j, const struct trace_image *image)
{
    const uint32_t step = image->level_count / 1000 + 1;
    uint32_t sample = 0;
    for (uint32_t i = 0; i < image->level_count; i += step) {
        const struct trace_level *l = level_largest(image, i, step);
        while (sample + 1 < image->resident_count &&
               image->resident[sample + 1].clock <= l->time_ns)
            sample++;
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(l->time_ns - image->start_ns));
        json_number(j, "vmsize_bytes", image->resident_count ? image->resident[sample].vmsize : 0);
        json_number(j, "rss_bytes", level_resident(l));
        json_number(j, "rss_shared_bytes", l->file + l->shared);
        json_close_object(j);
    }
}

static void write_timeline(struct json *j, const struct model *m)
{
    uint64_t start_ns, width_ns;
    size_t n;
    const struct trace_image *image = model_image(m);
    const struct model_bin *bins = model_timeline(m, &start_ns, &width_ns, &n);
    const struct model_totals *t = model_totals(m);
    if (!t->events && !t->carried_blocks)
        n = 0; /* nothing was ever live */
    json_open_array(j, "timeline");
    for (size_t i = 0; i < n; i++) {
        json_open_object(j, NULL);
        json_number(j, "time_ns", start_ns + (i + 1) * width_ns - image->start_ns);
        json_number(j, "live_bytes", bins[i].live_bytes);
        json_number(j, "live_blocks", bins[i].live_blocks);
        json_number(j, "max_live_bytes", bins[i].max_live_bytes);
        json_number(j, "events", bins[i].events);
        json_close_object(j);
    }
    json_close_array(j);
    json_open_array(j, "resident");
    if (image->level_count)
        write_levels(j, image);
    size_t step = image->resident_count / 1000 + 1;
    for (size_t i = 0; i < image->resident_count && !image->level_count; i += step) {
        const struct mlw_resident *r = &image->resident[i];
        json_open_object(j, NULL);
        json_signed(j, "time_ns", (int64_t)(r->clock - image->start_ns));
        json_number(j, "vmsize_bytes", r->vmsize);
        json_number(j, "rss_bytes", r->rss);
        json_number(j, "rss_shared_bytes", r->rss_shared);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_resident(struct json *j, const struct model *m)
{
    struct resident_view v;
    const struct trace_image *image = model_image(m);
    resident_at_peak(m, &v);
    if (!v.known) {
        json_null(j, "resident_at_peak");
    } else {
        json_open_object(j, "resident_at_peak");
        json_signed(j, "time_ns", (int64_t)(v.time_ns - image->start_ns));
        json_number(j, "resident_bytes", v.resident_bytes);
        json_number(j, "recorder_bytes", v.recorder_bytes);
        json_number(j, "swapped_bytes", v.swapped_bytes);
        json_number(j, "live_bytes", v.live_bytes);
        json_number(j, "live_blocks", v.live_blocks);
        json_signed(j, "above_live_bytes", (int64_t)(v.resident_bytes - v.live_bytes));
        json_signed(j, "rounding_bytes", v.parts[RESIDENT_ROUNDING]);
        if (v.glibc) {
            json_signed(j, "heap_and_arenas_free_bytes", v.parts[RESIDENT_HEAP_FREE]);
            json_signed(j, "other_mappings_bytes", v.parts[RESIDENT_MMAPPED]);
        } else {
            json_signed(j, "allocator_and_mappings_bytes", v.parts[RESIDENT_ALLOCATOR]);
        }
        json_signed(j, "stacks_bytes", v.parts[RESIDENT_STACKS]);
        json_signed(j, "files_bytes", v.parts[RESIDENT_FILES]);
        json_signed(j, "shared_bytes", v.parts[RESIDENT_SHARED]);
        json_signed(j, "other_bytes", v.parts[RESIDENT_OTHER]);
        json_close_object(j);
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
    const struct trace_image *image = model_image(m);
    const struct model_thread *threads = model_threads(m);
    json_open_array(j, "thread_figures");
    for (uint32_t i = 0; i < image->thread_count; i++) {
        json_open_object(j, NULL);
        json_number(j, "tid", image->threads[i].tid);
        json_text(j, "name", image->threads[i].name);
        json_number(j, "calls", threads[i].calls);
        json_number(j, "allocations", threads[i].allocations);
        json_number(j, "allocated_bytes", threads[i].allocated_bytes);
        json_number(j, "releases", threads[i].releases);
        json_number(j, "releases_of_other_threads_blocks", threads[i].foreign_frees);
        json_number(j, "released_by_other_threads", threads[i].freed_elsewhere);
        json_number(j, "temporary_allocations", threads[i].temporary);
        json_number(j, "end_live_bytes", threads[i].live_bytes);
        json_number(j, "lost_calls", image->threads[i].lost_calls);
        json_close_object(j);
    }
    json_close_array(j);
}

static void write_reallocs(struct json *j, const struct model *m)
{
    const struct model_reallocs *r = model_reallocs(m);
    json_open_object(j, "reallocs");
    json_number(j, "resized", r->resized);
    json_number(j, "grown", r->grown);
    json_number(j, "shrunk", r->shrunk);
    json_number(j, "kept_bytes", r->kept_bytes);
    json_number(j, "chains", r->chains);
    json_number(j, "longest_chain", r->longest[0].resizes);
    json_close_object(j);
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

static void write_command(struct json *j, const struct trace_image *image)
{
    json_number(j, "pid", image->pid);
    json_number(j, "ppid", image->ppid);
    json_open_array(j, "command");
    for (const char *const *arg = image->command; arg && *arg; arg++)
        json_text(j, NULL, *arg);
    json_close_array(j);
    json_text(j, "exe", image->exe ? image->exe : "");
    json_text(j, "name", cmdline_name(image->exe, image->command));
    struct buffer title = {0};
    cmdline_append(&title, image->exe, image->title, false);
    json_text(j, "title", image->title ? buffer_text(&title) : NULL);
    json_text(j, "comm", image->comm);
    buffer_release(&title);
    if (!image->environment)
        return; /* not asked for */
    json_open_array(j, "environment");
    for (const char *const *entry = image->environment; *entry; entry++)
        json_text(j, NULL, *entry);
    json_close_array(j);
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

    write_command(j, image);
    json_number(j, "threads", image->thread_count ? image->thread_count : 1);
    json_number(j, "start_ns", image->start_ns);
    json_number(j, "duration_ns",
                image->end_ns > image->start_ns ? image->end_ns - image->start_ns : 0);
    json_bool(j, "complete", image->complete);
    json_bool(j, "attached", image->attached);
    write_end(j, image);
    json_text(j, "allocator", image->allocator);
    json_text(j, "stacks_mode", image->stack_mode < 3 ? modes[image->stack_mode] : "full");
    json_warnings(j, &w);
    write_not_seen(j, image);
    json_number(j, "lost_events", image->lost_calls);
    json_number(j, "events", t->events);
    write_calls(j, "calls", t->calls, true);
    json_number(j, "failed_calls", t->failed_calls);
    write_calls(j, "failed", t->failed, false);
    json_number(j, "allocations", t->allocations);
    json_number(j, "requested_bytes", t->requested_bytes);
    json_number(j, "usable_bytes", t->usable_bytes);
    json_number(j, "peak_live_bytes", t->peak_bytes);
    json_number(j, "peak_live_blocks", t->peak_blocks);
    json_number(j, "peak_time_ns",
                t->peak_time_ns > image->start_ns ? t->peak_time_ns - image->start_ns : 0);
    uint64_t usable = 0;
    for (unsigned i = 0; i < MODEL_PLACES; i++)
        usable += t->peak_usable[i];
    json_number(j, "peak_usable_bytes", usable);
    json_number(j, "end_live_bytes", t->live_bytes);
    json_number(j, "end_live_blocks", t->live_blocks);
    json_number(j, "inherited_bytes", t->carried_bytes);
    json_number(j, "inherited_blocks", t->carried_blocks);
    json_number(j, "temporary_allocations", t->temporary);
    json_number(j, "cross_thread_frees", t->cross_thread_frees);
    json_number(j, "unknown_frees", t->unknown_frees);
    if (image->attached) {
        json_number(j, "before_frees", t->before_frees);
        if (image->before_blocks != UINT64_MAX)
            json_number(j, "before_blocks", image->before_blocks);
        if (image->before_bytes != UINT64_MAX)
            json_number(j, "before_bytes", image->before_bytes);
    }
    json_number(j, "null_frees", t->null_frees);
    json_number(j, "inferred_frees", t->inferred_frees);
    json_number(j, "mapped_bytes", t->mapped_bytes);
    json_number(j, "unmapped_bytes", t->unmapped_bytes);
    json_number(j, "stacks", model_distinct_stacks(m));
    write_sizes(j, m);
    write_lifetimes(j, m);
    write_threshold(j, m);
    write_reallocs(j, m);
    write_threads(j, m);
    write_resident(j, m);
    write_timeline(j, m);
    warnings_release(&w);
}
