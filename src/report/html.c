/* html.c - the page: what stands on it, and that it does not grow too large.
 *
 * Each process that is shown in detail is a block of its own that the browser unpacks when it is
 * looked at. The room for data is shared out by the number of calls; a process that does not fit is
 * written again with fewer call sites by themselves. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/html_pack.h"
#include "report/html_page.h"
#include "report/html_process.h"
#include "report/json_process.h"
#include "report/report.h"
#include "report/select.h"
#include "report/warnings.h"

#define DETAILED_MAX 100u   /* processes that can be looked into */
#define LISTED_MAX   2000u  /* processes that are listed; the rest is added up */
#define SITES_MAX    12000u /* by themselves, of a process */
#define LISTED_BYTES 160u   /* that a process takes in the list, packed */

struct listed { /* a process in the list */
    uint64_t events, requested_bytes, peak_bytes, end_bytes, allocations, temporary;
};

struct page {
    FILE *out;
    struct trace *t;
    struct symbols *symbols;
    const struct selection *selection;
    const struct report_options *options;
    size_t room;       /* bytes left for data */
    double weight;     /* of the processes whose details are still to come */
    uint8_t *detailed; /* [image_count] */
    struct json list;
    uint32_t listed, unlisted, undetailed, blocks;
    struct listed rest; /* of those that are not listed */
    uint64_t events, lost;
};

static double weight_of(const struct trace_image *image) { return sqrt((double)image->calls + 1); }

struct candidate {
    uint64_t calls;
    uint32_t image;
};

static int by_calls(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    return x->image < y->image ? -1 : x->image > y->image;
}

/* Which processes are shown in detail: those that called most. */
static int choose_detailed(struct page *p, const struct trace_info *info, struct error *err)
{
    struct candidate *all = malloc(((size_t)info->image_count + 1) * sizeof *all);
    uint32_t n = 0;
    p->detailed = calloc((size_t)info->image_count + 1, 1);
    if (!all || !p->detailed) {
        free(all);
        return error_set(err, ERROR_MEMORY, "no memory for a list of %u processes",
                         info->image_count);
    }
    for (uint32_t i = 0; i < info->image_count; i++)
        if (selection_has_image(p->selection, &info->images[i]))
            all[n++] = (struct candidate){info->images[i].calls, i};
    qsort(all, n, sizeof *all, by_calls);
    for (uint32_t i = 0; i < n && i < DETAILED_MAX; i++) {
        p->detailed[all[i].image] = 1;
        p->weight += weight_of(&info->images[all[i].image]);
    }
    p->undetailed = n > DETAILED_MAX ? n - DETAILED_MAX : 0;
    free(all);
    return 0;
}

/* ---- one process ---- */

struct detail { /* what is needed to write a process more than once */
    uint32_t image;
    const struct model_filter *filter;
    const struct model *m; /* of the first pass */
    struct names *names;
    struct page_sites sites;
    struct page_lanes lanes;
    struct heap_view heap;
};

static int replay_observed(const struct page *p, const struct detail *d, struct series *s,
                           struct error *err)
{
    struct model *again = NULL;
    int status = replay_observed_image(p->t, d->image, d->filter, series_observer(s), &again, err);
    model_free(again);
    return status ? -1 : series_finish(s, err);
}

/* The process with at most `limit` call sites by themselves, packed. */
static int pack(const struct page *p, const struct detail *d, struct html_block *block,
                struct error *err)
{
    struct series_plan plan = {.group_of = d->sites.group_of,
                               .groups = d->sites.group_count,
                               .lane_of = d->lanes.lane_of,
                               .lanes = d->lanes.count};
    size_t bins;
    model_timeline(d->m, &plan.start_ns, &plan.width_ns, &bins);
    plan.bins = (uint32_t)bins;
    struct series *s = series_new(&plan, err);
    if (!s)
        return -1;
    int status = replay_observed(p, d, s, err);
    char *text = NULL;
    size_t text_bytes = 0;
    struct json j = {.out = status ? NULL : open_memstream(&text, &text_bytes)};
    if (!status && !j.out)
        status = error_system(err, "memory for the page");
    if (!status) {
        status = html_process(&j, d->m, s, &plan, &d->sites, &d->lanes, &d->heap, d->names,
                              trace_info(p->t)->kernel_kinds, p->options, err);
        if (fclose(j.out) && !status)
            status = error_system(err, "memory for the page");
    }
    series_free(s);
    if (!status)
        status = html_block_pack(block, text, text_bytes, err);
    free(text);
    return status;
}

