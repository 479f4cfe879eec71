/* draw.c - the text of the live view. All that others chose goes through page_line. */
#include <stdlib.h>
#include <string.h>

#include "base/plural.h"
#include "base/text.h"
#include "watch/live/screen_impl.h"
#include "watch/view/columns.h"
#include "show/layout.h"

static struct page page_of_screen(const struct watch_screen *s)
{
    return (struct page){.out = s->out, .columns = s->columns, .unicode = true, .plots = true};
}

static void put_screen_line(const struct watch_screen *s, struct buffer *b, const char *look)
{
    const struct page page = page_of_screen(s);
    if (*look)
        text_printf(s->out, "\033[%sm", look);
    page_line(&page, b);
    if (*look)
        fputs("\033[0m", s->out);
}

static const char *format_size(char out[HUMAN_TEXT_BYTES], double bytes)
{
    return human_size(out, estimate_whole(bytes));
}

/* ---- the head ---- */

/* The figures of the latest `width` moments as a line of cells. */
static void put_past(const struct watch_screen *s, struct buffer *b, const uint64_t *ring,
                     unsigned width, uint64_t largest)
{
    const struct page page = page_of_screen(s);
    uint64_t values[SCREEN_MOMENTS];
    uint64_t n = s->moments < SCREEN_MOMENTS ? s->moments : SCREEN_MOMENTS;
    n = n < width ? n : width;
    for (uint64_t i = 0; i < n; i++)
        values[i] = ring[(s->moments - n + i) % SCREEN_MOMENTS];
    page_spark(&page, b, values, n, largest);
}

static void put_graph(struct watch_screen *s, const char *name, const uint64_t *ring,
                      uint64_t largest, const char *more)
{
    struct buffer b = {0};
    const uint64_t now = s->moments ? ring[(s->moments - 1) % SCREEN_MOMENTS] : 0;
    page_left(&b, name, 6);
    page_right(&b, now ? SIZE(now) : "-", 10);
    page_left(&b, more, 26);
    const unsigned used = 6 + 10 + 26;
    if (s->columns > used + 8)
        put_past(s, &b, ring, s->columns - used - 1, largest);
    put_screen_line(s, &b, "");
}

static void put_process_name(const struct watch_screen *s, struct buffer *b,
                             const struct watch_process *p)
{
    const uint32_t n = watch_run_count(s->run);
    if (s->apart || n == 1)
        buffer_printf(b, "%s [%d]", watch_process_name(p), (int)p->pid);
    else
        buffer_printf(b, "%u processes of %s [%d]", n,
                      watch_process_name(watch_run_process(s->run, 0)),
                      (int)watch_run_process(s->run, 0)->pid);
    if (s->apart && n > 1)
        buffer_printf(b, " (%u of %u)", s->process + 1, n);
}

static void put_head(struct watch_screen *s, const struct watch_process *p)
{
    struct buffer b = {0};
    char n[HUMAN_TEXT_BYTES], peak[64];
    double most = 0;
    uint64_t dropped = 0, largest = 1;
    for (uint32_t i = 0; i < watch_run_count(s->run); i++) {
        const struct watch_process *each = watch_run_process(s->run, i);
        if (s->apart && each != p)
            continue;
        most += each->high_water_bytes;
        dropped += watch_dropped(each);
    }
    for (uint64_t i = 0; i < SCREEN_MOMENTS; i++) {
        largest = s->live[i] > largest ? s->live[i] : largest;
        largest = s->rss[i] > largest ? s->rss[i] : largest;
    }
    put_process_name(s, &b, p);
    buffer_printf(&b, "  %sup %s, one sample in %s", s->paused ? "PAUSED  " : "",
                  TIME(p->time_ns > p->start_ns ? p->time_ns - p->start_ns : 0),
                  SIZE(watch_period(p, true)));
    if (dropped)
        buffer_printf(&b, ", %s %s dropped", human_count(n, dropped),
                      plural(dropped, "sample", "samples"));
    put_screen_line(s, &b, "1");
    snprintf(peak, sizeof peak, ", peak %s  ", format_size(n, most));
    put_graph(s, "live", s->live, largest, peak);
    put_graph(s, "RSS", s->rss, largest, "");
}

