/* leaks.c - which call sites hold blocks at the end, and where. */
#include <inttypes.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/ask.h"

static const struct column columns[] = {
    ANSWER_NUMBER(LEAK_BYTES, BYTES, "end_live_bytes", NULL, 0),
    ANSWER_NUMBER(LEAK_BLOCKS, COUNT, "end_live_blocks", NULL, 0),
    ANSWER_NUMBER(LEAK_PROCESSES, COUNT, "processes", NULL, 0),
    ANSWER_NUMBER(LEAK_HOSTS, COUNT, "hosts", NULL, 0),
    ANSWER_NUMBER(LEAK_CALLING_PROCESSES, COUNT, "calling_processes", NULL, 0),
    ANSWER_NUMBER(LEAK_CALLING_HOSTS, COUNT, "calling_hosts", NULL, 0),
    ANSWER_NUMBER(LEAK_MOST, BYTES, "most_bytes", NULL, 0),
    COLUMN(struct answer, text, TEXT, "most_host", NULL, 0),
    COLUMN_END};

static int leaks_as_json(struct asked *a, struct error *err)
{
    const struct store_totals *t = &a->totals;
    struct json j = {.out = a->out};
    json_begin(&j);
    json_text(&j, "store", a->q->where);
    json_number(&j, "processes", t->processes);
    json_number(&j, "incomplete_processes", t->incomplete);
    json_number(&j, "hosts", t->hosts);
    json_number(&j, "end_live_bytes", t->figures.end_bytes);
    json_number(&j, "end_live_blocks", t->figures.end_blocks);
    const int status = answers_json(&j, a->store, &a->query, &a->rows, columns, err);
    json_close_object(&j);
    json_end(&j);
    return status;
}

static void print_leak(FILE *out, const struct answer *a, const void *arg)
{
    char processes[64], hosts[64];
    const uint64_t *n = a->numbers;
    (void)arg;
    snprintf(processes, sizeof processes, "%" PRIu64 " of %" PRIu64, n[LEAK_PROCESSES],
             n[LEAK_CALLING_PROCESSES]);
    snprintf(hosts, sizeof hosts, "%" PRIu64 " of %" PRIu64, n[LEAK_HOSTS], n[LEAK_CALLING_HOSTS]);
    text_printf(out, "%12s  %14s  %14s  %12s  %-16s  ", SIZE(n[LEAK_BYTES]), processes, hosts,
                SIZE(n[LEAK_MOST]), a->text);
}

static int leaks_as_text(struct asked *a, struct error *err)
{
    const struct store_totals *t = &a->totals;
    FILE *out = a->out;
    text_printf(out, "%s: %s %s on %s %s, live at the end %s\n", a->q->where, COUNT(t->processes),
                plural(t->processes, "process", "processes"), COUNT(t->hosts),
                plural(t->hosts, "host", "hosts"), SIZE(t->figures.end_bytes));
    if (t->incomplete)
        text_printf(out, "%s %s; blocks live last count\n", COUNT(t->incomplete),
                    plural(t->incomplete, "process has no end in its recording",
                           "processes have no end in their recordings"));
    text_printf(out, "\n%12s  %14s  %14s  %12s  %-16s  call site\n", "at the end", "in processes",
                "on hosts", "most in one", "on");
    const int status = answers_text(out, a->store, &a->query, &a->rows, print_leak, NULL, err);
    return status ? status : show_more(out, a->rows.total - a->rows.count, "call sites");
}

int leaks_show(struct asked *a, struct error *err)
{
    return (a->q->json ? leaks_as_json : leaks_as_text)(a, err);
}
