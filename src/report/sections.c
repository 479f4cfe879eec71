/* sections.c - Prints the sections of the text report that need no tree: timeline, marks, calls,
 * sizes, lifetimes, threads, reallocs, failures and mappings. */
#include "report/sections.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/group.h"
#include "analyse/resident.h"
#include "base/text.h"
#include "report/columns.h"
#include "report/json_process.h"
#include "report/report.h"

/* The most that was resident in each column of time; between samples what the last one said. */
static bool resident_columns(const struct trace_image *image, uint64_t start_ns, double column_ns,
                             uint64_t *cells, size_t n)
{
    bool any = false;
    for (size_t i = 0; i < n; i++)
        cells[i] = PAGE_NO_VALUE;
    for (uint32_t k = 0; k < image->resident_count; k++) {
        const struct mlw_resident *r = &image->resident[k];
        const double at = r->clock < start_ns ? -1 : (double)(r->clock - start_ns) / column_ns;
        const size_t i = at < 0 ? 0 : (size_t)at;
        if (i >= n)
            break;
        if (cells[i] == PAGE_NO_VALUE || r->rss > cells[i] || at < 0)
            cells[i] = r->rss;
        any = true;
    }
    for (size_t i = 1; i < n; i++)
        if (cells[i] == PAGE_NO_VALUE)
            cells[i] = cells[i - 1];
    return any;
}

/* Live bytes, the highest of each column, and the resident size. */
static void plot_timeline(const struct page *p, const struct model *m, const uint64_t *cells,
                          size_t n, uint64_t start_ns, uint64_t end_ns)
{
    const struct trace_image *image = model_image(m);
    char first[HUMAN_TEXT_BYTES], middle[HUMAN_TEXT_BYTES], last[HUMAN_TEXT_BYTES];
    uint64_t resident[MODEL_BINS];
    const bool sampled =
        resident_columns(image, start_ns, (double)(end_ns - start_ns) / (double)n, resident, n);
    const uint64_t from = start_ns > image->start_ns ? start_ns - image->start_ns : 0;
    const uint64_t span = end_ns - start_ns;
    struct buffer b = {0};
    buffer_printf(&b, "Over time  %s live", p->unicode ? "\u2588" : "@");
    if (sampled)
        buffer_printf(&b, ", %s resident (%u samples)", p->unicode ? "\u2812" : "-",
                      image->resident_count);
    page_line(p, &b);
    page_plot(p, &(struct page_plot){.area = cells,
                                     .line = sampled ? resident : NULL,
                                     .n = n,
                                     .rows = 8,
                                     .first = from ? human_duration(first, from) : "0",
                                     .middle = human_duration(middle, from + span / 2),
                                     .last = human_duration(last, from + span)});
}

void section_timeline(const struct page *p, const struct model *m)
{
    uint64_t start_ns, width_ns;
    size_t n;
    const struct model_bin *bins = model_timeline(m, &start_ns, &width_ns, &n);
    const uint64_t peak = model_totals(m)->peak_bytes;
    uint64_t cells[MODEL_BINS];
    const unsigned margin = p->plots ? 14 : 12;
    size_t width = p->columns && p->columns < 80 + margin ? p->columns - margin : 80;
    struct buffer b = {0};
    if (!peak || width < 10 || p->numbers)
        return;
    if (width > n)
        width = n;
    for (size_t i = 0; i < width; i++) {
        cells[i] = 0;
        for (size_t k = i * n / width; k < (i + 1) * n / width; k++)
            if (bins[k].max_live_bytes > cells[i])
                cells[i] = bins[k].max_live_bytes;
    }
    if (p->plots && width >= 40) {
        plot_timeline(p, m, cells, width, start_ns, start_ns + n * width_ns);
        return;
    }
    buffer_append_text(&b, "Over time  ");
    page_spark(p, &b, cells, width, peak);
    struct page wide = *p;
    wide.columns = 0;
    page_line(&wide, &b);
}

