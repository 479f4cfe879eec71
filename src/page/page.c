/* page.c - the page: what stands on it, and that it does not grow too large.
 *
 * Each process that is shown in detail is a block of its own that the browser unpacks when it is
 * looked at. The room for data is shared out by the number of calls, largest first; detail.c
 * fits a process into its share. */
#include "page/page.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cmdline.h"
#include "frames/pass.h"
#include "report/gate.h"
#include "page/detail.h"
#include "page/moments.h"
#include "report/columns.h"
#include "show/html_pack.h"
#include "show/html_page.h"
#include "report/json_process.h"
#include "report/report.h"
#include "report/warnings.h"

#define DETAILED_MAX 100u  /* processes that can be looked into */
#define LISTED_MAX   2000u /* processes that are listed; the rest is added up */
#define LISTED_BYTES 160u  /* that a process takes in the list, packed */
#define SHARES       4     /* that a process may take when it does not fit into its own */
#define MOMENTS_PART 4     /* the part of its share that the moments may take */

struct listed { /* a process in the list */
    struct report_listed row;
    uint32_t block; /* number + 1; 0: it is only listed */
    bool shown;
};

struct candidate {
    uint64_t calls;
    uint32_t image;
};

struct page {
    FILE *out;
    struct trace *t;
    struct symbols *symbols;
    const struct selection *selection;
    const struct report_options *options;
    size_t room;                  /* bytes left for data */
    double weight;                /* the weights of the processes whose details are still to come */
    struct candidate *candidates; /* [candidate_count] those that pass the filter, largest first */
    uint32_t candidate_count;
    struct listed *of; /* [image_count] */
    struct json list;
    uint32_t listed, unlisted, undetailed, blocks;
    struct report_listed rest; /* sums over those that are not listed */
    uint64_t events, lost;
    uint64_t calls, calls_done,
        calls_now; /* all calls, those of processes done, those of the one at hand */
};

static double weight_of(const struct trace_image *image) { return sqrt((double)image->calls + 1); }

static int compare_process_calls(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->calls != y->calls)
        return x->calls < y->calls ? 1 : -1;
    return x->image < y->image ? -1 : x->image > y->image;
}

/* Those that called most come first: they are shown in detail. */
static int rank(struct page *p, const struct trace_info *info, struct error *err)
{
    p->candidates = malloc(((size_t)info->image_count + 1) * sizeof *p->candidates);
    p->of = calloc((size_t)info->image_count + 1, sizeof *p->of);
    if (!p->candidates || !p->of)
        return error_memory_for(err, "a list of %u processes", info->image_count);
    for (uint32_t i = 0; i < info->image_count; i++)
        if (selection_has_image(p->selection, &info->images[i]))
            p->candidates[p->candidate_count++] = (struct candidate){info->images[i].calls, i};
    qsort(p->candidates, p->candidate_count, sizeof *p->candidates, compare_process_calls);
    for (uint32_t i = 0; i < p->candidate_count && i < DETAILED_MAX; i++)
        p->weight += weight_of(&info->images[p->candidates[i].image]);
    for (uint32_t i = 0; i < p->candidate_count; i++)
        p->calls += p->candidates[i].calls + 1;
    return 0;
}

/* `part` of DETAIL_PARTS of the process at hand are done. */
static void tell_page_progress(void *arg, unsigned part)
{
    const struct page *p = arg;
    if (p->options->progress)
        p->options->progress(p->options->progress_arg,
                             p->calls_done * DETAIL_PARTS + p->calls_now * part,
                             p->calls * DETAIL_PARTS);
}

/* ---- one process ---- */

static void write_page_block(struct page *p, const char *name, const struct html_block *block)
{
    char id[32];
    snprintf(id, sizeof id, "%s-%u", name, p->blocks);
    html_block_write(p->out, id, block);
    p->room -= block->page_bytes < p->room ? block->page_bytes : p->room;
}

/* Makes the blocks of a process within its share of the page. 1; 0 when they would be wrong; -1.
 * The moments have names of their own, while a thread uses the others. */
static int make_blocks(struct page *p, uint32_t image, struct image_filter *filter,
                       const struct model *m, struct names *names, const struct html_room *room,
                       struct html_block *block, struct html_block *moments, struct error *err)
{
    const struct detail_plan plan = {.t = p->t,
                                     .image = image,
                                     .filter = &filter->filter,
                                     .m = m,
                                     .names = names,
                                     .options = p->options,
                                     .progress = tell_page_progress,
                                     .progress_arg = p};
    struct names *apart = names_again(names, err);
    const struct moments_plan why = {.t = p->t,
                                     .image = image,
                                     .m = m,
                                     .names = apart,
                                     .options = p->options,
                                     .share_bytes = room->share_bytes / MOMENTS_PART};
    struct detail *d = apart ? html_detail_begin(&plan, err) : NULL;
    const int explains = d ? html_moments(&why, moments, err) : -1;
    const struct html_room left = {room->share_bytes - moments->page_bytes,
                                   room->most_bytes - moments->page_bytes, room->must_fit};
    int fits = explains < 0 ? -1 : html_detail_end(d, &left, block, err);
    if (fits >= 0 && names_failed(apart))
        fits = error_memory_for(err, "the names of call sites");
    html_detail_free(d);
    names_free(apart);
    if (fits > 0)
        html_keep(p->t, image, names, p->options, room, block, explains ? moments : NULL);
    return fits;
}