/* ---- the table ---- */

#define ROOMY 84u /* columns of a terminal from which on the interval is shown */

static struct table screen_table(const struct watch_screen *s)
{
    return watch_screen_table(s->order, s->columns >= ROOMY);
}

/* Blanks up to the edge: a bar goes there. */
static void fill_line(const struct watch_screen *s, struct buffer *b)
{
    const size_t used = text_columns(buffer_text(b));
    page_left(b, "", s->columns > used ? s->columns - (unsigned)used : 0);
}

static void put_titles_line(const struct watch_screen *s, const struct table *t, const char *last)
{
    struct buffer b = {0};
    table_titles(&b, t);
    buffer_append_text(&b, last);
    fill_line(s, &b);
    put_screen_line(s, &b, "7");
}

static void put_row(struct watch_screen *s, const struct list_row *r, bool chosen)
{
    const struct page page = page_of_screen(s);
    const struct table table = screen_table(s);
    const struct watch_figures figures = watch_figures(&r->site);
    struct buffer b = {0};
    table_cells(&b, &table, &figures);
    buffer_append_text(&b, "  ");
    const size_t used = text_columns(buffer_text(&b));
    if (r->first < r->count)
        page_frame(&page, &b, names_frame(r->names, r->frames[r->first]),
                   s->columns > used + 30 ? (s->columns - used) * 2 / 3 : 24);
    else
        buffer_append_text(&b, "(no stack known)");
    if (r->stacks > 1) {
        buffer_printf(&b, "  (%u stacks)", r->stacks);
    } else if (r->first + 1 < r->count) {
        buffer_append_text(&b, " < ");
        page_frame(&page, &b, names_frame(r->names, r->frames[r->first + 1]), 0);
    }
    if (chosen)
        fill_line(s, &b);
    put_screen_line(s, &b, chosen ? "30;46" : "");
}

/* Finds the chosen row among those there are now, and moves from it. */
static void choose_row(struct watch_screen *s, const struct watch_list *list, size_t room)
{
    size_t at = s->at;
    for (size_t i = 0; s->key && i < list->count; i++)
        if (list->rows[i].key == s->key)
            at = i;
    if (s->move < 0)
        at = at > (size_t)-s->move ? at - (size_t)-s->move : 0;
    else
        at += (size_t)s->move;
    s->move = 0;
    if (at >= list->count)
        at = list->count ? list->count - 1 : 0;
    s->at = at;
    s->drawn = list->count ? list->rows[at].key : 0;
    s->key = s->key || at ? s->drawn : 0;
    if (s->top > at)
        s->top = at;
    if (room && at >= s->top + room)
        s->top = at - room + 1;
    if (s->top + room > list->count)
        s->top = list->count > room ? list->count - room : 0;
}

static void put_summary(struct watch_screen *s, const struct watch_list *list)
{
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    buffer_append_text(&b, format_size(n, list->total.bytes));
    if (s->kind == WATCH_OLD)
        buffer_printf(&b, " in blocks older than %s%s", TIME(list->older_than_ns),
                      !list->automatic            ? ""
                      : list->chosen_by_lifetimes ? " (by the program's lifetimes)"
                                                  : " (until its lifetimes are known)");
    else
        buffer_append_text(&b, " live");
    buffer_printf(&b, ", %zu call site%s", list->all, list->all == 1 ? "" : "s");
    if (*s->filter)
        buffer_printf(&b, ", %zu of them with '%s'", list->count, s->filter);
    if (list->known_blocks)
        buffer_printf(&b, ", %s known samples left out", human_count(n, list->known_blocks));
    put_screen_line(s, &b, "");
}

#define TABLE_ABOVE 5u /* lines above the rows */

static void put_list_table(struct watch_screen *s, const struct watch_process *p,
                           const struct watch_list *list)
{
    const size_t room = s->lines > TABLE_ABOVE + 1 ? s->lines - TABLE_ABOVE - 1 : 1;
    put_head(s, p);
    put_summary(s, list);
    const struct table table = screen_table(s);
    put_titles_line(s, &table, "  CALL SITE");
    choose_row(s, list, room);
    for (size_t i = s->top; i < list->count && i < s->top + room; i++)
        put_row(s, &list->rows[i], i == s->at);
    if (!list->count && s->kind == WATCH_OLD && !*s->filter)
        fputs("  no sampled block is that old yet; a shows all that are live\n", s->out);
}