void section_marks(const struct page *p, const struct trace_image *image,
                   const struct report_options *o)
{
    const uint64_t limit = o->top ? o->top : 12;
    uint64_t shown = 0, more = 0;
    struct buffer b = {0};
    for (uint32_t i = 0; i < image->note_count; i++) {
        const struct trace_event_note *note = &image->event_notes[i];
        if (note->time_ns < o->select.from_ns ||
            (o->select.to_ns && note->time_ns >= o->select.to_ns))
            continue;
        if (shown == limit) {
            more++;
            continue;
        }
        if (!shown++)
            page_heading(p, "Marks, after the start (--time START..END takes their names)");
        const uint64_t at = note->time_ns > image->start_ns ? note->time_ns - image->start_ns : 0;
        buffer_printf(&b, "%13s  ", TIME(at));
        if (note->control)
            buffer_printf(&b, "[%s]", mark_control(note));
        else
            buffer_append_text(&b, note->label ? note->label : "");
        page_line(p, &b);
    }
    if (more) {
        buffer_printf(&b, "               and %s more (-n shows more)", COUNT(more));
        page_line(p, &b);
    }
    buffer_release(&b);
}

void section_resident(const struct page *p, const struct model *m)
{
    struct resident_view v;
    const struct trace_image *image = model_image(m);
    struct buffer b = {0};
    resident_at_peak(m, &v);
    if (v.sampled) {
        buffer_printf(&b, "Resident   %s at most", SIZE(v.largest_bytes));
        if (v.largest_time_ns >= image->start_ns)
            buffer_printf(&b, ", %s after the start", TIME(v.largest_time_ns - image->start_ns));
        buffer_append_text(&b, " (with the recorder's own memory)");
        uint64_t hugetlb = 0, forked = 0;
        for (uint32_t i = 0; i < image->split_count; i++) {
            const struct mlw_split *s = &image->splits[i];
            hugetlb = s->hugetlb > hugetlb ? s->hugetlb : hugetlb;
            forked = s->forked > forked ? s->forked : forked;
        }
        if (forked)
            buffer_printf(&b, ", up to %s of it shared with other processes since a fork",
                          SIZE(forked));
        if (hugetlb)
            buffer_printf(&b, ", and up to %s in HugetlbPages, which the kernel counts apart",
                          SIZE(hugetlb));
        page_wrap(p, &b, 16);
    }
    buffer_release(&b);
}

static void calls(const struct page *p, const struct model *m)
{
    const struct model_totals *t = model_totals(m);
    struct buffer b = {0};
    page_heading(p, "Calls: %s", COUNT(t->events));
    bool done[MLW_OP_COUNT] = {false};
    for (;;) { /* the most frequent first; there are only twenty */
        unsigned best = 0;
        for (unsigned op = 1; op < MLW_OP_COUNT; op++)
            if (!done[op] && t->calls[op] > (best ? t->calls[best] : 0))
                best = op;
        if (!best)
            break;
        done[best] = true;
        buffer_printf(&b, "%14s ", COUNT(t->calls[best]));
        page_percent(&b, t->calls[best], t->events);
        buffer_printf(&b, "  %s", mlw_op_name(best));
        if (t->failed[best])
            buffer_printf(&b, ", %s failed", COUNT(t->failed[best]));
        if (best == MLW_OP_FREE && t->null_frees)
            buffer_printf(&b, ", %s of NULL", COUNT(t->null_frees));
        page_line(p, &b);
    }
    if (t->unknown_frees + t->before_frees) {
        buffer_printf(&b, "%14s          releases of blocks from before the recording",
                      COUNT(t->unknown_frees + t->before_frees));
        page_line(p, &b);
    }
    if (t->cross_thread_frees) {
        buffer_printf(&b, "%14s ", COUNT(t->cross_thread_frees));
        page_percent(&b, t->cross_thread_frees, t->releases);
        buffer_append_text(&b, "  of the releases were by another thread than the allocation");
        page_line(p, &b);
    }
    buffer_release(&b);
}

struct bucket {
    char label[64];
    struct model_count sums;
};

