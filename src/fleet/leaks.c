/* leaks.c - which call sites hold blocks at the end, and where. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/answers.h"
#include "fleet/show.h"

static int as_json(FILE *out, struct fleet_store *store, const struct fleet_question *q,
                   const struct store_totals *t, const struct answers *a, struct error *err)
{
    struct json j = {.out = out};
    int status = 0;
    json_begin(&j);
    json_text(&j, "store", q->where);
    json_number(&j, "processes", t->processes);
    json_number(&j, "incomplete_processes", t->incomplete);
    json_number(&j, "hosts", t->hosts);
    json_number(&j, "end_live_bytes", t->figures.end_bytes);
    json_number(&j, "end_live_blocks", t->figures.end_blocks);
    json_open_array(&j, "sites");
    for (size_t i = 0; i < a->count && !status; i++) {
        const uint64_t *n = a->items[i].numbers;
        json_open_object(&j, NULL);
        status = show_frames(&j, store, n[LEAK_SITE], err);
        json_number(&j, "end_live_bytes", n[LEAK_BYTES]);
        json_number(&j, "end_live_blocks", n[LEAK_BLOCKS]);
        json_number(&j, "processes", n[LEAK_PROCESSES]);
        json_number(&j, "hosts", n[LEAK_HOSTS]);
        json_number(&j, "calling_processes", n[LEAK_CALLING_PROCESSES]);
        json_number(&j, "calling_hosts", n[LEAK_CALLING_HOSTS]);
        json_number(&j, "most_bytes", n[LEAK_MOST]);
        json_text(&j, "most_host", a->items[i].text);
        json_close_object(&j);
    }
    show_end(&j, a->total, a->count, status ? err : NULL);
    return status;
}

static int print_site(FILE *out, struct fleet_store *store, const struct answer *a,
                      struct error *err)
{
    struct buffer line = {0};
    char processes[64], hosts[64];
    const uint64_t *n = a->numbers;
    snprintf(processes, sizeof processes, "%" PRIu64 " of %" PRIu64, n[LEAK_PROCESSES],
             n[LEAK_CALLING_PROCESSES]);
    snprintf(hosts, sizeof hosts, "%" PRIu64 " of %" PRIu64, n[LEAK_HOSTS], n[LEAK_CALLING_HOSTS]);
    const int status = show_call_site(store, n[LEAK_SITE], &line, err);
    if (!status)
        text_printf(out, "%12s  %14s  %14s  %12s  %-16s  %s\n", SIZE(n[LEAK_BYTES]), processes,
                    hosts, SIZE(n[LEAK_MOST]), a->text, buffer_text(&line));
    buffer_release(&line);
    return status;
}

static int as_text(FILE *out, struct fleet_store *store, const struct fleet_question *q,
                   const struct store_totals *t, const struct answers *a, struct error *err)
{
    int status = 0;
    text_printf(out, "%s: %s %s on %s %s, live at the end %s\n", q->where, COUNT(t->processes),
                plural(t->processes, "process", "processes"), COUNT(t->hosts),
                plural(t->hosts, "host", "hosts"), SIZE(t->figures.end_bytes));
    if (t->incomplete)
        text_printf(out, "%s %s; blocks live last count\n", COUNT(t->incomplete),
                    plural(t->incomplete, "process has no end in its recording",
                           "processes have no end in their recordings"));
    text_printf(out, "\n%12s  %14s  %14s  %12s  %-16s  call site\n", "at the end", "in processes",
                "on hosts", "most in one", "on");
    for (size_t i = 0; i < a->count && !status; i++)
        status = print_site(out, store, &a->items[i], err);
    if (!status && a->total > a->count)
        text_printf(out, "%s more call sites\n", COUNT(a->total - a->count));
    return status;
}

int fleet_leaks(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                const struct fleet_question *q, struct error *err)
{
    struct store_totals totals;
    struct answers a = {.top = show_top(q, SHOW_SITES)};
    int status = store->engine->totals(store, of, &totals, err);
    if (!status)
        status = answers_sites(&a, store, of, BY_END, true, totals.processes, err);
    if (!status)
        status = (q->json ? as_json : as_text)(out, store, q, &totals, &a, err);
    answers_release(&a);
    return status;
}

int fleet_leaks_sql(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                    const struct fleet_question *q, struct error *err)
{
    return show_sql(out, store->engine->leaks_sql(store, of, show_limit(q)), 0, err);
}