/* Writes the block of a process within its share of the page. */
static int write_detail(struct page *p, struct detail *d, struct error *err)
{
    const struct trace_image *image = model_image(d->m);
    const size_t share = (size_t)((double)p->room * weight_of(image) / p->weight);
    size_t limit = d->sites.all.count < SITES_MAX ? d->sites.all.count : SITES_MAX;
    struct html_block block = {0};
    p->weight -= weight_of(image);
    for (;;) {
        if (page_sites_keep(&d->sites, d->m, limit, err) || pack(p, d, &block, err))
            return -1;
        if (block.page_bytes <= share || limit == 0)
            break;
        limit = (size_t)((double)limit * 0.8 * (double)share / (double)block.page_bytes);
        html_block_release(&block);
    }
    char id[32];
    snprintf(id, sizeof id, "process-%u", p->blocks);
    html_block_write(p->out, id, &block);
    p->room -= block.page_bytes < p->room ? block.page_bytes : p->room;
    html_block_release(&block);
    return 0;
}

static void list(struct page *p, const struct model *m, int block)
{
    const struct trace_image *image = model_image(m);
    const struct model_totals *t = model_totals(m);
    const struct listed l = {t->events,     t->requested_bytes, t->peak_bytes,
                             t->live_bytes, t->allocations,     t->temporary};
    if (p->listed == LISTED_MAX && block < 0) {
        p->unlisted++;
        p->rest.events += l.events;
        p->rest.requested_bytes += l.requested_bytes;
        p->rest.allocations += l.allocations;
        return;
    }
    p->listed++;
    struct json *j = &p->list;
    struct buffer command = {0};
    for (const char *const *arg = image->command; arg && *arg && command.size_bytes < 200; arg++)
        buffer_printf(&command, "%s%.200s", command.size_bytes ? " " : "", *arg);
    json_open_object(j, NULL);
    json_number(j, "pid", image->pid);
    json_number(j, "ppid", image->ppid);
    json_text(j, "command", buffer_text(&command));
    json_text(j, "exe", image->exe ? image->exe : "");
    json_number(j, "start_ns", image->start_ns);
    json_number(j, "duration_ns",
                image->end_ns > image->start_ns ? image->end_ns - image->start_ns : 0);
    json_number(j, "events", l.events);
    json_number(j, "allocations", l.allocations);
    json_number(j, "requested_bytes", l.requested_bytes);
    json_number(j, "peak_live_bytes", l.peak_bytes);
    json_number(j, "end_live_bytes", l.end_bytes);
    json_number(j, "temporary_allocations", l.temporary);
    if (block >= 0)
        json_number(j, "block", (uint64_t)block);
    json_close_object(j);
    buffer_release(&command);
}

static int one_process(struct page *p, uint32_t i, struct error *err)
{
    const struct trace_image *image = &trace_info(p->t)->images[i];
    struct image_filter filter;
    struct model *m = NULL;
    struct names *names = names_new(p->symbols, image, err);
    if (!names)
        return -1;
    int status = selection_resolve(p->selection, image, names, &filter, err);
    if (!status) {
        status = replay_image(p->t, i, &filter.filter, &m, err);
        if (!status && p->detailed[i]) {
            struct detail d = {.image = i, .filter = &filter.filter, .m = m, .names = names};
            status = page_sites_find(&d.sites, m, names, err);
            if (!status) {
                status = page_lanes_find(&d.lanes, image, err);
                if (!status)
                    status = heap_find(p->t, i, m, &d.heap, err);
                if (!status)
                    status = write_detail(p, &d, err);
                heap_release(&d.heap);
                page_lanes_release(&d.lanes);
                page_sites_release(&d.sites);
            }
        }
        selection_release(&filter);
    }
    if (!status) {
        p->events += model_totals(m)->events;
        p->lost += image->lost_calls;
        list(p, m, p->detailed[i] ? (int)p->blocks : -1);
        p->blocks += p->detailed[i];
    }
    model_free(m);
    names_free(names);
    return status;
}

