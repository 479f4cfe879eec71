/* watched_report.c - what sampled processes hold, by the last report of each. */
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/ask.h"

/* The truth is not below the samples that were seen. */
static uint64_t low(const uint64_t *n)
{
    const uint64_t least =
        n[WATCHED_DOWN] < n[WATCHED_BYTES] ? n[WATCHED_BYTES] - n[WATCHED_DOWN] : 0;
    return least < n[WATCHED_SAMPLED_BYTES] ? n[WATCHED_SAMPLED_BYTES] : least;
}

static uint64_t high(const uint64_t *n)
{
    const uint64_t most = n[WATCHED_BYTES] + n[WATCHED_UP];
    return most < n[WATCHED_BYTES] ? UINT64_MAX : most;
}

static const struct column columns[] = {
    ANSWER_NUMBER(WATCHED_PROCESSES, COUNT, "processes", NULL, 0),
    ANSWER_NUMBER(WATCHED_HOSTS, COUNT, "hosts", NULL, 0),
    ANSWER_NUMBER(WATCHED_SAMPLES, COUNT, "sampled_blocks", NULL, 0),
    ANSWER_NUMBER(WATCHED_SAMPLED_BYTES, BYTES, "sampled_bytes", NULL, 0),
    ANSWER_NUMBER(WATCHED_BLOCKS, COUNT, "estimated_blocks", NULL, 0),
    ANSWER_NUMBER(WATCHED_BYTES, BYTES, "estimated_bytes", NULL, 0),
    ANSWER_NUMBER(WATCHED_DOWN, BYTES, "estimated_bytes_low", NULL, 0),
    ANSWER_NUMBER(WATCHED_UP, BYTES, "estimated_bytes_high", NULL, 0),
    ANSWER_NUMBER(WATCHED_OLDEST, TIME, "oldest_age_ns", NULL, 0),
    COLUMN_END};

/* How far the interval reaches becomes its bounds. */
static void find_bounds(uint64_t *n)
{
    const uint64_t least = low(n), most = high(n);
    n[WATCHED_DOWN] = least;
    n[WATCHED_UP] = most;
}

static int watched_as_json(struct asked *a, const struct answer *total, struct error *err)
{
    struct column of_all[sizeof columns / sizeof *columns];
    struct json j = {.out = a->out};
    memcpy(of_all, columns, sizeof columns);
    of_all[sizeof columns / sizeof *columns - 2].key = "oldest_report_realtime_ns";
    json_begin(&j);
    json_text(&j, "store", a->q->where);
    json_text(&j, "kind", a->q->kind);
    table_fields(&j, TABLE(of_all), total);
    const int status = answers_json(&j, a->store, &a->query, &a->rows, columns, err);
    json_close_object(&j);
    json_end(&j);
    return status;
}

static void print_estimate(FILE *out, const struct answer *row, const void *arg)
{
    const uint64_t *n = row->numbers;
    (void)arg;
    text_printf(out, "%12s  %12s  %12s  %9s  %7s  ", SIZE(n[WATCHED_BYTES]), SIZE(n[WATCHED_DOWN]),
                SIZE(n[WATCHED_UP]), COUNT(n[WATCHED_PROCESSES]), COUNT(n[WATCHED_HOSTS]));
}

static int watched_as_text(struct asked *a, const struct answer *sums, struct error *err)
{
    FILE *out = a->out;
    const uint64_t *total = sums->numbers;
    text_printf(out, "%s: the last report '%s' of %s %s on %s %s\n", a->q->where, a->q->kind,
                COUNT(total[WATCHED_PROCESSES]),
                plural(total[WATCHED_PROCESSES], "process", "processes"),
                COUNT(total[WATCHED_HOSTS]), plural(total[WATCHED_HOSTS], "host", "hosts"));
    text_printf(out, "estimated: %s, between %s and %s, from %s %s\n", SIZE(total[WATCHED_BYTES]),
                SIZE(total[WATCHED_DOWN]), SIZE(total[WATCHED_UP]), COUNT(total[WATCHED_SAMPLES]),
                plural(total[WATCHED_SAMPLES], "sample", "samples"));
    text_printf(out, "\n%12s  %12s  %12s  %9s  %7s  call site\n", "estimated", "at least",
                "at most", "processes", "hosts");
    const int status = answers_text(out, a->store, &a->query, &a->rows, print_estimate, NULL, err);
    return status ? status : show_more(out, a->rows.total - a->rows.count, "call sites");
}

int watched_show(struct asked *a, struct error *err)
{
    struct answer total = {.text = NULL};
    struct store_query all = a->query;
    all.what = ASK_WATCHED_TOTAL;
    if (answers_one(total.numbers, a->store, &all, err))
        return -1;
    find_bounds(total.numbers);
    for (size_t i = 0; i < a->rows.count; i++)
        find_bounds(a->rows.items[i].numbers);
    return (a->q->json ? watched_as_json : watched_as_text)(a, &total, err);
}
