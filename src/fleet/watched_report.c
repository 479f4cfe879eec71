/* watched_report.c - what sampled processes hold, by the last report of each. */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/answers.h"
#include "fleet/show.h"

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

static void write_estimate(struct json *j, const uint64_t *n)
{
    json_number(j, "processes", n[WATCHED_PROCESSES]);
    json_number(j, "hosts", n[WATCHED_HOSTS]);
    json_number(j, "sampled_blocks", n[WATCHED_SAMPLES]);
    json_number(j, "sampled_bytes", n[WATCHED_SAMPLED_BYTES]);
    json_number(j, "estimated_blocks", n[WATCHED_BLOCKS]);
    json_number(j, "estimated_bytes", n[WATCHED_BYTES]);
    json_number(j, "estimated_bytes_low", low(n));
    json_number(j, "estimated_bytes_high", high(n));
}

static int as_json(FILE *out, struct fleet_store *store, const struct fleet_question *q,
                   const uint64_t *total, const struct answers *a, struct error *err)
{
    struct json j = {.out = out};
    int status = 0;
    json_begin(&j);
    json_text(&j, "store", q->where);
    json_text(&j, "kind", q->kind);
    write_estimate(&j, total);
    json_number(&j, "oldest_report_realtime_ns", total[WATCHED_OLDEST]);
    json_open_array(&j, "sites");
    for (size_t i = 0; i < a->count && !status; i++) {
        const uint64_t *n = a->items[i].numbers;
        json_open_object(&j, NULL);
        status = show_frames(&j, store, n[WATCHED_SITE], err);
        write_estimate(&j, n);
        json_number(&j, "oldest_age_ns", n[WATCHED_OLDEST]);
        json_close_object(&j);
    }
    show_end(&j, a->total, a->count, status ? err : NULL);
    return status;
}

static int print_site(FILE *out, struct fleet_store *store, const uint64_t *n, struct error *err)
{
    struct buffer line = {0};
    const int status = show_call_site(store, n[WATCHED_SITE], &line, err);
    if (!status)
        text_printf(out, "%12s  %12s  %12s  %9s  %7s  %s\n", SIZE(n[WATCHED_BYTES]), SIZE(low(n)),
                    SIZE(high(n)), COUNT(n[WATCHED_PROCESSES]), COUNT(n[WATCHED_HOSTS]),
                    buffer_text(&line));
    buffer_release(&line);
    return status;
}

static int as_text(FILE *out, struct fleet_store *store, const struct fleet_question *q,
                   const uint64_t *total, const struct answers *a, struct error *err)
{
    int status = 0;
    text_printf(out, "%s: the last report '%s' of %s %s on %s %s\n", q->where, q->kind,
                COUNT(total[WATCHED_PROCESSES]),
                plural(total[WATCHED_PROCESSES], "process", "processes"),
                COUNT(total[WATCHED_HOSTS]), plural(total[WATCHED_HOSTS], "host", "hosts"));
    text_printf(out, "estimated: %s, between %s and %s, from %s %s\n", SIZE(total[WATCHED_BYTES]),
                SIZE(low(total)), SIZE(high(total)), COUNT(total[WATCHED_SAMPLES]),
                plural(total[WATCHED_SAMPLES], "sample", "samples"));
    text_printf(out, "\n%12s  %12s  %12s  %9s  %7s  call site\n", "estimated", "at least",
                "at most", "processes", "hosts");
    for (size_t i = 0; i < a->count && !status; i++)
        status = print_site(out, store, a->items[i].numbers, err);
    if (!status && a->total > a->count)
        text_printf(out, "%s more call sites\n", COUNT(a->total - a->count));
    return status;
}

int fleet_watched(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                  const struct fleet_question *q, struct error *err)
{
    struct answers totals = {.top = 1};
    struct answers a = {.top = show_top(q, SHOW_SITES)};
    int status = answers_ask(&totals, store, store->engine->watched_sql(store, of, q->kind, true),
                             WATCHED_NUMBERS, false, err);
    if (!status)
        status = answers_ask(&a, store, store->engine->watched_sql(store, of, q->kind, false),
                             WATCHED_NUMBERS, true, err);
    static const uint64_t nothing[STORE_NUMBERS];
    if (!status)
        status = (q->json ? as_json : as_text)(
            out, store, q, totals.count ? totals.items[0].numbers : nothing, &a, err);
    answers_release(&totals);
    answers_release(&a);
    return status;
}

int fleet_watched_sql(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                      const struct fleet_question *q, struct error *err)
{
    return show_sql(out, store->engine->watched_sql(store, of, q->kind, false), show_limit(q), err);
}
