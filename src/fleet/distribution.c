/* distribution.c - how a figure is distributed over processes: of groups, and of call sites. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/answers.h"
#include "fleet/show.h"

struct asked {
    const struct fleet_question *q;
    struct store_totals totals;
    struct answers parts, sites;
};

static int as_json(FILE *out, struct fleet_store *store, const struct asked *a, struct error *err)
{
    struct json j = {.out = out};
    int status = 0;
    json_begin(&j);
    json_text(&j, "store", a->q->where);
    json_text(&j, "by", show_metric(a->q->by));
    json_number(&j, "processes", a->totals.processes);
    json_number(&j, "hosts", a->totals.hosts);
    json_open_array(&j, "groups");
    for (size_t i = 0; i < a->parts.count; i++) {
        json_open_object(&j, NULL);
        json_text(&j, "group", a->parts.items[i].text);
        show_spread(&j, a->parts.items[i].numbers);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_number(&j, "groups_total", a->parts.total);
    json_open_array(&j, "sites");
    for (size_t i = 0; i < a->sites.count && !status; i++) {
        json_open_object(&j, NULL);
        status = show_frames(&j, store, a->sites.items[i].numbers[SPREAD_SITE], err);
        show_spread(&j, a->sites.items[i].numbers);
        json_close_object(&j);
    }
    show_end(&j, a->sites.total, a->sites.count, status ? err : NULL);
    return status;
}

static void print_heading(FILE *out, const char *what)
{
    text_printf(out, "\n%9s  %9s  %9s  %9s  %9s  %9s  %9s  %9s  %s\n", "processes", "minimum",
                "25%", "median", "75%", "90%", "99%", "maximum", what);
}

static void print_values(FILE *out, const struct asked *a, const uint64_t *numbers,
                         const char *what)
{
    char text[HUMAN_TEXT_BYTES];
    text_printf(out, "%9s", human_count(text, numbers[SPREAD_PROCESSES]));
    for (int i = 0; i < SPREAD_RANKS; i++)
        text_printf(out, "  %9s", show_figure(text, numbers[SPREAD_VALUES + i], a->q->by));
    text_printf(out, "  %s\n", what);
}

static int as_text(FILE *out, struct fleet_store *store, const struct asked *a, struct error *err)
{
    int status = 0;
    text_printf(out, "%s: %s %s on %s %s, by %s, in one process\n", a->q->where,
                COUNT(a->totals.processes), plural(a->totals.processes, "process", "processes"),
                COUNT(a->totals.hosts), plural(a->totals.hosts, "host", "hosts"),
                show_metric(a->q->by));
    print_heading(out, a->q->group.column || a->q->group.label ? "group" : "");
    for (size_t i = 0; i < a->parts.count; i++)
        print_values(out, a, a->parts.items[i].numbers,
                     *a->parts.items[i].text                   ? a->parts.items[i].text
                     : a->q->group.column || a->q->group.label ? "(none)"
                                                               : "all");
    if (a->parts.total > a->parts.count)
        text_printf(out, "%s more groups\n", COUNT(a->parts.total - a->parts.count));
    print_heading(out, "call site");
    for (size_t i = 0; i < a->sites.count && !status; i++) {
        struct buffer line = {0};
        status = show_call_site(store, a->sites.items[i].numbers[SPREAD_SITE], &line, err);
        if (!status)
            print_values(out, a, a->sites.items[i].numbers, buffer_text(&line));
        buffer_release(&line);
    }
    if (!status && a->sites.total > a->sites.count)
        text_printf(out, "%s more call sites\n", COUNT(a->sites.total - a->sites.count));
    return status;
}

int fleet_distribution(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                       const struct fleet_question *q, struct error *err)
{
    const uint64_t top = show_top(q, SHOW_SITES);
    struct asked a = {.q = q, .parts = {.top = top}, .sites = {.top = top}};
    int status = store->engine->totals(store, of, &a.totals, err);
    if (!status)
        status = answers_ask(&a.parts, store, store->engine->parts_sql(store, of, q->by, &q->group),
                             SPREAD_NUMBERS, false, err);
    if (!status)
        status = answers_sites(&a.sites, store, of, q->by, false, a.totals.processes, err);
    if (!status)
        status = (q->json ? as_json : as_text)(out, store, &a, err);
    answers_release(&a.parts);
    answers_release(&a.sites);
    return status;
}

int fleet_distribution_sql(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                           const struct fleet_question *q, struct error *err)
{
    const int status = show_sql(out, store->engine->parts_sql(store, of, q->by, &q->group), 0, err);
    return status
               ? status
               : show_sql(out, store->engine->spread_sql(store, of, q->by, show_limit(q)), 0, err);
}
