/* report_text.c - the report for people: the most wanted figures come first. */
#include "report/report.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#include "base/cmdline.h"
#include "base/plural.h"
#include "frames/known.h"
#include "frames/pass.h"
#include "show/layout.h"
#include "report/columns.h"
#include "report/explained.h"
#include "report/gate.h"
#include "report/kernel.h"
#include "report/routes.h"
#include "report/sections.h"
#include "report/tree.h"
#include "report/warnings.h"

typedef unsigned long long ull;

struct summary { /* an image's row in the table of processes */
    struct report_listed row;
    uint32_t image;
};

struct run {
    const struct page *page;
    const struct report_options *o;
    const struct trace_info *info;
    const struct selection *selection;
    struct summary *summaries;
    size_t count;
    struct model *biggest; /* with its stacks */
    struct names *names;   /* the names of the biggest */
    uint32_t biggest_image;
    struct warnings warnings;
};

/* The command line, cut after `room` bytes; brief: without the directory of the program. */
static void print_command(struct buffer *b, const struct trace_image *image, size_t room,
                          bool brief)
{
    const size_t before = b->size_bytes;
    cmdline_append_now(b, image->exe, image->command, image->title, image->comm, brief);
    if (b->size_bytes - before > room) {
        b->size_bytes = before + room;
        b->data[b->size_bytes] = 0;
        buffer_append_text(b, "...");
    } else if (b->size_bytes == before) {
        buffer_append_text(b, image->exe && *image->exe ? image->exe : "(command unknown)");
    }
}

/* First lines: what file this is, and what the reader must know before he believes it. */
static void print_top(const struct run *r, const char *path)
{
    const struct trace_info *info = r->info;
    struct buffer b = {0};
    uint64_t events = 0;
    for (size_t i = 0; i < r->count; i++)
        events += r->summaries[i].row.events;
    buffer_printf(&b, "%s: %s %s in %zu process%s; %s", path, COUNT(events),
                  plural(events, "call", "calls"), r->count, r->count == 1 ? "" : "es",
                  SIZE(info->file_bytes));
    if (events && !selection_filters(r->selection) && r->count == info->image_count)
        buffer_printf(&b, ", %.2f bytes a call", (double)info->file_bytes / (double)events);
    page_wrap(r->page, &b, 2);
    if (info->start_realtime_ns) {
        time_t seconds = (time_t)(info->start_realtime_ns / 1000000000u);
        struct tm tm;
        char when[64];
        if (localtime_r(&seconds, &tm) && strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &tm))
            buffer_printf(&b, "recorded %s", when);
        if (info->host && *info->host)
            buffer_printf(&b, " on %s", info->host);
    }
    buffer_printf(&b, "%sreported by mallow %s", b.size_bytes ? "; " : "", MALLOW_VERSION);
    page_wrap(r->page, &b, 2);
    const char *text = buffer_text(&r->warnings.text);
    for (size_t i = 0; i < r->warnings.count; i++, text += strlen(text) + 1) {
        buffer_printf(&b, "%s ", r->page->unicode ? "\u26a0" : "!");
        buffer_append_text(&b, text);
        page_wrap(r->page, &b, 2);
    }
    buffer_release(&b);
}

static void print_filter(const struct run *r)
{
    const struct report_options *o = r->o;
    struct buffer b = {0};
    if (!selection_filters(r->selection))
        return;
    buffer_append_text(&b, "only:");
    if (o->select.from_ns || o->select.to_ns) {
        buffer_printf(&b, " time %s..", TIME(o->select.from_ns));
        if (o->select.to_ns)
            buffer_append_text(&b, TIME(o->select.to_ns - 1));
        if (o->select.only_new)
            buffer_append_text(&b, " (new blocks)");
    }
    if (o->select.min_bytes || o->select.below_bytes) {
        buffer_printf(&b, " sizes %s..", SIZE(o->select.min_bytes));
        if (o->select.below_bytes)
            buffer_append_text(&b, SIZE(o->select.below_bytes - 1));
    }
    if (o->select.min_lifetime_ns)
        buffer_printf(&b, " lifetimes from %s on", TIME(o->select.min_lifetime_ns));
    if (o->select.thread)
        buffer_printf(&b, " thread %s", o->select.thread);
    if (o->select.function)
        buffer_printf(&b, " function %s", o->select.function);
    if (o->select.module)
        buffer_printf(&b, " module %s", o->select.module);
    if (o->select.source)
        buffer_printf(&b, " source file %s", o->select.source);
    page_wrap(r->page, &b, 2);
}

