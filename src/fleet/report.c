/* report.c - which call sites hold most over all processes, as text and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/page.h"
#include "fleet/ask.h"

#define ROW_NUMBER(member)  (offsetof(struct store_row, member) / sizeof(uint64_t))
#define FIGURE(member, key) ANSWER_NUMBER(ROW_NUMBER(figures.member), COUNT, key, NULL, 0),
/* clang-format off */
#define FIGURES STORE_FIGURE_LIST(FIGURE)
static const struct column row_columns[] = {
    FIGURES
    ANSWER_NUMBER(ROW_NUMBER(processes), COUNT, "processes", "processes", 9),
    ANSWER_NUMBER(ROW_NUMBER(hosts), COUNT, "hosts", "hosts", 8),
    COLUMN_END};
static const struct column rest_columns[] = {FIGURES COLUMN_END};
#define TOTAL(member, key) COLUMN(struct store_totals, member, COUNT, key, NULL, 0)
#define COUNTED(member, plural, name, singular, bits) TOTAL(plural, #plural),
static const struct column total_columns[] = {
    TOTAL(processes, "processes"),
    TOTAL(incomplete, "incomplete_processes"),
    FLEET_FACT_LIST(COUNTED)
    TOTAL(events, "events"),
    TOTAL(lost_events, "lost_events"),
    TOTAL(requested_bytes, "requested_bytes"),
    TOTAL(figures.peak_bytes, "peak_live_bytes"),
    TOTAL(figures.peak_blocks, "peak_live_blocks"),
    TOTAL(figures.end_bytes, "end_live_bytes"),
    TOTAL(figures.end_blocks, "end_live_blocks"),
    TOTAL(figures.temporary, "temporary_allocations"),
    TOTAL(figures.byte_seconds, "byte_seconds"),
    COLUMN_END};
/* clang-format on */

static uint64_t figure_of_row(const uint64_t *numbers, enum metric by)
{
    struct store_row row;
    memcpy(&row, numbers, sizeof row);
    return store_metric(&row.figures, by);
}

static int report_as_json(struct asked *a, struct error *err)
{
    const struct fleet_question *q = a->q;
    const struct answers *rows = &a->rows;
    struct json j = {.out = a->out};
    struct answer rest;
    memcpy(rest.numbers, rows->rest, sizeof rest.numbers);
    json_begin(&j);
    if (q->page)
        page_head(&j, a->query.of, &a->totals);
    json_text(&j, "store", q->where);
    json_text(&j, "by", show_metric(q->by));
    table_fields(&j, TABLE(total_columns), &a->totals);
    int status = answers_json(&j, a->store, &a->query, rows, row_columns, err);
    json_open_object(&j, "left_out");
    table_fields(&j, TABLE(rest_columns), &rest);
    json_close_object(&j);
    if (q->page && !status)
        status = page_parts(&j, a->store, a->query.of, q, err);
    json_close_object(&j);
    json_end(&j);
    return status;
}

static void print_report_row(FILE *out, const struct answer *row, const void *arg)
{
    static const struct table counts = {.columns = row_columns};
    const enum metric by = *(const enum metric *)arg;
    char value[HUMAN_TEXT_BYTES];
    text_printf(out, "%12s  ", show_figure(value, figure_of_row(row->numbers, by), by));
    table_numbers(out, &counts, row);
}

static int report_as_text(struct asked *asked, struct error *err)
{
    const struct fleet_question *q = asked->q;
    const struct store_totals *t = &asked->totals;
    struct answers *rows = &asked->rows;
    FILE *out = asked->out;
    static const char *const headings[FLEET_METRICS] = {
        "at the peak", "at the end", "allocated", "temporary", "calls", "byte-seconds"};
    uint64_t counts[FLEET_FACTS];
    char value[HUMAN_TEXT_BYTES];
    memcpy(counts, (const char *)t + offsetof(struct store_totals, hosts), sizeof counts);
    text_printf(out, "%s: %s %s on", q->where, COUNT(t->processes),
                plural(t->processes, "process", "processes"));
    for (size_t i = 0; i < FLEET_FACTS; i++)
        text_printf(out, "%s %s %s", i ? "," : "", COUNT(counts[i]),
                    plural(counts[i], fleet_facts[i].singular, fleet_facts[i].plural));
    putc('\n', out);
    text_printf(out, "sums: peaks %s, live at the end %s, allocated %s in %s %s\n",
                SIZE(t->figures.peak_bytes), SIZE(t->figures.end_bytes), SIZE(t->requested_bytes),
                COUNT(t->figures.calls), plural(t->figures.calls, "call", "calls"));
    text_printf(out, "byte-seconds: %s\n",
                show_figure(value, t->figures.byte_seconds, FLEET_BYTE_SECONDS));
    if (t->lost_events || t->incomplete)
        text_printf(out, "%s %s; %s %s missing\n", COUNT(t->incomplete),
                    plural(t->incomplete, "process has no end in its recording",
                           "processes have no end in their recordings"),
                    COUNT(t->lost_events), plural(t->lost_events, "call is", "calls are"));
    text_printf(out, "\n%12s  %9s  %7s  call site\n", headings[q->by], "processes", "hosts");
    const uint64_t left = rows->total - rows->count, rest = figure_of_row(rows->rest, q->by);
    while (rows->count && !figure_of_row(rows->items[rows->count - 1].numbers, q->by))
        free(rows->items[--rows->count].text);
    const int status =
        answers_text(out, asked->store, &asked->query, rows, print_report_row, &q->by, err);
    if (!status && rest)
        text_printf(out, "%12s  in %s more call sites\n", show_figure(value, rest, q->by),
                    COUNT(left));
    return status;
}

int report_show(struct asked *a, struct error *err)
{
    return (a->q->json ? report_as_json : report_as_text)(a, err);
}
