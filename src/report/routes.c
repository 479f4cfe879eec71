/* routes.c - ways inside the allocator, as text and JSON; see routes.h. */
#include "report/routes.h"

#include <stdlib.h>

#include "base/human.h"
#include "base/plural.h"
#include "frames/names.h"
#include "report/columns.h"
#include "report/sections.h"
#include "show/frame_texts.h"

/* ---- call sites ---- */

struct route_site {
    uint32_t frame, stack; /* stack: one of those that stand there */
    struct route_row row;
    uint64_t missed;
};

static int by_frame_of(const void *a, const void *b)
{
    const struct route_site *x = a, *y = b;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

static int by_missed(const void *a, const void *b)
{
    const struct route_site *x = a, *y = b;
    if (x->missed != y->missed)
        return x->missed < y->missed ? 1 : -1;
    return x->stack < y->stack ? -1 : x->stack > y->stack;
}

/* Call sites with calls that missed the cache, those with most first; freed by the caller. NULL
 * without memory. join: stacks that stand at one call site are one. */
static struct route_site *list_sites(const struct routes *r, struct names *names, bool join,
                                     size_t *count)
{
    const struct trace_image *image = names_image(names);
    struct route_site *sites = malloc((r->row_count + 1) * sizeof *sites);
    size_t n = 0, k = 0;
    for (uint32_t i = 0; sites && i <= image->stacks; i++) {
        const struct route_row *row = routes_row(r, i);
        if (row && (join || routes_missed(row)))
            sites[n++] =
                (struct route_site){join ? section_site(names, i) : i, i, *row, routes_missed(row)};
    }
    if (!sites)
        return NULL;
    if (join && n) {
        qsort(sites, n, sizeof *sites, by_frame_of);
        for (size_t i = 1; i < n; i++) {
            if (sites[i].frame != sites[k].frame) {
                sites[++k] = sites[i];
                continue;
            }
            for (unsigned place = 0; place < ROUTES; place++)
                sites[k].row.calls[place] += sites[i].row.calls[place];
            sites[k].missed += sites[i].missed;
        }
        n = k + 1;
    }
    qsort(sites, n, sizeof *sites, by_missed);
    while (n && !sites[n - 1].missed)
        n--;
    *count = n;
    return sites;
}

/* ---- text ---- */

static void print_group(const struct page *p, const struct report_route *list, size_t n,
                        const char *group, const char *title)
{
    const struct table table = {.columns = report_route_columns};
    struct buffer b = {0};
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++)
        any += list[i].group == group ? list[i].calls : 0;
    if (!any)
        return;
    table_titles(&b, &table);
    buffer_printf(&b, "  share  %s", title);
    page_line(p, &b);
    for (size_t i = 0; i < n; i++) {
        if (list[i].group != group || !list[i].calls)
            continue;
        table_cells(&b, &table, &list[i]);
        buffer_printf(&b, " %4u.%u %%  %s", (unsigned)list[i].permille / 10,
                      (unsigned)list[i].permille % 10, list[i].name);
        if (list[i].place != ROUTES_FREE_UNKNOWN && list[i].place != MLW_ROUTE_UNKNOWN)
            buffer_printf(&b, ": %s", mlw_route_text(list[i].place));
        page_line(p, &b);
    }
}

static void print_untaken(const struct page *p, const struct report_route *list, size_t n)
{
    struct buffer b = {0};
    const char *between = "          not taken: ";
    for (size_t i = 0; i < n; i++)
        if (!list[i].calls && list[i].place != MLW_ROUTE_FREE_NULL) {
            buffer_printf(&b, "%s%s", between, list[i].name);
            between = ", ";
        }
    if (b.size_bytes)
        page_wrap(p, &b, 10);
    buffer_release(&b);
}

/* The way, beside the cache, that most of the calls took. */
static unsigned most_taken(const struct route_row *row)
{
    unsigned best = MLW_ROUTE_FAST;
    for (unsigned i = 0; i < ROUTES; i++)
        if (routes_group(i) == MLW_ROUTE_MAKES && i != MLW_ROUTE_TCACHE &&
            i != MLW_ROUTE_IN_PLACE && i != MLW_ROUTE_UNKNOWN && row->calls[i] > row->calls[best])
            best = i;
    return best;
}