/* ---- the whole ---- */

static void write_file(struct json *j, const struct page *p, const char *path)
{
    const struct trace_info *info = trace_info(p->t);
    struct warnings w = {0};
    warn_about_file(&w, info);
    json_number(j, "schema", 1);
    json_text(j, "mallow", MALLOW_VERSION);
    json_text(j, "file", path);
    json_number(j, "file_bytes", info->file_bytes);
    json_number(j, "start_realtime_ns", info->start_realtime_ns);
    json_text(j, "host", info->host);
    json_text(j, "recorded_by", info->tool);
    json_filter(j, p->selection);
    json_number(j, "events", p->events);
    json_number(j, "lost_events", p->lost);
    json_warnings(j, &w);
    json_number(j, "undetailed_processes", p->undetailed);
    json_number(j, "unlisted_processes", p->unlisted);
    json_number(j, "unlisted_events", p->rest.events);
    json_number(j, "unlisted_requested_bytes", p->rest.requested_bytes);
    json_number(j, "unlisted_allocations", p->rest.allocations);
    json_open_array(j, "symbol_problems");
    if (p->symbols) {
        const char *const *problems = NULL;
        size_t n = symbols_problems(p->symbols, &problems);
        for (size_t i = 0; i < n && i < 100; i++)
            json_text(j, NULL, problems[i]);
    }
    json_close_array(j);
    warnings_release(&w);
}

static int write_summary(struct page *p, const char *path, const char *processes,
                         size_t processes_bytes, struct error *err)
{
    char *text = NULL;
    size_t text_bytes = 0;
    struct html_block block;
    struct json j = {.out = open_memstream(&text, &text_bytes)};
    if (!j.out)
        return error_system(err, "memory for the page");
    json_open_object(&j, NULL);
    write_file(&j, p, path);
    json_raw(&j, "processes", processes, processes_bytes);
    json_close_object(&j);
    int status = fclose(j.out) ? error_system(err, "memory for the page") : 0;
    if (!status)
        status = html_block_pack(&block, text, text_bytes, err);
    if (!status) {
        html_block_write(p->out, "summary", &block);
        html_block_release(&block);
    }
    free(text);
    return status;
}

static int write_processes(struct page *p, char **processes, size_t *processes_bytes,
                           struct error *err)
{
    const struct trace_info *info = trace_info(p->t);
    int status = 0;
    p->list = (struct json){.out = open_memstream(processes, processes_bytes)};
    if (!p->list.out)
        return error_system(err, "memory for the page");
    json_open_array(&p->list, NULL);
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (selection_has_image(p->selection, &info->images[i])) {
            if (p->options->progress)
                p->options->progress(p->options->progress_arg, i, info->image_count);
            status = one_process(p, i, err);
        }
    json_close_to(&p->list, 0);
    if (fclose(p->list.out) && !status)
        status = error_system(err, "memory for the page");
    return status;
}

int report_html(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *o, struct error *err)
{
    const struct trace_info *info = trace_info(t);
    const size_t listed = info->image_count < LISTED_MAX ? info->image_count : LISTED_MAX;
    const size_t room = html_page_room();
    struct selection s;
    char *processes = NULL;
    size_t processes_bytes = 0;
    if (selection_open(&s, o, info, err))
        return -1;
    struct page p = {.out = out, .t = t, .symbols = symbols, .selection = &s, .options = o};
    p.room = room > LISTED_BYTES * listed ? room - LISTED_BYTES * listed : 0;
    int status = choose_detailed(&p, info, err);
    if (!status) {
        const char *slash = strrchr(path, '/');
        html_page_begin(out, slash ? slash + 1 : path);
        status = write_processes(&p, &processes, &processes_bytes, err);
    }
    if (!status)
        status = write_summary(&p, path, processes, processes_bytes, err);
    if (!status)
        html_page_end(out);
    free(processes);
    free(p.detailed);
    selection_close(&s);
    return status;
}
