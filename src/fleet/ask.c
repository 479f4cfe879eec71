/* ask.c - the questions of `mallow fleet`, each a row of a table: what a store is asked, and who
 * writes the answer. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"
#include "fleet/ask.h"

static const struct {
    enum store_question asks;
    bool totals;       /* the sums over all processes are wanted */
    bool sites;        /* rows are call sites, whose frames are shown */
    bool parts;        /* the processes are shown in groups, too */
    bool picks;        /* the query itself picks the rows with most */
    bool without_rows; /* the function that shows the answer asks for its rows */
    unsigned in_text;  /* rows, unless a number is given */
    int (*begin)(struct asked *a, struct error *err);
    int (*show)(struct asked *a, struct error *err);
} questions[FLEET_QUESTIONS] = {
    [FLEET_REPORT] = {.asks = ASK_SITES, .totals = true, .sites = true, .show = report_show},
    [FLEET_LEAKS] =
        {.asks = ASK_LEAKS, .totals = true, .sites = true, .picks = true, .show = leaks_show},
    [FLEET_DISTRIBUTION] = {.asks = ASK_SPREAD,
                            .totals = true,
                            .sites = true,
                            .parts = true,
                            .picks = true,
                            .show = distribution_show},
    [FLEET_TIMELINE] = {.asks = ASK_SLICES,
                        .in_text = 100,
                        .begin = timeline_begin,
                        .show = timeline_show},
    [FLEET_WATCHED] = {.asks = ASK_WATCHED, .sites = true, .show = watched_show},
    [FLEET_DIFF] = {.asks = ASK_HELD, .without_rows = true, .show = diff_show}};

static int print_query(const struct asked *a, const struct store_query *q, uint64_t limit,
                       struct error *err)
{
    char *sql = store_sql(a->store, q);
    if (!sql)
        return error_memory(err);
    text_printf(a->out, "%s", sql);
    if (limit)
        text_printf(a->out, " LIMIT %" PRIu64, limit);
    text_printf(a->out, ";\n");
    free(sql);
    return 0;
}

static struct store_query parts_of(const struct asked *a)
{
    struct store_query parts = a->query;
    parts.what = ASK_PARTS;
    return parts;
}

static int print_queries(struct asked *a, struct error *err)
{
    const uint64_t top = a->q->top == FLEET_ALL ? 0 : a->q->top;
    const struct store_query parts = parts_of(a);
    a->query.top = top;
    a->query.call_sites = a->q->call_sites;
    if (questions[a->q->what].parts && print_query(a, &parts, 0, err))
        return -1;
    const bool whole = questions[a->q->what].picks || a->q->what == FLEET_DIFF;
    return print_query(a, &a->query, whole ? 0 : top, err);
}

static int show_answer(struct asked *a, struct error *err)
{
    struct store_query parts = parts_of(a);
    int status = 0;
    if (questions[a->q->what].totals)
        status = store_totals_ask(a->store, a->query.of, &a->totals, err);
    a->query.processes = a->totals.processes;
    if (!status && questions[a->q->what].parts)
        status = answers_ask(&a->parts, a->store, &parts, false, err);
    const bool no_process = questions[a->q->what].begin && !a->query.width_ns;
    if (!status && !questions[a->q->what].without_rows && !no_process)
        status = answers_ask(&a->rows, a->store, &a->query, questions[a->q->what].sites, err);
    return status ? status : questions[a->q->what].show(a, err);
}

int fleet_ask(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
              const struct fleet_question *q, struct error *err)
{
    const unsigned in_text = questions[q->what].in_text;
    struct asked a = {
        .out = out,
        .store = store,
        .q = q,
        .query = {.what = questions[q->what].asks,
                  .of = of,
                  .old = q->old,
                  .by = q->what == FLEET_LEAKS ? BY_END : q->by,
                  .call_sites = questions[q->what].sites && (!q->json || q->call_sites),
                  .group = &q->group,
                  .kind = q->kind,
                  .top = show_top(q, in_text ? in_text : SHOW_SITES)}};
    int status = questions[q->what].begin ? questions[q->what].begin(&a, err) : 0;
    if (!status)
        status = q->sql ? print_queries(&a, err) : show_answer(&a, err);
    answers_release(&a.parts);
    answers_release(&a.rows);
    return status;
}