/* ---- one call site ---- */

static void put_row_figures(struct watch_screen *s, const struct watch_list *list,
                            const struct list_row *r)
{
    const struct watch_site *site = &r->site;
    const struct estimate_interval bytes = estimate_bytes_interval(&site->chosen),
                                   blocks = estimate_blocks_interval(&site->chosen);
    char n[HUMAN_TEXT_BYTES + 1], low[HUMAN_TEXT_BYTES], high[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    buffer_printf(&b, "Call site %zu of %zu", s->at + 1, list->count);
    if (r->processes > 1)
        buffer_printf(&b, ", in %u processes", r->processes);
    put_screen_line(s, &b, "1");
    buffer_printf(&b, "  %s (95%% between %s and %s), grown by %s in the last seconds",
                  format_size(n, site->chosen.bytes), format_size(low, bytes.low),
                  format_size(high, bytes.high),
                  table_growth((char[HUMAN_TEXT_BYTES + 1]){0}, watch_figures(site).growth_bytes));
    put_screen_line(s, &b, "");
    buffer_printf(&b, "  about %s %s (95%% between %s and %s), %s sampled",
                  human_count(n, estimate_whole(site->chosen.blocks)),
                  plural(estimate_whole(site->chosen.blocks), "block", "blocks"),
                  human_count(low, estimate_whole(blocks.low)),
                  human_count(high, estimate_whole(blocks.high)), COUNT(site->chosen.samples));
    put_screen_line(s, &b, "");
    buffer_printf(&b, "  ages %s to %s, the oldest by thread %u%s",
                  human_duration(low, site->youngest_ns), human_duration(high, site->oldest_ns),
                  site->tid, site->more_tids ? " (others, too)" : "");
    put_screen_line(s, &b, "");
    buffer_printf(&b, "  %s allocated in all; %.0f%% of its frees by another thread",
                  format_size(n, site->sums.allocated_bytes), 100 * sites_elsewhere(&site->sums));
    put_screen_line(s, &b, "");
}

static void put_site_past(struct watch_screen *s, const struct list_row *r)
{
    const struct page page = page_of_screen(s);
    uint64_t values[LIST_MOMENTS];
    char first[32];
    const uint32_t room = s->columns > 24 ? s->columns - 16 : 8;
    if (!r->past || r->past->count < 2)
        return;
    const uint32_t n = r->past->count < room ? r->past->count : room;
    for (uint32_t i = 0; i < n; i++)
        values[i] = estimate_whole(list_past_at(r->past, r->past->count - n + i));
    first[0] = 0;
    if (n > 24)
        snprintf(first, sizeof first, "%u s ago", n / 2);
    page_plot(&page, &(struct page_plot){.area = values,
                                         .n = n,
                                         .rows = s->lines > 40 ? 8 : 4,
                                         .first = first,
                                         .middle = "",
                                         .last = n > 12 ? "now" : ""});
}

static void put_chosen_site(struct watch_screen *s, const struct watch_process *p,
                            const struct watch_list *list)
{
    const struct page page = page_of_screen(s);
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    size_t at = 0;
    while (at < list->count && list->rows[at].key != s->key)
        at++;
    put_head(s, p);
    if (at == list->count) {
        fputs("\nThe call site holds no such block any more. Esc goes back.\n", s->out);
        return;
    }
    const struct list_row *r = &list->rows[at];
    s->at = at;
    put_row_figures(s, list, r);
    put_site_past(s, r);
    if (r->stacks > 1)
        buffer_printf(&b, "The largest of %u stacks, %s, innermost first:", r->stacks,
                      format_size(n, r->largest));
    else
        buffer_append_text(&b, "Stack, innermost first:");
    put_screen_line(s, &b, "1");
    const size_t shown = names_shown(r->names, r->frames, r->count);
    for (size_t i = 0; i < shown; i++) {
        buffer_append_text(&b, i == r->first ? "> " : "  ");
        page_frame(&page, &b, names_frame(r->names, r->frames[i]), s->columns - 3);
        put_screen_line(s, &b, i == r->first ? "1" : "");
    }
    buffer_release(&b);
}

/* ---- processes, frees, help ---- */

static void put_processes(struct watch_screen *s)
{
    const struct table table = {.columns = watch_listed_columns};
    struct buffer b = {0};
    const size_t count = watch_run_count(s->run);
    const size_t room = s->lines > 3 ? s->lines - 3 : 1;
    if (s->move < 0)
        s->process = s->process > (size_t)-s->move ? s->process - (uint32_t)-s->move : 0;
    else
        s->process += (uint32_t)s->move;
    s->move = 0;
    if (s->process >= count)
        s->process = count ? (uint32_t)count - 1 : 0;
    buffer_printf(&b, "%zu processes; Enter shows one, t all of them together", count);
    put_screen_line(s, &b, "1");
    put_titles_line(s, &table, "  PROGRAM");
    const size_t top = s->process >= room ? s->process - room + 1 : 0;
    for (size_t i = top; i < count && i < top + room; i++) {
        const struct watch_process *p = watch_run_process(s->run, (uint32_t)i);
        const struct watch_listed row = {(uint32_t)p->pid, estimate_whole(process_footprint(p)),
                                         estimate_whole(p->high_water_bytes), process_rss(p)};
        table_cells(&b, &table, &row);
        char title[100];
        buffer_printf(&b, "  %s", watch_process_title(p, title, sizeof title));
        put_screen_line(s, &b, i == s->process ? "30;46" : "");
    }
    buffer_release(&b);
}

static void put_frees(struct watch_screen *s, struct watch_process *p)
{
    struct watch_report r;
    struct error err = {0};
    put_head(s, p);
    watch_view_retarget(s->view, s->out, s->columns);
    if (watch_run_report(s->run, p, WATCH_FREES, REPORTED_SCREEN_ALL, &r, &err) ||
        watch_view_report(s->view, &r, false, &err))
        text_printf(s->out, "%s\n", err.text);
    watch_report_free(&r);
}

static const char help_text[] =
    "Up k, Down j           a row up, down        Enter      the stack and the past of a row\n"
    "PgUp b, PgDn Space     a page up, down       Esc, q     back to the table\n"
    "Home g, End G          first, last           P          the processes; Enter shows one\n"
    "d, u                   half a page           t, F5      processes together or apart\n"
    "/, F4                  filter by part of a   Tab        the next process\n"
    "                       function, file, module\n"
    "Esc                    no filter             p          stop and start sampling\n"
    "<, >, F6               the column sorted by  m          mark the old blocks as known\n"
    "o                      blocks that are old   r          a report of old blocks, where\n"
    "a                      all that are live                reports go\n"
    "f                      the latest frees      q, F10     end the watch (the program goes on)\n"
    "\n"
    "Sizes are estimates from samples; the true size is in the interval 95 times in 100.\n"
    "GROWTH is of the last ten seconds. live and RSS have one scale.\n";

void screen_content(struct watch_screen *s)
{
    struct watch_process *p = screen_process(s);
    struct watch_list list;
    struct error err = {0};
    if (s->shown == SCREEN_HELP) {
        fputs(help_text, s->out);
    } else if (!p) {
        fputs("waiting for the first sampled allocation\n", s->out);
    } else if (s->shown == SCREEN_PROCESSES) {
        put_processes(s);
    } else if (s->shown == SCREEN_FREES) {
        put_frees(s, p);
    } else {
        const struct list_question q = {.view = s->view,
                                        .run = s->run,
                                        .process = s->apart ? p : NULL,
                                        .kind = s->kind,
                                        .order = s->order,
                                        .filter = s->filter,
                                        .memory = s->memory};
        if (watch_list_make(&list, &q, &err))
            text_printf(s->out, "%s\n", err.text);
        else if (s->shown == SCREEN_SITE)
            put_chosen_site(s, p, &list);
        else
            put_list_table(s, p, &list);
        watch_list_free(&list);
    }
}
