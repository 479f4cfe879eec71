/* timeline.c - what processes hold, allocate and call in each slice of time, added up. */
#include <inttypes.h>
#include <time.h>

#include "base/human.h"
#include "base/text.h"
#include "fleet/answers.h"
#include "fleet/show.h"
#include "fleet/times.h"

enum { SLICES_TEXT = 100, SLICES_MOST = 100 };

/* *width_ns: how long a slice is, as asked for or so that they are few. 0: there is no process. */
static int choose_width(struct fleet_store *store, const struct fleet_selection *of,
                        uint64_t asked_ns, uint64_t *width_ns, struct error *err)
{
    struct answers span = {.top = 1};
    int status =
        answers_ask(&span, store, store->engine->span_sql(store, of), SPAN_NUMBERS, false, err);
    *width_ns = 0;
    if (!status && span.count && span.items[0].numbers[SPAN_WIDTH]) {
        const uint64_t *n = span.items[0].numbers;
        const uint64_t widest = n[SPAN_WIDTH];
        const uint64_t took = n[SPAN_END] > n[SPAN_START] ? n[SPAN_END] - n[SPAN_START] : 0;
        *width_ns = asked_ns ? asked_ns : times_width(took, SLICES_MOST);
        if (!asked_ns && *width_ns < widest)
            *width_ns = widest;
        if (*width_ns % widest)
            status =
                error_set(err, ERROR_USAGE,
                          "--slice: the store has slices of %s for these processes; a slice is "
                          "a multiple of that",
                          TIME(widest));
    }
    answers_release(&span);
    return status;
}

static int as_json(FILE *out, const struct fleet_question *q, uint64_t width_ns,
                   const struct answers *a)
{
    static const char *const names[SLICE_NUMBERS] = {
        "start_realtime_ns", "processes",       "hosts", "live_bytes",
        "peak_bytes",        "allocated_bytes", "calls"};
    struct json j = {.out = out};
    json_begin(&j);
    json_text(&j, "store", q->where);
    json_number(&j, "slice_ns", width_ns);
    json_open_array(&j, "slices");
    for (size_t i = 0; i < a->count; i++) {
        json_open_object(&j, NULL);
        for (unsigned k = 0; k < SLICE_NUMBERS; k++)
            json_number(&j, names[k], a->items[i].numbers[k]);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_number(&j, "slices_total", a->total);
    json_number(&j, "slices_left_out", a->total - a->count);
    json_close_object(&j);
    json_end(&j);
    return 0;
}

/* "2026-11-22 20:15:07.350", as far as slices of this width need it. */
static const char *write_time(char room[64], uint64_t ns, uint64_t width_ns)
{
    const time_t seconds = (time_t)(ns / 1000000000);
    struct tm tm;
    size_t n = gmtime_r(&seconds, &tm) ? strftime(room, 64, "%Y-%m-%d %H:%M:%S", &tm) : 0;
    if (width_ns % 1000000000)
        n += (size_t)snprintf(room + n, 64 - n, ".%03u", (unsigned)(ns / 1000000 % 1000));
    room[n] = 0;
    return room;
}

static void print_slice(FILE *out, const uint64_t *n, uint64_t width_ns)
{
    char time[64];
    text_printf(out, "%-23s  %9s  %7s  %12s  %12s  %12s  %12s\n",
                write_time(time, n[SLICE_START], width_ns), COUNT(n[SLICE_PROCESSES]),
                COUNT(n[SLICE_HOSTS]), SIZE(n[SLICE_LIVE]), SIZE(n[SLICE_PEAK]),
                SIZE(n[SLICE_ALLOCATED]), COUNT(n[SLICE_CALLS]));
}

static int as_text(FILE *out, const struct fleet_question *q, uint64_t width_ns,
                   const struct answers *a)
{
    if (!width_ns) {
        text_printf(out, "%s: no process\n", q->where);
        return 0;
    }
    text_printf(out, "%s: slices of %s, times in UTC\n\n", q->where, TIME(width_ns));
    text_printf(out, "%-23s  %9s  %7s  %12s  %12s  %12s  %12s\n", "from", "processes", "hosts",
                "live", "at most", "allocated", "calls");
    for (size_t i = 0; i < a->count; i++)
        print_slice(out, a->items[i].numbers, width_ns);
    if (a->total > a->count)
        text_printf(out, "%s more slices\n", COUNT(a->total - a->count));
    return 0;
}

int fleet_timeline(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                   const struct fleet_question *q, struct error *err)
{
    struct answers a = {.top = show_top(q, SLICES_TEXT)};
    uint64_t width_ns;
    int status = choose_width(store, of, q->slice_ns, &width_ns, err);
    if (!status && width_ns)
        status = answers_ask(&a, store, store->engine->slices_sql(store, of, width_ns),
                             SLICE_NUMBERS, false, err);
    if (!status)
        status = (q->json ? as_json : as_text)(out, q, width_ns, &a);
    answers_release(&a);
    return status;
}

int fleet_timeline_sql(FILE *out, struct fleet_store *store, const struct fleet_selection *of,
                       const struct fleet_question *q, struct error *err)
{
    uint64_t width_ns;
    if (choose_width(store, of, q->slice_ns, &width_ns, err))
        return -1;
    return show_sql(out, store->engine->slices_sql(store, of, width_ns ? width_ns : 1),
                    show_limit(q), err);
}