static int by_peak(const void *a, const void *b)
{
    const struct summary *x = a, *y = b;
    if (x->row.peak_bytes != y->row.peak_bytes)
        return x->row.peak_bytes < y->row.peak_bytes ? 1 : -1;
    return x->image < y->image ? -1 : 1;
}

static void short_end(const struct trace_image *image, struct buffer *b)
{
    int status = (int)image->end_status;
    if (image->end_how == MLW_END_EXEC)
        buffer_append_text(b, "exec");
    else if (image->end_how == MLW_END_UNKNOWN)
        buffer_append_text(b, "not seen");
    else if (WIFSIGNALED(status))
        buffer_printf(b, "signal %d", WTERMSIG(status));
    else if (image->end_how == MLW_END_KILLED)
        buffer_append_text(b, "killed");
    else
        buffer_printf(b, "exit %d", WEXITSTATUS(status));
}

static void print_processes(const struct run *r)
{
    const size_t limit = r->o->top ? (size_t)r->o->top : 20;
    size_t idle = 0, shown = 0;
    const struct table table = {.columns = report_listed_columns};
    struct buffer b = {0};
    if (r->count < 2)
        return;
    page_heading(r->page, "Processes");
    table_titles(&b, &table);
    buffer_append_text(&b, "  end        command");
    page_line(r->page, &b);
    qsort(r->summaries, r->count, sizeof *r->summaries, by_peak);
    for (size_t i = 0; i < r->count; i++) {
        const struct summary *s = &r->summaries[i];
        const struct trace_image *image = &r->info->images[s->image];
        struct buffer end = {0};
        if (!s->row.events) {
            idle++; /* often between fork and exec */
            continue;
        }
        if (shown++ >= limit)
            continue;
        table_cells(&b, &table, &s->row);
        buffer_append_text(&b, "  ");
        short_end(image, &end);
        page_left(&b, buffer_text(&end), 11);
        print_command(&b, image, 160, true);
        page_line(r->page, &b);
        buffer_release(&end);
    }
    if (shown > limit)
        buffer_printf(&b, "        and %zu more (-n shows more)", shown - limit);
    if (b.size_bytes)
        page_line(r->page, &b);
    buffer_clear(&b);
    if (idle)
        buffer_printf(&b, "        and %zu that made no calls", idle);
    if (b.size_bytes)
        page_line(r->page, &b);
    buffer_release(&b);
}

static bool has_anything(const struct model_totals *t) { return t->events || t->carried_blocks; }

/* How long the process ran in the range of time that is looked at. */
static uint64_t part_ns(const struct report_options *o, const struct trace_image *image)
{
    const uint64_t from = o->select.from_ns > image->start_ns ? o->select.from_ns : image->start_ns;
    const uint64_t to = o->select.to_ns && o->select.to_ns - 1 < image->end_ns ? o->select.to_ns - 1
                                                                               : image->end_ns;
    return to > from ? to - from : 0;
}

static void print_totals(const struct run *r)
{
    const struct model *m = r->biggest;
    const struct model_totals *t = model_totals(m);
    const struct trace_image *image = model_image(m);
    uint64_t length = image->end_ns > image->start_ns ? image->end_ns - image->start_ns : 0;
    uint64_t peak_ns = t->peak_time_ns > image->start_ns ? t->peak_time_ns - image->start_ns : 0;
    struct buffer b = {0};

    print_command(&b, image, 400, false);
    page_heading(r->page, "%s", buffer_text(&b));
    buffer_clear(&b);
    buffer_printf(&b, "pid %u, %s thread%s, ran %s, ", image->pid,
                  COUNT(image->thread_count ? image->thread_count : 1),
                  image->thread_count > 1 ? "s" : "", TIME(length));
    describe_end(image, &b);
    if (image->allocator && *image->allocator)
        buffer_printf(&b, "; %s", image->allocator);
    page_wrap(r->page, &b, 11);

    fputc('\n', r->page->out);
    if (!has_anything(t)) {
        buffer_append_text(&b, selection_filters(r->selection)
                                   ? "No call passes the filters."
                                   : "No allocation call of it was recorded.");
        page_wrap(r->page, &b, 2);
        return;
    }
    buffer_printf(&b, "Peak       %s live in %s block%s", SIZE(t->peak_bytes),
                  COUNT(t->peak_blocks), t->peak_blocks == 1 ? "" : "s");
    if (t->peak_bytes) {
        buffer_printf(&b, ", %s after the start", TIME(peak_ns));
        if (length)
            buffer_printf(&b, " (%.0f %% of the run)", 100.0 * (double)peak_ns / (double)length);
    }
    page_wrap(r->page, &b, 11);
    buffer_printf(&b, "%-10s %s still live in %s block%s",
                  image->end_how == MLW_END_UNKNOWN ? "So far" : "At the end", SIZE(t->live_bytes),
                  COUNT(t->live_blocks), t->live_blocks == 1 ? "" : "s");
    page_wrap(r->page, &b, 11);
    buffer_printf(&b, "Allocated  %s by %s call%s", SIZE(t->requested_bytes), COUNT(t->allocations),
                  t->allocations == 1 ? "" : "s");
    if (t->allocations)
        buffer_printf(&b, ", %s on average", SIZE(t->requested_bytes / t->allocations));
    const uint64_t part = part_ns(r->o, image);
    if (part)
        buffer_printf(&b, ", %s a second",
                      COUNT((uint64_t)((double)t->allocations * 1e9 / (double)part)));
    if (t->allocations)
        buffer_printf(&b, "; %.1f %% temporary",
                      100.0 * (double)t->temporary / (double)t->allocations);
    page_wrap(r->page, &b, 11);
    if (t->carried_blocks) {
        buffer_printf(&b, "Inherited  %s in %s %s live at its start", SIZE(t->carried_bytes),
                      COUNT(t->carried_blocks),
                      plural(t->carried_blocks, "block was", "blocks were"));
        page_wrap(r->page, &b, 11);
    }
    buffer_release(&b);
}

