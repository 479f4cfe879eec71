/* distribution.c - how a figure is distributed over processes: of groups, and of call sites. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/ask.h"

const struct column spread_columns[] = {
    ANSWER_NUMBER(SPREAD_PROCESSES, COUNT, "processes", NULL, 0),
    ANSWER_NUMBER(SPREAD_SUM, COUNT, "sum", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES, COUNT, "minimum", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 1, COUNT, "quartile_1", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 2, COUNT, "median", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 3, COUNT, "quartile_3", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 4, COUNT, "p90", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 5, COUNT, "p99", NULL, 0),
    ANSWER_NUMBER(SPREAD_VALUES + 6, COUNT, "maximum", NULL, 0),
    COLUMN_END};

static int distribution_as_json(struct asked *a, struct error *err)
{
    struct json j = {.out = a->out};
    json_begin(&j);
    json_text(&j, "store", a->q->where);
    json_text(&j, "by", show_metric(a->q->by));
    json_number(&j, "processes", a->totals.processes);
    json_number(&j, "hosts", a->totals.hosts);
    json_open_array(&j, "groups");
    for (size_t i = 0; i < a->parts.count; i++) {
        json_open_object(&j, NULL);
        json_text(&j, "group", a->parts.items[i].text);
        table_fields(&j, TABLE(spread_columns), &a->parts.items[i]);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_number(&j, "groups_total", a->parts.total);
    const int status = answers_json(&j, a->store, &a->query, &a->rows, spread_columns, err);
    json_close_object(&j);
    json_end(&j);
    return status;
}

static void print_heading(FILE *out, const char *what)
{
    text_printf(out, "\n%9s  %9s  %9s  %9s  %9s  %9s  %9s  %9s  %s\n", "processes", "minimum",
                "25%", "median", "75%", "90%", "99%", "maximum", what);
}

static void print_values(FILE *out, const struct answer *row, const void *arg)
{
    const struct asked *a = arg;
    char text[HUMAN_TEXT_BYTES];
    text_printf(out, "%9s", COUNT(row->numbers[SPREAD_PROCESSES]));
    for (int i = 0; i < SPREAD_RANKS; i++)
        text_printf(out, "  %9s", show_figure(text, row->numbers[SPREAD_VALUES + i], a->q->by));
    text_printf(out, "  ");
}

static int distribution_as_text(struct asked *a, struct error *err)
{
    FILE *out = a->out;
    const bool grouped = a->q->group.column || a->q->group.label;
    text_printf(out, "%s: %s %s on %s %s, by %s, in one process\n", a->q->where,
                COUNT(a->totals.processes), plural(a->totals.processes, "process", "processes"),
                COUNT(a->totals.hosts), plural(a->totals.hosts, "host", "hosts"),
                show_metric(a->q->by));
    print_heading(out, grouped ? "group" : "");
    for (size_t i = 0; i < a->parts.count; i++) {
        const char *name = a->parts.items[i].text;
        print_values(out, &a->parts.items[i], a);
        text_printf(out, "%s\n", *name ? name : grouped ? "(none)" : "all");
    }
    show_more(out, a->parts.total - a->parts.count, "groups");
    print_heading(out, "call site");
    const int status = answers_text(out, a->store, &a->query, &a->rows, print_values, a, err);
    return status ? status : show_more(out, a->rows.total - a->rows.count, "call sites");
}

int distribution_show(struct asked *a, struct error *err)
{
    return (a->q->json ? distribution_as_json : distribution_as_text)(a, err);
}
