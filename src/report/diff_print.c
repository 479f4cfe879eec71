/* diff_print.c - a difference as text and as JSON. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/plural.h"
#include "show/layout.h"
#include "report/columns.h"
#include "report/diff.h"
#include "report/json_process.h"
#include "report/sections.h"

static const char *const titles[METRICS] = {"Live at the peak", "Live at the end", "Allocated",
                                            "Temporary allocations", "Calls"};

static bool in_bytes(enum metric by) { return by != BY_TEMPORARY && by != BY_CALLS; }

/* "+1.2 MB", "-12", "0 B" */
static const char *signed_text(char out[HUMAN_TEXT_BYTES + 2], int64_t v, bool bytes)
{
    uint64_t size = human_magnitude(v);
    snprintf(out, HUMAN_TEXT_BYTES + 2, "%s%s",
             v < 0 ? "-"
             : v   ? "+"
                   : "",
             bytes ? SIZE(size) : COUNT(size));
    return out;
}

static const char *plain_text(char out[HUMAN_TEXT_BYTES], uint64_t v, bool bytes)
{
    return bytes ? human_size(out, v) : human_count(out, v);
}

static void total_line(const struct page *p, const char *what, uint64_t old, uint64_t now,
                       bool bytes)
{
    char n[HUMAN_TEXT_BYTES], s[HUMAN_TEXT_BYTES + 2];
    struct buffer b = {0};
    page_left(&b, what, 24);
    page_right(&b, plain_text(n, old, bytes), 14);
    page_right(&b, plain_text(n, now, bytes), 14);
    page_right(&b, old == now ? "same" : signed_text(s, (int64_t)(now - old), bytes), 14);
    if (old && old != now) {
        double percent = ((double)now - (double)old) * 100 / (double)old;
        buffer_printf(&b, "  %+.1f %%", percent);
    }
    page_line(p, &b);
}

static void side_line(const struct page *p, const char *what, const struct diff_side *s)
{
    struct buffer b = {0};
    buffer_printf(&b, "%s  %s: %u %s, %s %s", what, s->path, s->processes,
                  plural(s->processes, "process", "processes"), COUNT(s->events),
                  plural(s->events, "call", "calls"));
    if (s->lost_events)
        buffer_printf(&b, "; %s %s lost", COUNT(s->lost_events),
                      plural(s->lost_events, "call was", "calls were"));
    page_line(p, &b);
}

static void site(const struct page *p, const struct diff *d, const struct diff_site *s,
                 enum metric by, unsigned depth)
{
    char n[HUMAN_TEXT_BYTES], m[HUMAN_TEXT_BYTES], g[HUMAN_TEXT_BYTES + 2];
    const bool bytes = in_bytes(by);
    struct buffer b = {0};
    page_right(&b, signed_text(g, diff_growth(&s->old, &s->now, by), bytes), 12);
    buffer_printf(&b, "  %s, was %s", plain_text(n, figures_metric(&s->now, by), bytes),
                  plain_text(m, figures_metric(&s->old, by), bytes));
    int64_t blocks = by == BY_END    ? (int64_t)(s->now.end_blocks - s->old.end_blocks)
                     : by == BY_PEAK ? (int64_t)(s->now.peak_blocks - s->old.peak_blocks)
                                     : (int64_t)(s->now.calls - s->old.calls);
    if (bytes)
        buffer_printf(&b, "; %s %s", signed_text(g, blocks, false),
                      by == BY_ALLOCATED ? "calls" : "blocks");
    page_line(p, &b);
    uint32_t at = diff_call_site(d, s->tip);
    unsigned shown = 0, left = 0;
    for (; at; at = d->parent[at]) {
        if (shown == depth) {
            left++;
            continue;
        }
        struct buffer line = {0};
        buffer_append_text(&line, shown ? "                " : "              ");
        page_frame(p, &line, &d->frame[at], p->columns > 24 ? p->columns - (shown ? 16u : 14u) : 0);
        page_line(p, &line);
        shown++;
    }
    if (left) {
        buffer_printf(&b, "                (%u more)", left);
        page_line(p, &b);
    }
    if (!s->tip) {
        buffer_append_text(&b, "              [no stack recorded]");
        page_line(p, &b);
    }
}

static int by_growth(const void *a, const void *b, void *arg)
{
    const struct diff_site *x = *(const struct diff_site *const *)a,
                           *y = *(const struct diff_site *const *)b;
    const enum metric by = *(const enum metric *)arg;
    int64_t u = diff_growth(&x->old, &x->now, by), v = diff_growth(&y->old, &y->now, by);
    if (u != v)
        return u < v ? 1 : -1;
    return x->tip < y->tip ? -1 : x->tip > y->tip;
}

/* The sites that differ in one figure, those that grew first. */
static void section(const struct page *p, const struct diff *d, enum metric by,
                    const struct report_options *o)
{
    const uint64_t top = o->top ? o->top : 10;
    const struct diff_site **order = malloc((d->count + 1) * sizeof(const struct diff_site *));
    size_t n = 0, grew = 0;
    if (!order)
        return;
    for (size_t i = 0; i < d->count; i++) {
        int64_t g = diff_growth(&d->items[i].old, &d->items[i].now, by);
        if (g)
            order[n++] = &d->items[i];
        grew += g > 0;
    }
    qsort_r(order, n, sizeof *order, by_growth, &by);
    if (!n)
        page_heading(p, "%s: no call site differs", titles[by]);
    if (grew) {
        page_heading(p, "%s: grew at %zu call site%s", titles[by], grew, grew == 1 ? "" : "s");
        for (size_t i = 0; i < grew && i < top; i++)
            site(p, d, order[i], by, o->depth ? o->depth : 8);
    }
    if (n > grew) {
        page_heading(p, "%s: shrank at %zu call site%s", titles[by], n - grew,
                     n - grew == 1 ? "" : "s");
        for (size_t i = 0; i < n - grew && i < top; i++)
            site(p, d, order[n - 1 - i], by, o->depth ? o->depth : 8);
    }
    free(order);
}

