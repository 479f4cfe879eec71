/* diff.c - what call sites hold in some processes against others: per process, with intervals. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "fleet/numbers.h"
#include "fleet/page.h"
#include "fleet/ask.h"
#include "fleet/store.h"
#include "stats/stats.h"

enum { OLD, NEW, SIDES };
struct change { /* a call path's change */
    uint64_t sites[SIDES], sum[SIDES], processes[SIDES];
    unsigned __int128 squares[SIDES];
    uint64_t site; /* one that reads so: of the new processes where they have it */
    struct stats_difference difference; /* new less old, per process */
};

struct changes {
    const struct fleet_question *question;
    const struct fleet_selection *of[SIDES];
    struct store_totals totals[SIDES];
    struct change *items;
    size_t count, room;
    struct numbers paths; /* places in items, from 1 */
};

static int add(void *arg, const uint64_t *held, const char *text, struct error *err)
{
    struct changes *c = arg;
    const int side = held[HELD_NEWER] ? NEW : OLD;
    uint64_t *number = numbers_at(&c->paths, held[HELD_PATH], err);
    (void)text;
    if (!number)
        return -1;
    if (!*number) {
        if (!ARRAY_ADD(c->items, c->count, c->room))
            return error_memory(err);
        *number = c->count;
    }
    struct change *k = &c->items[*number - 1];
    /* one call site of a path, the same whatever the order of the processes is */
    if (!k->processes[side] || (int64_t)held[HELD_SITE] > (int64_t)k->sites[side])
        k->sites[side] = held[HELD_SITE];
    k->processes[side] += held[HELD_PROCESSES];
    k->sum[side] += held[HELD_SUM];
    k->squares[side] = store_squares(
        k->squares[side], (unsigned __int128)held[HELD_SQUARES_HIGH] << 64 | held[HELD_SQUARES]);
    return k->processes[side] <= c->totals[side].processes
               ? 0
               : error_set(err, ERROR_FORMAT, "the store changed meanwhile");
}

/* The moments of n values, where those that were not added up are 0. Exact until the last steps:
 * the values less the whole part of their mean are squared. */
static struct stats_moments moments(uint64_t n, uint64_t sum, unsigned __int128 squares)
{
    const uint64_t whole = sum / n, rest = sum % n;
    const unsigned __int128 less =
        squares - (unsigned __int128)whole * whole * n - (unsigned __int128)whole * rest * 2;
    const double spread = (double)less - (double)rest * ((double)rest / (double)n);
    return (struct stats_moments){.count = n,
                                  .mean = (double)sum / (double)n,
                                  .variance = n > 1 && spread > 0 ? spread / (double)(n - 1) : 0};
}

/* Leaves those that differ. */
static void compare(struct changes *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->count; i++) {
        struct change *k = &c->items[i];
        struct stats_moments of[SIDES];
        bool known = true;
        for (int side = 0; side < SIDES; side++) {
            known &= k->squares[side] != STORE_SQUARES_MOST;
            of[side] = moments(c->totals[side].processes, k->sum[side], k->squares[side]);
        }
        k->site = k->sites[k->processes[NEW] ? NEW : OLD];
        k->difference = stats_difference_of(&of[OLD], &of[NEW]);
        k->difference.known &= known;
        k->difference.differs &= known;
        if (k->difference.difference != 0 && (!c->question->growth || k->difference.difference > 0))
            c->items[kept++] = *k;
    }
    c->count = kept;
}

static int by_growth(const void *a, const void *b)
{
    const struct change *x = a, *y = b;
    if (x->difference.difference != y->difference.difference)
        return x->difference.difference < y->difference.difference ? 1 : -1;
    return x->site < y->site ? -1 : x->site > y->site;
}

/* The ending of the names of a figure's values in JSON. */
static const char *unit_of(enum metric by)
{
    return by == BY_TEMPORARY || by == BY_CALLS ? ""
           : by == FLEET_BYTE_SECONDS           ? "_byte_seconds"
                                                : "_bytes";
}

static double mean(const struct changes *c, const struct change *k, int side)
{
    return (double)k->sum[side] / (double)c->totals[side].processes;
}

/* How many of each side are shown at most. */
static uint64_t shown_of(const struct changes *c, uint64_t in_text)
{
    const uint64_t top = show_top(c->question, in_text);
    return top ? top : c->count;
}

/* ---- JSON ---- */

static void put_real(struct json *j, const char *key, const char *unit, double v)
{
    char name[64], text[400];
    snprintf(name, sizeof name, "%s%s", key, unit);
    const int n = snprintf(text, sizeof text, "%.3f", v);
    json_raw(j, name, text, (size_t)n);
}

static int write_change(struct json *j, struct fleet_store *store, const struct changes *c,
                        const struct change *k, struct error *err)
{
    const char *unit = unit_of(c->question->by);
    json_open_object(j, NULL);
    if (show_frames(j, store, k->site, false, err))
        return -1;
    json_number(j, "old_processes", k->processes[OLD]);
    json_number(j, "new_processes", k->processes[NEW]);
    put_real(j, "old_mean", unit, mean(c, k, OLD));
    put_real(j, "new_mean", unit, mean(c, k, NEW));
    put_real(j, "growth", unit, k->difference.difference);
    if (k->difference.known) {
        put_real(j, "growth_low", unit, k->difference.low);
        put_real(j, "growth_high", unit, k->difference.high);
        json_bool(j, "differs", k->difference.differs);
    } else {
        json_null(j, "differs");
    }
    json_close_object(j);
    return 0;
}