static void histogram(const struct page *p, const char *title, const char *first,
                      const struct bucket *buckets, size_t n)
{
    uint64_t count = 0, bytes = 0, most = 0;
    struct buffer b = {0};
    for (size_t i = 0; i < n; i++) {
        count += buckets[i].sums.count;
        bytes += buckets[i].sums.bytes;
        most = buckets[i].sums.count > most ? buckets[i].sums.count : most;
    }
    if (!count)
        return;
    page_heading(p, "%s", title);
    buffer_printf(&b, "%22s  %*s %12s         %12s", "", p->numbers ? 0 : 20, "", first, "bytes");
    page_line(p, &b);
    for (size_t i = 0; i < n; i++) {
        if (!buckets[i].sums.count)
            continue;
        page_right(&b, buckets[i].label, 22);
        buffer_append_text(&b, "  ");
        page_bar(p, &b, buckets[i].sums.count, most, 20);
        buffer_printf(&b, " %12s ", COUNT(buckets[i].sums.count));
        page_percent(&b, buckets[i].sums.count, count);
        buffer_printf(&b, " %12s ", SIZE(buckets[i].sums.bytes));
        page_percent(&b, buckets[i].sums.bytes, bytes);
        page_line(p, &b);
    }
    buffer_release(&b);
}

/* A bound of a size class: exact below a kilobyte, powers of two above. */
static void size_bound(struct buffer *b, uint64_t size_bytes)
{
    static const char units[] = "KMGTPE";
    unsigned unit = 0;
    if (size_bytes < 1024) {
        buffer_printf(b, "%u", (unsigned)size_bytes);
        return;
    }
    size_bytes /= 1024;
    while (size_bytes >= 1024 && unit < 5) {
        size_bytes /= 1024;
        unit++;
    }
    buffer_printf(b, "%u %cB", (unsigned)size_bytes, units[unit]);
}

/* glibc's mmap threshold, where it was not what it always is. */
static void threshold(const struct page *p, const struct model *m)
{
    const struct threshold *t = model_threshold(m);
    const struct trace_image *image = model_image(m);
    struct buffer b = {0};
    if (t->doubt ? t->doubt != THRESHOLD_CONTRADICTED : t->count == 1 && !t->fixed)
        return;
    buffer_append_text(&b, "        a mapping of its own: ");
    if (t->doubt) {
        buffer_printf(&b, "from a size on that the program set, since a block of %s had one",
                      SIZE(t->contradiction_bytes));
    } else {
        buffer_printf(&b, "from %s on", SIZE(t->steps[t->count - 1].bytes));
        if (t->fixed)
            buffer_append_text(&b, ", fixed by the environment");
        else
            buffer_printf(&b, ", raised by frees from %s", SIZE(t->steps[0].bytes));
        if (t->count > 1)
            buffer_printf(&b, " in %zu step%s, the last %s after the start", t->count - 1,
                          t->count == 2 ? "" : "s",
                          TIME(t->steps[t->count - 1].time_ns - image->start_ns));
    }
    page_wrap(p, &b, 10);
}

static void sizes(const struct page *p, const struct model *m)
{
    const struct model_count *counts = model_sizes(m);
    struct report_class of[REPORT_SIZES];
    struct bucket buckets[REPORT_SIZES];
    report_sizes(m, of);
    for (unsigned bits = 0; bits < REPORT_SIZES; bits++) {
        struct buffer b = {0};
        buckets[bits].sums = of[bits].sums;
        if (bits < 2) {
            buffer_printf(&b, "%u", bits);
        } else {
            size_bound(&b, (uint64_t)1 << (bits - 1));
            buffer_append_text(&b, " ..< ");
            if (bits < 64)
                size_bound(&b, (uint64_t)1 << bits);
        }
        if (bits < 11)
            buffer_append_text(&b, bits == 10 ? "" : " B");
        snprintf(buckets[bits].label, sizeof buckets[bits].label, "%s", buffer_text(&b));
        buffer_release(&b);
    }
    histogram(p, "Sizes asked for", "calls", buckets, REPORT_SIZES);

    struct buffer b = {0};
    bool done[MODEL_EXACT_SIZES + 1] = {false};
    uint64_t all = model_totals(m)->allocations;
    for (unsigned shown = 0; shown < 6; shown++) {
        unsigned best = 0;
        for (unsigned i = 1; i <= MODEL_EXACT_SIZES; i++)
            if (!done[i] && counts[i].count > (best ? counts[best].count : 0))
                best = i;
        if (!best || counts[best].count * 50 < all)
            break;
        done[best] = true;
        buffer_printf(&b, "%s%s (%.0f %%)", shown ? ", " : "        most often: ", SIZE(best),
                      100.0 * (double)counts[best].count / (double)all);
    }
    if (b.size_bytes)
        page_line(p, &b);
    buffer_release(&b);
    threshold(p, m);
}