static int print_sites(const struct page *p, const struct routes *r, struct names *names,
                       const struct report_options *o, struct error *err)
{
    const size_t limit = o->top ? (size_t)o->top : 5;
    size_t count;
    struct route_site *sites = list_sites(r, names, true, &count);
    struct buffer b = {0};
    if (!sites)
        return error_memory_for(err, "paths by call site");
    if (count)
        page_heading(p, "Call sites that the thread's cache did not serve: %s", COUNT(count));
    for (size_t i = 0; i < count && i < limit; i++) {
        const uint64_t made = routes_made(&sites[i].row);
        const unsigned most = most_taken(&sites[i].row);
        page_right(&b, COUNT(sites[i].missed), 11);
        buffer_printf(&b, " of %s %s (%.0f %%), %s by %s: ", COUNT(made),
                      plural(made, "call", "calls"), 100. * (double)sites[i].missed / (double)made,
                      sites[i].row.calls[most] == sites[i].missed ? "all" : "most",
                      mlw_route_name(most));
        section_print_site(p, &b, names, sites[i].frame);
        page_wrap(p, &b, 13);
    }
    if (count > limit) {
        buffer_printf(&b, "            and %zu more", count - limit);
        page_line(p, &b);
    }
    free(sites);
    return 0;
}

int section_routes(const struct page *p, struct trace *t, uint32_t image, struct names *names,
                   const struct report_options *o, struct error *err)
{
    struct report_route list[ROUTES];
    struct routes r;
    struct buffer b = {0};
    if (!trace_info(t)->images[image].routed)
        return 0;
    if (routes_read(&r, t, image, err))
        return -1;
    const size_t n = report_routes(&r, list);
    page_heading(p, "Paths inside the allocator");
    print_group(p, list, n, "made", "a block came");
    print_group(p, list, n, "freed", "a block went");
    print_untaken(p, list, n);
    if (r.emptied) {
        buffer_printf(&b, "          %s %s emptied the fast bins (consolidated)", COUNT(r.emptied),
                      plural(r.emptied, "call", "calls"));
        page_wrap(p, &b, 10);
    }
    const int status = print_sites(p, &r, names, o, err);
    buffer_release(&b);
    routes_release(&r);
    return status;
}

/* ---- JSON ---- */

static bool write_route_sites(struct json *j, const struct routes *r, struct names *names,
                              uint64_t limit)
{
    size_t count = 0;
    struct frame_texts texts = {0};
    struct route_site *sites = list_sites(r, names, false, &count);
    bool failed = !sites;
    json_open_array(j, "sites");
    for (size_t i = 0; i < count && i < limit && !failed; i++) {
        json_open_object(j, NULL);
        failed = !frame_texts_stack(j, sites[i].stack, &texts, names);
        json_number(j, "calls", routes_made(&sites[i].row));
        json_number(j, "missed_calls", sites[i].missed);
        for (unsigned of = MLW_ROUTE_MAKES; of <= MLW_ROUTE_ENDS; of++) {
            json_open_object(j, of == MLW_ROUTE_MAKES ? "made" : "freed");
            for (unsigned k = 0; k < ROUTES; k++)
                if (routes_group(k) == of && sites[i].row.calls[k])
                    json_number(j, mlw_route_name(k == ROUTES_FREE_UNKNOWN ? 0 : k),
                                sites[i].row.calls[k]);
            json_close_object(j);
        }
        json_close_object(j);
    }
    json_close_array(j);
    json_number(j, "sites_total", count);
    free(sites);
    frame_texts_release(&texts);
    return !failed;
}

int json_routes(struct json *j, const struct routes *r, struct names *names, uint64_t limit,
                struct error *err)
{
    struct report_route list[ROUTES];
    if (!r->row_of)
        return 0;
    const size_t n = report_routes(r, list);
    json_open_object(j, "paths");
    table_json(j, "taken", &(struct table){.columns = report_route_columns}, list, n, sizeof *list);
    json_number(j, "emptied_fast_bins", r->emptied);
    const bool wrote = write_route_sites(j, r, names, limit);
    json_close_object(j);
    return wrote ? 0 : error_memory_for(err, "paths by call site");
}