static int diff_as_json(FILE *out, struct fleet_store *store, const struct changes *c,
                        struct error *err)
{
    static const char *const sides[SIDES] = {"old", "new"};
    const uint64_t top = shown_of(c, SHOW_SITES);
    struct json j = {.out = out};
    int status = 0;
    json_begin(&j);
    json_text(&j, "store", c->question->where);
    json_text(&j, "by", show_metric(c->question->by));
    for (int side = 0; side < SIDES; side++) {
        json_open_object(&j, sides[side]);
        json_number(&j, "processes", c->totals[side].processes);
        json_number(&j, "hosts", c->totals[side].hosts);
        json_number(&j, "builds", c->totals[side].builds);
        if (c->question->page)
            page_selection(&j, c->of[side]);
        json_close_object(&j);
    }
    put_real(&j, "confidence", "", STATS_CONFIDENCE);
    json_open_array(&j, "sites");
    /* where there are too many, those that grew most and those that shrank most */
    for (size_t i = 0; i < c->count && !status; i++)
        if (i < top || (!c->question->growth && i + top >= c->count))
            status = write_change(&j, store, c, &c->items[i], err);
    json_close_to(&j, 1);
    if (status)
        json_text(&j, "error", err->text);
    json_number(&j, "sites_total", c->count);
    json_close_object(&j);
    json_end(&j);
    return status;
}

/* ---- text ---- */

static const char *signed_text(char room[HUMAN_TEXT_BYTES + 1], double v, enum metric by)
{
    char text[HUMAN_TEXT_BYTES];
    const uint64_t whole = (uint64_t)(fabs(v) + 0.5);
    snprintf(room, HUMAN_TEXT_BYTES + 1, "%s%s", v < 0 ? "-" : "+", show_figure(text, whole, by));
    return room;
}

static int print_change(FILE *out, struct fleet_store *store, const struct changes *c,
                        const struct change *k, struct error *err)
{
    const enum metric by = c->question->by;
    char growth[HUMAN_TEXT_BYTES + 1], low[HUMAN_TEXT_BYTES + 1], high[HUMAN_TEXT_BYTES + 1];
    struct buffer line = {0};
    if (show_call_site(store, k->site, false, &line, err)) {
        buffer_release(&line);
        return -1;
    }
    text_printf(out, "%12s  %12s  %12s  %s\n", signed_text(growth, k->difference.difference, by),
                k->difference.known ? signed_text(low, k->difference.low, by) : "?",
                k->difference.known ? signed_text(high, k->difference.high, by) : "?",
                buffer_text(&line));
    buffer_release(&line);
    return 0;
}

static int diff_as_text(FILE *out, struct fleet_store *store, const struct changes *c,
                        struct error *err)
{
    const uint64_t top = shown_of(c, SHOW_SITES);
    uint64_t unsure = 0, shown = 0;
    int status = 0;
    text_printf(out, "%s: %s %s against %s, by %s, mean of a process\n\n", c->question->where,
                COUNT(c->totals[NEW].processes),
                plural(c->totals[NEW].processes, "process", "processes"),
                COUNT(c->totals[OLD].processes), show_metric(c->question->by));
    text_printf(out, "%12s  %12s  %12s  call site\n", "growth", "at least", "at most");
    for (size_t i = 0; i < c->count; i++)
        unsure += c->items[i].difference.known && !c->items[i].difference.differs;
    for (int grown = 1; grown >= 0 && !status; grown--) {
        shown = 0;
        for (size_t k = 0; k < c->count && shown < top && !status; k++) {
            const struct change *item = &c->items[grown ? k : c->count - 1 - k];
            if ((item->difference.difference > 0) != grown ||
                (item->difference.known && !item->difference.differs))
                continue;
            shown++;
            status = print_change(out, store, c, item, err);
        }
    }
    if (!status && unsure)
        text_printf(out, "%s more call sites may differ by chance alone\n", COUNT(unsure));
    return status;
}

/* Those that may be shown, all at once. */
static int prepare(struct fleet_store *store, const struct changes *c, struct error *err)
{
    const uint64_t top = shown_of(c, SHOW_SITES_MOST);
    uint64_t *sites = malloc((c->count + 1) * sizeof *sites);
    size_t count = 0;
    if (!sites)
        return error_memory(err);
    for (size_t i = 0; i < c->count; i++)
        if (i < top || (!c->question->growth && i + top >= c->count))
            sites[count++] = c->items[i].site;
    const int status = store_prepare_frames(store, sites, count, false, err);
    free(sites);
    return status;
}

int diff_show(struct asked *a, struct error *err)
{
    const struct fleet_question *q = a->q;
    struct changes c = {.question = q, .of = {q->old, a->query.of}};
    int status = 0;
    for (int side = 0; side < SIDES && !status; side++) {
        status = store_totals_ask(a->store, c.of[side], &c.totals[side], err);
        if (!status && !c.totals[side].processes)
            status = q->growth ? error_set(err, ERROR_USAGE, "no process was recorded %s",
                                           side == OLD
                                               ? "before; --baseline FROM..TO says with which ones "
                                                 "to compare"
                                               : "since then")
                               : error_set(err, ERROR_USAGE, "no process is selected by --%s",
                                           side == OLD ? "old" : "new");
    }
    if (!status)
        status = store_ask(a->store, &a->query, add, &c, err);
    if (!status) {
        compare(&c);
        if (c.count)
            qsort(c.items, c.count, sizeof *c.items, by_growth);
        status = prepare(a->store, &c, err);
    }
    if (!status) {
        status = (q->json ? diff_as_json : diff_as_text)(a->out, a->store, &c, err);
    }
    numbers_release(&c.paths);
    free(c.items);
    return status;
}