static void lifetimes(const struct page *p, const struct model *m)
{
    const struct model_count *counts = model_lifetimes(m);
    struct bucket buckets[MODEL_LIFETIMES + 1];
    for (unsigned c = 0; c <= MODEL_LIFETIMES; c++) {
        buckets[c].sums = counts[c];
        if (c == MODEL_LIFETIMES)
            snprintf(buckets[c].label, sizeof buckets[c].label, "never freed");
        else if (c + 1 == MODEL_LIFETIMES)
            snprintf(buckets[c].label, sizeof buckets[c].label, "longer");
        else
            snprintf(buckets[c].label, sizeof buckets[c].label, "under %s",
                     TIME(model_lifetime_min_ns(c + 1)));
    }
    histogram(p, "How long blocks lived", "blocks", buckets, MODEL_LIFETIMES + 1);
}

static int by_bytes(const void *a, const void *b)
{
    const struct report_thread *x = a, *y = b;
    if (x->sums.allocated_bytes != y->sums.allocated_bytes)
        return x->sums.allocated_bytes < y->sums.allocated_bytes ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static void threads(const struct page *p, const struct model *m)
{
    const uint32_t count = model_image(m)->thread_count;
    const struct table table = {.columns = report_thread_columns};
    struct buffer b = {0};
    struct report_thread *rows = count > 1 ? calloc(count, sizeof *rows) : NULL;
    if (!rows)
        return;
    for (uint32_t i = 0; i < count; i++)
        rows[i] = report_thread(m, i);
    qsort(rows, count, sizeof *rows, by_bytes);
    page_heading(p, "Threads");
    table_titles(&b, &table);
    buffer_append_text(&b, "  name");
    page_line(p, &b);
    for (uint32_t i = 0; i < count && i < 10; i++) {
        table_cells(&b, &table, &rows[i]);
        buffer_printf(&b, "  %s", rows[i].name);
        page_line(p, &b);
    }
    if (count > 10)
        text_printf(p->out, "          and %u more\n", count - 10);
    buffer_append_text(&b,
                       "          of others: blocks of other threads that it released; by others: "
                       "its blocks that others released");
    page_wrap(p, &b, 10);
    free(rows);
}

uint32_t section_site(struct names *names, uint32_t stack)
{
    uint32_t node, position;
    return names_site(names, stack, &node, &position);
}

void section_print_site(const struct page *p, struct buffer *b, const struct names *names,
                        uint32_t frame)
{
    if (frame != NO_FRAME)
        page_frame(p, b, names_frame(names, frame), 60);
    else
        buffer_append_text(b, "(no stack recorded)");
}

static void reallocs(const struct page *p, const struct model *m, struct names *names)
{
    const struct model_reallocs *r = model_reallocs(m);
    struct buffer b = {0};
    if (!r->resized)
        return;
    page_heading(p, "Blocks resized: %s time%s", COUNT(r->resized), r->resized == 1 ? "" : "s");
    buffer_printf(
        &b, "   %s grew, %s shrank; %s were kept over the calls (copied, where the block moved)",
        COUNT(r->grown), COUNT(r->shrunk), SIZE(r->kept_bytes));
    page_wrap(p, &b, 6);
    for (unsigned i = 0; i < MODEL_CHAINS && r->longest[i].resizes; i++) {
        const struct model_chain *c = &r->longest[i];
        const uint32_t frame = section_site(names, c->stack);
        bool said = false; /* another stack of the same site */
        for (unsigned k = 0; k < i; k++)
            said |= section_site(names, r->longest[k].stack) == frame;
        if (c->resizes < 3 || said)
            continue;
        buffer_printf(&b, "   up to %s times one block, to %s: ", COUNT(c->resizes),
                      SIZE(c->last_bytes));
        section_print_site(p, &b, names, frame);
        page_wrap(p, &b, 6);
    }
    buffer_release(&b);
}

static void failures(const struct page *p, const struct model *m, struct names *names)
{
    size_t count;
    const struct model_failure *f = model_failures(m, &count);
    const struct trace_image *image = model_image(m);
    uint64_t all = model_totals(m)->failed_calls;
    struct buffer b = {0};
    if (!all)
        return;
    page_heading(p, "Calls that failed: %s", COUNT(all));
    for (size_t i = 0; i < count && i < 8; i++) {
        buffer_printf(&b, "   %s of %s", mlw_op_name(f[i].op), SIZE(f[i].size_bytes));
        if (f[i].time_ns >= image->start_ns)
            buffer_printf(&b, ", %s after the start: ", TIME(f[i].time_ns - image->start_ns));
        section_print_site(p, &b, names, section_site(names, f[i].stack));
        page_line(p, &b);
    }
    if (all > 8)
        text_printf(p->out, "   and %llu more\n", (unsigned long long)(all - 8));
    buffer_release(&b);
}

struct mapping_site {
    uint32_t frame; /* NO_FRAME: no stack */
    struct mapped_stack sums;
};

static int by_peak(const void *a, const void *b)
{
    const struct mapped_stack *x = &((const struct mapping_site *)a)->sums,
                              *y = &((const struct mapping_site *)b)->sums;
    if (x->peak_bytes != y->peak_bytes)
        return x->peak_bytes < y->peak_bytes ? 1 : -1;
    return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/* The stacks that mapped something, by the frame that shows who. *count: how many. NULL without
 * memory. */
static struct mapping_site *mapping_sites(const struct model *m, struct names *names, size_t *count)
{
    size_t all, n = 0;
    const struct mapped_stack *stacks = mapped_stacks(model_mapped(m), &all);
    struct mapping_site *sites = calloc(all + 1, sizeof *sites);
    for (size_t i = 0; sites && i < all; i++) {
        const uint32_t stack = stacks[i].stack;
        const uint32_t frame = stack ? section_site(names, stack) : NO_FRAME;
        size_t k = 0;
        while (k < n && sites[k].frame != frame)
            k++;
        if (k == n)
            sites[n++] = (struct mapping_site){.frame = frame};
        sites[k].sums.calls += stacks[i].calls;
        sites[k].sums.bytes += stacks[i].bytes;
        sites[k].sums.live_bytes += stacks[i].live_bytes;
        sites[k].sums.peak_bytes += stacks[i].peak_bytes;
    }
    if (n)
        qsort(sites, n, sizeof *sites, by_peak);
    *count = n;
    return sites;
}

void section_mapped(const struct page *p, const struct model *m, struct names *names)
{
    const struct mapped *mapped = model_mapped(m);
    const struct trace_image *image = model_image(m);
    struct buffer b = {0};
    size_t count = 0;
    if (!mapped)
        return;
    page_heading(p, "Mapped by the program itself: %s at most", SIZE(mapped_peak_bytes(mapped)));
    buffer_append_text(&b, "   anonymous address space");
    if (mapped_peak_time_ns(mapped) >= image->start_ns)
        buffer_printf(&b, ", most %s after the start",
                      TIME(mapped_peak_time_ns(mapped) - image->start_ns));
    buffer_printf(&b, "; %s at the end; resident as far as it was touched",
                  SIZE(mapped_live_bytes(mapped)));
    page_wrap(p, &b, 6);
    struct mapping_site *sites = mapping_sites(m, names, &count);
    if (!sites)
        text_printf(p->out, "                (out of memory: the call sites are missing)\n");
    for (size_t i = 0; i < count && i < 8; i++) {
        const struct mapped_stack *s = &sites[i].sums;
        buffer_printf(&b, "%14s  end %s; %s in %s call%s: ", SIZE(s->peak_bytes),
                      SIZE(s->live_bytes), SIZE(s->bytes), COUNT(s->calls),
                      s->calls == 1 ? "" : "s");
        section_print_site(p, &b, names, sites[i].frame);
        page_wrap(p, &b, 16);
    }
    if (count > 8)
        text_printf(p->out, "                and %zu more\n", count - 8);
    free(sites);
    buffer_release(&b);
}

void section_rest(const struct page *p, const struct model *m, struct names *names)
{
    calls(p, m);
    sizes(p, m);
    lifetimes(p, m);
    threads(p, m);
    reallocs(p, m, names);
    failures(p, m, names);
}

void section_problems(const struct page *p, struct symbols *symbols)
{
    const char *const *text = NULL;
    size_t n = symbols_problems(symbols, &text);
    if (!n)
        return;
    page_heading(p, "Names that could not be found");
    for (size_t i = 0; i < n; i++) {
        struct buffer b = {0};
        buffer_printf(&b, "   %s", text[i]);
        page_wrap(p, &b, 6);
    }
}