void diff_text(FILE *out, const struct diff *d, struct symbols *symbols,
               const struct report_options *o)
{
    const struct page p = {
        .out = out, .columns = o->columns, .unicode = o->unicode, .bold = o->bold};
    const struct figures *a = &d->old.totals, *b = &d->now.totals;
    struct buffer line = {0};
    side_line(&p, "Old", &d->old);
    side_line(&p, "New", &d->now);
    fputc('\n', out);
    page_left(&line, "", 24);
    page_right(&line, "old", 14);
    page_right(&line, "new", 14);
    page_right(&line, "growth", 14);
    page_line(&p, &line);
    total_line(&p, "Live at the peak", a->peak_bytes, b->peak_bytes, true);
    total_line(&p, "Live at the end", a->end_bytes, b->end_bytes, true);
    total_line(&p, "  blocks", a->end_blocks, b->end_blocks, false);
    total_line(&p, "Allocated", a->allocated_bytes, b->allocated_bytes, true);
    total_line(&p, "Calls that allocate", a->calls, b->calls, false);
    total_line(&p, "Temporary allocations", a->temporary, b->temporary, false);
    if (o->by_given) {
        section(&p, d, o->by, o);
    } else {
        section(&p, d, BY_END, o);
        section(&p, d, BY_PEAK, o);
    }
    section_problems(&p, symbols);
}

/* --- JSON --- */

static void json_figures(struct json *j, const char *key, const struct figures *f)
{
    json_open_object(j, key);
    report_figures_json(j, f);
    json_close_object(j);
}

static void json_growth(struct json *j, const struct figures *a, const struct figures *b)
{
    const struct figures growth = figures_growth(a, b);
    table_object(j, "growth", TABLE(report_growth_columns), &growth);
}

static void json_side(struct json *j, const char *key, const struct diff_side *s)
{
    json_open_object(j, key);
    json_text(j, "file", s->path);
    json_number(j, "processes", s->processes);
    json_number(j, "events", s->events);
    json_number(j, "lost_events", s->lost_events);
    json_figures(j, "totals", &s->totals);
    json_close_object(j);
}

/* How many sites from `first` to before `end` are not shown, and their figures. */
static void json_left_out(struct json *j, const struct diff *d, size_t first, size_t end)
{
    struct figures old = {0}, now = {0};
    for (size_t i = first; i < end; i++) {
        figures_join(&old, &d->items[i].old);
        figures_join(&now, &d->items[i].now);
    }
    json_number(j, "sites_total", d->count);
    json_number(j, "sites_left_out", end - first);
    json_open_object(j, "left_out");
    json_figures(j, "old", &old);
    json_figures(j, "new", &now);
    json_growth(j, &old, &now);
    json_close_object(j);
}

void diff_json(FILE *out, const struct diff *d, struct symbols *symbols,
               const struct report_options *o)
{
    static const char *const names[METRICS] = {"peak", "end", "allocated", "temporary", "calls"};
    struct json j = {.out = out};
    const uint64_t limit = o->top ? o->top : REPORT_JSON_SITES;
    /* those that grew most stand first, those that shrank most last */
    const size_t first = d->count < limit ? d->count : (size_t)limit;
    size_t end = d->count;
    while (end > first && d->count - end < limit &&
           diff_growth(&d->items[end - 1].old, &d->items[end - 1].now, d->by) < 0)
        end--;
    json_begin(&j);
    json_text(&j, "by", names[d->by]);
    json_side(&j, "old", &d->old);
    json_side(&j, "new", &d->now);
    json_growth(&j, &d->old.totals, &d->now.totals);
    json_open_array(&j, "sites");
    for (size_t i = 0; i < d->count; i++) {
        if (i == first)
            i = end;
        if (i == d->count)
            break;
        const struct diff_site *s = &d->items[i];
        json_open_object(&j, NULL);
        json_open_array(&j, "frames");
        const uint32_t call_site = diff_call_site(d, s->tip);
        uint64_t inward = 0, behind = 0;
        for (uint32_t at = s->tip; at; at = d->parent[at], behind++) {
            const struct name_frame *f = &d->frame[at];
            if (at == call_site)
                inward = behind;
            json_open_object(&j, NULL);
            json_text(&j, "function", f->function);
            json_text(&j, "file", f->file ? f->file : "");
            json_number(&j, "line", f->line);
            json_text(&j, "module", f->module ? f->module : "");
            json_bool(&j, "inlined", f->inlined);
            if (f->wrapper)
                json_bool(&j, "wrapper", true);
            json_close_object(&j);
        }
        json_close_array(&j);
        json_number(&j, "call_site", inward);
        json_figures(&j, "old", &s->old);
        json_figures(&j, "new", &s->now);
        json_growth(&j, &s->old, &s->now);
        json_close_object(&j);
    }
    json_close_array(&j);
    json_left_out(&j, d, first, end);
    json_problems(&j, symbols, SIZE_MAX);
    json_close_object(&j);
    json_end(&j);
}