/* Writes the blocks of a process; none when they would be wrong. */
static int write_detail(struct page *p, uint32_t image, struct image_filter *filter,
                        const struct model *m, struct names *names, struct error *err)
{
    const double weight = weight_of(model_image(m));
    const size_t share = (size_t)((double)p->room * weight / p->weight);
    const struct html_room room = {share, share > p->room / SHARES ? p->room : share * SHARES,
                                   !p->blocks};
    struct html_block block = {0}, moments = {0};
    int fits = html_kept(p->t, image, names, p->options, &room, &block, &moments);
    if (!fits)
        fits = make_blocks(p, image, filter, m, names, &room, &block, &moments, err);
    p->weight -= weight;
    if (fits > 0) {
        write_page_block(p, "process", &block);
        if (moments.data)
            write_page_block(p, "moments", &moments);
        p->of[image].block = ++p->blocks;
    }
    html_block_release(&block);
    html_block_release(&moments);
    return fits < 0 ? -1 : 0;
}

static int one_process(struct page *p, uint32_t i, bool detailed, struct error *err)
{
    struct pass pass;
    int status = pass_begin(&pass, p->t, i, p->selection, p->symbols, &p->options->look, err);
    if (!status && detailed)
        status = write_detail(p, i, &pass.filter, pass.model, pass.names, err);
    if (!status)
        status = gate_add(p->options->gate, pass.model, pass.names, p->options, err);
    if (!status) {
        p->of[i].row = report_listed(pass.image, model_totals(pass.model));
        p->of[i].shown = true;
        p->events += p->of[i].row.events;
        p->lost += pass.image->lost_calls;
    }
    pass_end(&pass);
    return status;
}

static void list(struct page *p, uint32_t i)
{
    const struct trace_image *image = &trace_info(p->t)->images[i];
    const struct listed *l = &p->of[i];
    p->undetailed += !l->block;
    if (p->listed == LISTED_MAX && !l->block) {
        p->unlisted++;
        p->rest.events += l->row.events;
        p->rest.requested_bytes += l->row.requested_bytes;
        p->rest.allocations += l->row.allocations;
        return;
    }
    p->listed++;
    struct json *j = &p->list;
    struct buffer command = {0};
    cmdline_append_now(&command, image->exe, image->command, image->title, image->comm, false);
    if (command.size_bytes > 400)
        command.data[command.size_bytes = 400] = 0;
    json_open_object(j, NULL);
    table_fields(j, TABLE(report_listed_columns), &l->row);
    json_text(j, "command", buffer_text(&command));
    if (l->block)
        json_number(j, "block", l->block - 1);
    json_close_object(j);
    buffer_release(&command);
}

/* ---- the whole ---- */

static void write_page_file(struct json *j, const struct page *p, const char *path)
{
    const struct trace_info *info = trace_info(p->t);
    struct warnings w = {0};
    warn_about_file(&w, info);
    json_schema(j);
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
    json_problems(j, p->symbols, 100);
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
    write_page_file(&j, p, path);
    json_raw(&j, "processes", processes, processes_bytes);
    json_close_object(&j);
    int status = fclose(j.out) ? error_system(err, "memory for the page") : 0;
    if (!status)
        status = html_block_pack(&block, text, text_bytes, 0, err);
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
    for (uint32_t i = 0; i < p->candidate_count && !status; i++) {
        p->calls_now = p->candidates[i].calls + 1;
        tell_page_progress(p, 0);
        status = one_process(p, p->candidates[i].image, i < DETAILED_MAX, err);
        p->calls_done += p->calls_now;
    }
    p->list = (struct json){.out = open_memstream(processes, processes_bytes)};
    if (!p->list.out)
        return error_system(err, "memory for the page");
    json_open_array(&p->list, NULL);
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (p->of[i].shown)
            list(p, i);
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
    if (selection_open(&s, &o->select, info, err))
        return -1;
    struct page p = {.out = out, .t = t, .symbols = symbols, .selection = &s, .options = o};
    p.room = room > LISTED_BYTES * listed ? room - LISTED_BYTES * listed : 0;
    int status = rank(&p, info, err);
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
    free(p.candidates);
    free(p.of);
    selection_close(&s);
    return status;
}
