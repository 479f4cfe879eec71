/* timeline.c - what processes hold, allocate and call in each slice of time, added up. */
#include <time.h>

#include "base/human.h"
#include "base/text.h"
#include "fleet/ask.h"
#include "fleet/times.h"

enum { SLICES_MOST = 100 };

/* How long a slice is, as asked for or so that they are few; 0: there is no process. */
int timeline_begin(struct asked *a, struct error *err)
{
    uint64_t *width_ns = &a->query.width_ns;
    const uint64_t asked_ns = a->q->slice_ns;
    uint64_t n[STORE_NUMBERS];
    struct store_query span = {.what = ASK_SPAN, .of = a->query.of};
    int status = answers_one(n, a->store, &span, err);
    if (!status && n[SPAN_WIDTH]) {
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
    *width_ns += a->q->sql && !*width_ns;
    return status;
}

static const struct column columns[] = {
    ANSWER_NUMBER(SLICE_START, NUMBER, "start_realtime_ns", NULL, 0),
    ANSWER_NUMBER(SLICE_PROCESSES, COUNT, "processes", NULL, 0),
    ANSWER_NUMBER(SLICE_HOSTS, COUNT, "hosts", NULL, 0),
    ANSWER_NUMBER(SLICE_LIVE, BYTES, "live_bytes", NULL, 0),
    ANSWER_NUMBER(SLICE_PEAK, BYTES, "peak_bytes", NULL, 0),
    ANSWER_NUMBER(SLICE_ALLOCATED, BYTES, "allocated_bytes", NULL, 0),
    ANSWER_NUMBER(SLICE_CALLS, COUNT, "calls", NULL, 0),
    COLUMN_END};

static int timeline_as_json(FILE *out, const struct fleet_question *q, uint64_t width_ns,
                            const struct answers *a)
{
    struct json j = {.out = out};
    json_begin(&j);
    json_text(&j, "store", q->where);
    json_number(&j, "slice_ns", width_ns);
    table_json(&j, "slices", TABLE(columns), a->items, a->count, sizeof *a->items);
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

static int timeline_as_text(FILE *out, const struct fleet_question *q, uint64_t width_ns,
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
    return show_more(out, a->total - a->count, "slices");
}

int timeline_show(struct asked *a, struct error *err)
{
    (void)err;
    return (a->q->json ? timeline_as_json : timeline_as_text)(a->out, a->q, a->query.width_ns,
                                                              &a->rows);
}
