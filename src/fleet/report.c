/* report.c - which call sites hold most over all processes, as text and as JSON. */
#include <stdlib.h>

#include "base/array.h"
#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/page.h"
#include "fleet/show.h"
#include "fleet/store.h"

struct rows { /* those that are shown, and the sum of the rest */
    struct store_row *items;
    size_t count, room;
    uint64_t top, total;
    struct store_figures left_out;
};

static int keep(void *arg, const struct store_row *r, struct error *err)
{
    struct rows *rows = arg;
    rows->total++;
    if (rows->count >= rows->top) {
        store_join(&rows->left_out, &r->figures);
        return 0;
    }
    struct store_row *const row = ARRAY_ADD(rows->items, rows->count, rows->room);
    if (!row)
        return error_memory(err);
    *row = *r;
    return 0;
}

static void write_figures(struct json *j, const struct store_figures *f)
{
#define FIGURE(member, key) json_number(j, key, f->member);
    STORE_FIGURE_LIST(FIGURE)
#undef FIGURE
}

static int write_site(struct json *j, struct fleet_store *store, const struct store_row *r,
                      struct error *err)
{
    json_open_object(j, NULL);
    if (show_frames(j, store, r->site, err))
        return -1;
    write_figures(j, &r->figures);
    json_number(j, "processes", r->processes);
    json_number(j, "hosts", r->hosts);
    json_close_object(j);
    return 0;
}

static int report_as_json(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                          const struct fleet_question *q, const struct store_totals *t,
                          const struct rows *rows, struct error *err)
{
    struct json j = {.out = out};
    int status = 0;
    json_begin(&j);
    if (q->page)
        page_head(&j, of, t);
    json_text(&j, "store", q->where);
    json_text(&j, "by", show_metric(q->by));
    json_number(&j, "processes", t->processes);
    json_number(&j, "incomplete_processes", t->incomplete);
    json_number(&j, "hosts", t->hosts);
    json_number(&j, "services", t->services);
    json_number(&j, "builds", t->builds);
    json_number(&j, "events", t->events);
    json_number(&j, "lost_events", t->lost_events);
    json_number(&j, "requested_bytes", t->requested_bytes);
    json_number(&j, "peak_live_bytes", t->figures.peak_bytes);
    json_number(&j, "peak_live_blocks", t->figures.peak_blocks);
    json_number(&j, "end_live_bytes", t->figures.end_bytes);
    json_number(&j, "end_live_blocks", t->figures.end_blocks);
    json_number(&j, "temporary_allocations", t->figures.temporary);
    json_number(&j, "byte_seconds", t->figures.byte_seconds);
    json_open_array(&j, "sites");
    for (size_t i = 0; i < rows->count && !status; i++)
        status = write_site(&j, store, &rows->items[i], err);
    show_sites_end(&j, rows->total, rows->count, status ? err : NULL);
    json_open_object(&j, "left_out");
    write_figures(&j, &rows->left_out);
    json_close_object(&j);
    if (q->page && !status)
        status = page_parts(&j, store, of, q, err);
    json_close_object(&j);
    json_end(&j);
    return status;
}

static int print_site(FILE *out, struct fleet_store *store, const struct store_row *r,
                      enum metric by, struct error *err)
{
    struct buffer line = {0};
    char value[HUMAN_TEXT_BYTES];
    const int status = show_call_site(store, r->site, &line, err);
    if (!status)
        text_printf(out, "%12s  %9s  %7s  %s\n",
                    show_figure(value, store_metric(&r->figures, by), by), COUNT(r->processes),
                    COUNT(r->hosts), buffer_text(&line));
    buffer_release(&line);
    return status;
}

static int report_as_text(FILE *out, struct fleet_store *store, const struct fleet_question *q,
                          const struct store_totals *t, const struct rows *rows, struct error *err)
{
    static const char *const headings[FLEET_METRICS] = {
        "at the peak", "at the end", "allocated", "temporary", "calls", "byte-seconds"};
    char a[HUMAN_TEXT_BYTES];
    int status = 0;
    text_printf(out, "%s: %s %s on %s %s, %s %s, %s %s\n", q->where, human_count(a, t->processes),
                plural(t->processes, "process", "processes"), COUNT(t->hosts),
                plural(t->hosts, "host", "hosts"), COUNT(t->services),
                plural(t->services, "service", "services"), COUNT(t->builds),
                plural(t->builds, "build", "builds"));
    text_printf(out, "sums: peaks %s, live at the end %s, allocated %s in %s %s\n",
                human_size(a, t->figures.peak_bytes), SIZE(t->figures.end_bytes),
                SIZE(t->requested_bytes), COUNT(t->figures.calls),
                plural(t->figures.calls, "call", "calls"));
    text_printf(out, "byte-seconds: %s\n",
                show_figure(a, t->figures.byte_seconds, FLEET_BYTE_SECONDS));
    if (t->lost_events || t->incomplete)
        text_printf(out, "%s %s; %s %s missing\n", human_count(a, t->incomplete),
                    plural(t->incomplete, "process has no end in its recording",
                           "processes have no end in their recordings"),
                    COUNT(t->lost_events), plural(t->lost_events, "call is", "calls are"));
    text_printf(out, "\n%12s  %9s  %7s  call site\n", headings[q->by], "processes", "hosts");
    for (size_t i = 0; i < rows->count && !status; i++)
        if (store_metric(&rows->items[i].figures, q->by))
            status = print_site(out, store, &rows->items[i], q->by, err);
    const uint64_t rest = store_metric(&rows->left_out, q->by);
    if (!status && rest)
        text_printf(out, "%12s  in %s more call sites\n", show_figure(a, rest, q->by),
                    COUNT(rows->total - rows->count));
    return status;
}

/* All at once is faster, where the store is far away. */
static int prepare(struct fleet_store *store, const struct rows *rows, struct error *err)
{
    uint64_t *sites = malloc((rows->count + 1) * sizeof *sites);
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < rows->count; i++)
        sites[i] = rows->items[i].site;
    const int status = store_prepare_frames(store, sites, rows->count, err);
    free(sites);
    return status;
}

int fleet_report(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                 const struct fleet_question *q, struct error *err)
{
    struct store_totals totals;
    struct rows rows = {.top = show_top(q, SHOW_SITES)};
    int status = store->engine->totals(store, of, &totals, err);
    if (!status)
        status = store->engine->sites(store, of, q->by, keep, &rows, err);
    if (!status)
        status = prepare(store, &rows, err);
    if (!status)
        status = q->json ? report_as_json(out, store, of, q, &totals, &rows, err)
                         : report_as_text(out, store, q, &totals, &rows, err);
    free(rows.items);
    return status;
}

int fleet_report_sql(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                     const struct fleet_question *q, struct error *err)
{
    return show_sql(out, store->engine->sites_sql(store, of, q->by), show_limit(q), err);
}