static int print_trees(const struct run *r, struct suppressions *suppressions, struct error *err)
{
    static const char *const titles[METRICS] = {"Live at the peak", "Still live at the end",
                                                "Allocated in all", "Temporary allocations",
                                                "Allocation calls"};
    const struct report_options *o = r->o;
    const struct model *m = r->biggest;
    uint64_t top = o->top ? o->top : o->by_given ? 20 : 10;
    struct group_sites sites = {0};
    struct known known = {.suppressions = suppressions, .names = r->names};
    struct known *hide = suppressions ? &known : NULL;
    int status = 0;
    if (o->by_given && o->by != BY_END) {
        status = tree_print(r->page, m, r->names, o, &sites, o->by, top, NULL, titles[o->by], err);
    } else {
        if (!o->by_given)
            status = tree_print(r->page, m, r->names, o, &sites, BY_PEAK, top, NULL,
                                titles[BY_PEAK], err);
        if (!status)
            status =
                tree_print(r->page, m, r->names, o, &sites, BY_END, top, hide, titles[BY_END], err);
    }
    if (!status && suppressions && (!o->by_given || o->by == BY_END)) {
        struct buffer b = {0};
        size_t unused = suppressions_unused(suppressions);
        buffer_printf(&b, "   suppressed: %s in %s %s; %zu of %zu suppressions matched nothing",
                      SIZE(known.bytes), COUNT(known.blocks),
                      plural(known.blocks, "block", "blocks"), unused, suppressions->count);
        page_wrap(r->page, &b, 11);
    }
    known_release(&known);
    if (!status && !o->by_given) {
        uint64_t few = o->top ? o->top : 5;
        for (enum metric by = BY_ALLOCATED; by < METRICS && !status; by++)
            status = tree_list(r->page, m, r->names, o, &sites, by, few, titles[by], err);
    }
    group_sites_release(&sites);
    return status;
}

/* One pass over an image; the biggest so far is kept whole. */
static int add_image(struct run *r, struct trace *t, uint32_t i, struct symbols *symbols,
                     struct error *err)
{
    struct pass p;
    if (pass_begin(&p, t, i, r->selection, symbols, &r->o->look, err) ||
        gate_add(r->o->gate, p.model, p.names, r->o, err)) {
        pass_end(&p);
        return -1;
    }
    const bool several = r->info->image_count > 1;
    uint8_t *cut = names_cut_stacks(p.image);
    warn_about_image(&r->warnings, p.image, several);
    warn_about_model(&r->warnings, p.model, cut, several);
    free(cut);
    r->summaries[r->count++] = (struct summary){report_listed(p.image, model_totals(p.model)), i};
    const struct model_totals *best = r->biggest ? model_totals(r->biggest) : NULL;
    const struct model_totals *mine = model_totals(p.model);
    if (!best || mine->peak_bytes > best->peak_bytes ||
        (mine->peak_bytes == best->peak_bytes && mine->events > best->events)) {
        model_free(r->biggest);
        names_free(r->names);
        r->biggest = p.model;
        r->names = p.names;
        r->biggest_image = i;
        p.model = NULL;
        p.names = NULL;
    }
    pass_end(&p);
    return 0;
}

#define TREES_BESIDE 1000u /* so many at most wait in memory until they are printed */

struct written { /* as print_trees would print it */
    char *text;
    size_t bytes;
};

static int write_trees(const struct run *r, struct suppressions *suppressions, struct written *w,
                       struct error *err)
{
    struct page apart = *r->page;
    struct run to = *r;
    to.page = &apart;
    apart.out = open_memstream(&w->text, &w->bytes);
    if (!apart.out)
        return error_memory_for(err, "the trees of callers");
    const int status = print_trees(&to, suppressions, err);
    if (fclose(apart.out) && !status)
        return error_memory_for(err, "the trees of callers");
    return status;
}

/* Reads the biggest again, up to the last moment that is explained. The trees, which stand further
 * below, are made meanwhile; not with `trees` NULL. */
static int print_explained(const struct run *r, struct trace *t, struct suppressions *suppressions,
                           struct written *trees, struct error *err)
{
    struct explained_list list = {0};
    int status = -1;
    struct explaining *e =
        explaining_begin(t, r->biggest_image, r->biggest, r->o, r->names, &list, err);
    if (trees && e && write_trees(r, suppressions, trees, err))
        explaining_drop(e);
    else if (e)
        status = explaining_end(e, err);
    if (!status)
        section_explained(r->page, r->biggest, &list, r->names);
    explained_release(&list);
    return status;
}

/* Damage of the whole file, which is only known once it was read. */
static void put_file_first(struct run *r)
{
    struct warnings w = {0};
    warn_about_file(&w, r->info);
    buffer_append(&w.text, r->warnings.text.data, r->warnings.text.size_bytes);
    w.count += r->warnings.count;
    warnings_release(&r->warnings);
    r->warnings = w;
}

static int print_biggest(const struct run *r, struct trace *t, struct suppressions *suppressions,
                         struct error *err)
{
    const struct report_options *o = r->o;
    const struct trace_image *image = &r->info->images[r->biggest_image];
    const bool any = has_anything(model_totals(r->biggest)),
               measured = image->split_count && !selection_filters(r->selection),
               whole = !o->by_given && any, sizes = !o->by_given && (any || measured),
               explains = (any || measured) && (sizes || o->at), few = o->top <= TREES_BESIDE;
    struct written trees = {0};
    int status = 0;
    print_totals(r);
    if (sizes) {
        section_timeline(r->page, r->biggest);
        section_resident(r->page, r->biggest);
    }
    if (explains)
        status = print_explained(r, t, suppressions, few ? &trees : NULL, err);
    if (whole && !status) {
        section_mapped(r->page, r->biggest, r->names);
        section_marks(r->page, image, o);
    }
    if (!status && explains && few)
        page_printed(r->page, trees.text, trees.bytes);
    else if (!status)
        status = print_trees(r, suppressions, err);
    free(trees.text);
    if (whole && !status)
        section_rest(r->page, r->biggest, r->names);
    if (whole && !status && !selection_filters(r->selection))
        status = section_routes(r->page, t, r->biggest_image, r->names, o, err);
    if (!o->by_given && !status)
        status = section_kernel(r->page, image, r->info->kernel_kinds, r->names, o, err);
    if (!status && names_failed(r->names))
        status = error_memory_for(err, "the names of call sites");
    return status;
}

int report_text(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *o, struct error *err)
{
    const struct trace_info *info = trace_info(t);
    struct page page = {out, o->columns, o->unicode, o->bold, o->plots, o->numbers};
    struct selection selection;
    struct suppressions suppressions = {0};
    if (selection_open(&selection, &o->select, info, err))
        return -1;
    struct run r = {.page = &page, .o = o, .info = info, .selection = &selection};
    struct explain_wish wish; /* true if there is such a moment is said before anything else */
    int status = explained_wish(o->at, info, &wish, err);
    if (!status && o->suppressions)
        status = suppressions_read(&suppressions, o->suppressions, err);
    r.summaries = calloc((size_t)info->image_count + 1, sizeof *r.summaries);
    if (!status && !r.summaries)
        status = error_memory(err);
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (selection_has_image(&selection, &info->images[i]))
            status = add_image(&r, t, i, symbols, err);
    put_file_first(&r);
    if (!status) {
        print_top(&r, path);
        print_filter(&r);
        print_processes(&r);
        if (r.biggest)
            status = print_biggest(&r, t, o->suppressions ? &suppressions : NULL, err);
        if (symbols)
            section_problems(&page, symbols);
    }
    warnings_release(&r.warnings);
    model_free(r.biggest);
    names_free(r.names);
    free(r.summaries);
    suppressions_release(&suppressions);
    selection_close(&selection);
    return status;
}
