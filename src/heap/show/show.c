/* show.c - a heap as text; see show.h. */
#include "heap/show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"
#include "heap/show/columns.h"

/* A line of the sums at the beginning. */
#define SUM(bytes, format, ...)                                                                    \
    text_printf(stdout, "%10s  " format "\n", SIZE(bytes), ##__VA_ARGS__)
#define BLOCKS(n) COUNT(n), plural(n, "block", "blocks")

static void show_cold_facts(const struct heap_facts *f)
{
    if (!f->cold_source)
        return;
    SUM(f->cold_bytes, "in memory in %s %s on pages that were not %s for %s (seen by %s%s)",
        BLOCKS(f->cold_blocks), f->cold_reads ? "touched" : "written", TIME(f->cold_ns),
        f->cold_source, f->cold_reads ? "" : "; reads are not seen");
    if (f->cold_swapped_bytes)
        SUM(f->cold_swapped_bytes, "  and in swap");
}

static void show_source(const struct heap_facts *f)
{
    if (f->pid)
        text_printf(stdout, "process %" PRIu32 ", ", f->pid);
    text_printf(stdout, "%s%s", f->loaded ? "saved: " : "", f->source);
    if (f->stopped_ns)
        text_printf(stdout, " (it stood still for %s)", TIME(f->stopped_ns));
    text_printf(stdout, ", heap of %s%s\n", f->only_recorded ? "" : "glibc in ", f->allocator);
    if (*f->note)
        text_printf(stdout, "note: %s\n", f->note);
    if (f->file_bytes)
        text_printf(stdout,
                    "the tables did not fit into memory (--memory): up to %s of them lay in "
                    "temporary files\n",
                    SIZE(f->file_bytes));
}

static void show_verified(const struct heap_facts *f)
{
    if (f->verified && f->only_recorded)
        text_printf(stdout,
                    "verified: the recording lost nothing, and its blocks match the heap\n");
    else if (f->verified)
        text_printf(stdout,
                    "verified: all of it was read. %zu %s up to the byte, %s blocks with "
                    "mappings of their own agree with glibc's count\n",
                    f->arena_count, plural(f->arena_count, "arena adds", "arenas add"),
                    COUNT(f->mapped_blocks));
    else
        text_printf(stdout,
                    "NOT VERIFIED: %s. What follows is incomplete, and there are no totals "
                    "of leaks\n",
                    f->reason);
}

/* How many blocks have a call stack. */
static void show_known(const struct heap_facts *f, const struct heap_samples *samples)
{
    if (f->recorded && !f->sampled)
        text_printf(stdout, "the recording knows who allocated %s of %s %s\n",
                    COUNT(f->known_blocks), BLOCKS(f->blocks));
    if (samples) {
        const struct estimate_interval e = estimate_bytes_interval(&samples->all);
        text_printf(stdout,
                    "a library in it samples a byte in %s: who allocated is known of %s of "
                    "%s blocks, which stand for %s (95%% between %s and %s)\n",
                    SIZE(heap_samples_period(samples)), COUNT(f->known_blocks), COUNT(f->blocks),
                    SIZE(estimate_whole(samples->all.bytes)), SIZE(estimate_whole(e.low)),
                    SIZE(estimate_whole(e.high)));
    }
}

static void show_sums(const struct heap_facts *f)
{
    SUM(f->used_bytes, "in %s %s of the program", BLOCKS(f->blocks));
    if (f->pool_bytes)
        SUM(f->pool_used_bytes, "  of these in %s %s of Python's own allocator, whose pools are %s",
            BLOCKS(f->pool_blocks), SIZE(f->pool_bytes));
    SUM(f->free_bytes, "free in the arenas");
    SUM(f->trimmable_bytes, "  of these, malloc_trim(0) would return%s",
        f->resident_known ? "" : ", at most: a core does not say which pages were in memory");
    SUM(f->pinned_bytes, "  of these share pages with blocks in use (--free)");
    SUM(f->cached_bytes, "free in the caches of %s of %s %s", COUNT(f->caches), COUNT(f->threads),
        plural(f->threads, "thread", "threads"));
    SUM(f->own_bytes, "headers, and what glibc keeps for itself");
    if (f->garbage_blocks)
        SUM(f->garbage_bytes, "in %s %s that only Python's collector can free (garbage)",
            BLOCKS(f->garbage_blocks));
    if (f->verified)
        SUM(f->unreachable_bytes, "in %s %s that nothing refers to any more (leaked)",
            BLOCKS(f->unreachable_blocks));
}

static void show_facts(const struct heap_facts *f, const struct heap_samples *samples)
{
    show_source(f);
    show_verified(f);
    show_known(f, samples);
    text_printf(stdout, "\n");
    show_sums(f);
    show_cold_facts(f);
}

static void show_cut(size_t count, size_t shown)
{
    if (shown < count)
        text_printf(stdout, "  ... and %s more (-n)\n", COUNT(count - shown));
}

/* Names a row: the end of its line, without the line end. */
typedef void show_label(const void *row, const struct heap_show *s);

/* 0, or -1 when the heap could not give the rows: then they are NULL and *err is set. */
static int show_rows(const struct heap_show *s, const struct table *t, const char *last,
                     show_label *label, const void *rows, size_t count, size_t bytes)
{
    size_t shown = 0;
    table_heading(stdout, t, last);
    for (; shown < count && shown < s->top; shown++) {
        const void *row = (const char *)rows + shown * bytes;
        table_numbers(stdout, t, row);
        label(row, s);
        text_printf(stdout, "\n");
    }
    show_cut(count, shown);
    return 0;
}

static void show_name(const void *row, const struct heap_show *s)
{
    (void)s;
    text_printf(stdout, "%s", ((const struct heap_row *)row)->name);
}

/* Its name, and where it is declared: the file alone, without its directories. */
static void show_root(const void *row, const struct heap_show *s)
{
    const struct heap_row *r = row;
    const char *slash = strrchr(r->file, '/');
    const char *file = slash ? slash + 1 : r->file;
    (void)s;
    text_printf(stdout, HEAP_NAME, HEAP_NAME_OF(r));
    if (*file && r->line)
        text_printf(stdout, " %s:%u", file, r->line);
    if (*r->declared)
        text_printf(stdout, " %s", r->declared);
}

static int show_types(struct heap *h, const struct heap_show *s, enum heap_by by, const char *title,
                      struct error *err)
{
    const bool roots = by == HEAP_BY_ROOT;
    const struct table t =
        heap_columns(h, roots ? heap_root_columns : heap_row_columns, by, s->names);
    size_t count;
    const struct heap_row *rows = heap_table(h, by, &count, err);
    if (!rows && err->kind != ERROR_NONE)
        return -1;
    return show_rows(s, &t, title, roots ? show_root : show_name, rows, count, sizeof *rows);
}

static void show_arena(const void *row, const struct heap_show *s)
{
    const struct heap_arena *a = row;
    (void)s;
    text_printf(stdout, "0x%" PRIx64 "%s, %" PRIu64 " %s", a->address, a->main ? " (main)" : "",
                a->attached_threads, plural(a->attached_threads, "thread", "threads"));
}

static void show_arenas(const struct heap_facts *f, const struct heap_show *s)
{
    const struct table t = {.columns = heap_arena_columns};
    show_rows(s, &t, "arena", show_arena, f->arenas, f->arena_count, sizeof *f->arenas);
    if (f->mapped_blocks)
        text_printf(stdout, "%10s %10s %21s %13s  blocks with mappings of their own\n",
                    SIZE(f->mapped_system_bytes), SIZE(f->mapped_bytes), "",
                    COUNT(f->mapped_blocks));
}

/* The innermost frame that is not machinery of allocation, and some of its callers. */
static void show_stack(struct names *names, uint32_t stack)
{
    enum { SHOWN = 4, LOOKED_AT = 256 };
    uint32_t ids[LOOKED_AT];
    size_t count = table_stack(names, stack, ids, LOOKED_AT);
    if (!count) {
        text_printf(stdout, "(not in the recording)");
        return;
    }
    const size_t from = names_first(names, ids, count);
    count = names_shown(names, ids, count);
    for (size_t i = from; i < count && i < from + SHOWN; i++) {
        const struct name_frame *f = names_frame(names, ids[i]);
        text_printf(stdout, "%s%s", i > from ? " <- " : "", names_frame_brief(f));
        if (f->place && i == from)
            text_printf(stdout, " (%s:%u)", f->place, f->line);
    }
}

/* sampled: the stack is known of some only. */
static bool is_like(const struct heap_leak *a, const struct heap_leak *b, bool sampled)
{
    return a->bytes == b->bytes && a->blocks == b->blocks && (sampled || a->stack == b->stack) &&
           !strcmp(a->type, b->type);
}

static void show_leaks(struct heap *h, const struct heap_show *s)
{
    const struct table t = {.columns = heap_leak_columns};
    size_t count = heap_leaks(h), shown = 0, rest = 0;
    if (!heap_facts(h)->verified)
        return;
    if (!count) {
        text_printf(stdout, "\nno unreachable blocks\n");
        return;
    }
    table_heading(stdout, &t, "first block, its type");
    for (size_t i = 0; i < count && shown < s->top; shown++) {
        struct heap_leak leak, next;
        size_t like = 0; /* groups of the same shape are one line */
        heap_leak(h, i, &leak);
        uint32_t stack = leak.stack;
        for (next = leak; i < count && is_like(&leak, &next, s->samples); like++) {
            stack = stack ? stack : next.stack;
            if (++i < count)
                heap_leak(h, i, &next);
        }
        leak.bytes *= like;
        leak.blocks *= like;
        table_numbers(stdout, &t, &leak);
        text_printf(stdout, "0x%" PRIx64 "  %s", leak.address, leak.type);
        if (like > 1)
            text_printf(stdout, ", and %s more like it", COUNT(like - 1));
        text_printf(stdout, "\n");
        if (s->names && stack) {
            text_printf(stdout, "%26s  %s", "",
                        s->samples && like > 1 ? "one of them, which is sampled, allocated by "
                                               : "allocated by ");
            show_stack(s->names, stack);
            text_printf(stdout, "\n");
        }
        rest = count - i;
    }
    show_cut(rest, 0);
}

static void show_site(const void *row, const struct heap_show *s)
{
    show_stack(s->names, ((const struct heap_site *)row)->stack);
}

/* The call sites of the samples of a library in the process, with their estimates. */
static void show_sampled_sites(const struct heap *h, const struct heap_site *sites, size_t count,
                               const struct heap_show *s)
{
    const struct table t = heap_columns(h, heap_sampled_columns, HEAP_BY_SITE, s->names);
    size_t shown = 0;
    table_heading(stdout, &t, "call site, ages");
    for (; shown < count && shown < s->top; shown++) {
        const struct heap_sampled_row row = heap_sampled_row(s->samples, &sites[shown]);
        table_numbers(stdout, &t, &row);
        text_printf(stdout, "%s to %s  ", TIME(row.youngest_ns), TIME(row.oldest_ns));
        show_stack(s->names, row.site.stack);
        text_printf(stdout, "\n");
    }
    show_cut(count, shown);
}

static int show_sites(struct heap *h, const struct heap_show *s, struct error *err)
{
    const struct table t = heap_columns(h, heap_site_columns, HEAP_BY_SITE, s->names);
    size_t count;
    const struct heap_site *sites = heap_sites(h, &count, err);
    if (!sites)
        return err->kind == ERROR_NONE ? 0 : -1;
    if (!s->samples)
        return show_rows(s, &t, "call site", show_site, sites, count, sizeof *sites);
    show_sampled_sites(h, sites, count, s);
    return 0;
}

/* A type, a root or a call stack. */
static void show_group(const struct heap_group *g, const struct heap_show *s)
{
    if (*g->name)
        text_printf(stdout, HEAP_NAME, HEAP_NAME_OF(g));
    else
        show_stack(s->names, g->stack);
}

static void show_pin(const void *row, const struct heap_show *s)
{
    show_group(&((const struct heap_pin *)row)->group, s);
}

static int show_pins(struct heap *h, const struct heap_show *s, enum heap_by by, const char *what,
                     struct error *err)
{
    const struct table t = heap_columns(h, heap_pin_columns, by, s->names);
    size_t count;
    const struct heap_pin *pins = heap_pins(h, by, &count, err);
    if (!pins)
        return err->kind == ERROR_NONE ? 0 : -1;
    return show_rows(s, &t, what, show_pin, pins, count, sizeof *pins);
}

static int show_free(struct heap *h, const struct heap_show *s, struct error *err)
{
    int status = show_pins(h, s, HEAP_BY_TYPE, "type that shares the pages", err);
    if (!status)
        status =
            show_pins(h, s, HEAP_BY_ROOT, "root that reaches first what shares the pages", err);
    if (!status && s->names && !s->samples)
        status = show_pins(h, s, HEAP_BY_SITE, "call site that shares the pages", err);
    return status;
}

static void show_cold_group(const void *row, const struct heap_show *s)
{
    show_group(&((const struct heap_cold *)row)->group, s);
}

static int show_cold(struct heap *h, const struct heap_show *s, enum heap_by by, const char *what,
                     struct error *err)
{
    const struct table t = heap_columns(h, heap_cold_columns, by, s->names);
    size_t count;
    const struct heap_cold *rows = heap_cold(h, by, &count, err);
    if (!rows)
        return err->kind == ERROR_NONE ? 0 : -1;
    return show_rows(s, &t, what, show_cold_group, rows, count, sizeof *rows);
}

static int show_cold_tables(struct heap *h, const struct heap_show *s, struct error *err)
{
    const bool all = s->view == HEAP_VIEW_ALL;
    int status = 0;
    if (all || s->view == HEAP_VIEW_ROOT)
        status = show_cold(h, s, HEAP_BY_ROOT, "root that reaches them first", err);
    if (!status && (all || s->view == HEAP_VIEW_TYPE))
        status = show_cold(h, s, HEAP_BY_TYPE, "type", err);
    if (!status && s->names && !s->samples && (all || s->view == HEAP_VIEW_SITE))
        status = show_cold(h, s, HEAP_BY_SITE, "call site", err);
    return status;
}

int heap_show_text(struct heap *h, const struct heap_show *s, struct error *err)
{
    const struct heap_facts *f = heap_facts(h);
    int status = 0;
    show_facts(f, s->samples);
    if (s->cold)
        return show_cold_tables(h, s, err);
    bool all = s->view == HEAP_VIEW_ALL && !s->leaks && !s->free;
    if (all || s->view == HEAP_VIEW_ROOT)
        status = show_types(h, s, HEAP_BY_ROOT, "root", err);
    if (!status && (all || s->view == HEAP_VIEW_TYPE))
        status = show_types(h, s, HEAP_BY_TYPE, "type", err);
    if (!status && s->names && (all || s->view == HEAP_VIEW_SITE))
        status = show_sites(h, s, err);
    if (!status && s->view == HEAP_VIEW_SIZE)
        status = show_types(h, s, HEAP_BY_SIZE, "size", err);
    if (!status && s->view == HEAP_VIEW_ARENA)
        show_arenas(f, s);
    if (!status && s->free)
        status = show_free(h, s, err);
    if (!status && (s->leaks || (all && f->unreachable_blocks)))
        show_leaks(h, s);
    return status;
}

static void show_step(const struct heap_step *step, bool first)
{
    text_printf(stdout, "%s", first ? "" : "  ");
    if (step->is_root) {
        text_printf(stdout, "%s %s%s%s%s", step->type, step->name, *step->module ? " (" : "",
                    step->module, *step->module ? ")" : "");
        if (step->address)
            text_printf(stdout, " at 0x%" PRIx64, step->address);
    } else {
        text_printf(stdout, "0x%" PRIx64 "  %s  %s", step->address, SIZE(step->bytes), step->type);
    }
    text_printf(stdout, ", retains %s\n", SIZE(step->retained_bytes));
}

void heap_show_steps(const struct heap_step *steps, size_t count, enum heap_found found,
                     uint64_t address, bool why, uint64_t top)
{
    if (found == HEAP_OUTSIDE)
        text_printf(stdout, "0x%" PRIx64 " is in no block of the heap\n", address);
    else if (found == HEAP_FREE)
        text_printf(stdout, "0x%" PRIx64 " is in free memory of the heap\n", address);
    else if (found == HEAP_UNREACHABLE && why)
        text_printf(stdout, "nothing leads to it any more: it is leaked\n");
    size_t shown = 0;
    for (; shown < count && (why || shown <= top); shown++) {
        if (!why && shown == 1)
            text_printf(stdout, "is referred to by\n");
        show_step(&steps[shown], shown == 0);
    }
    if (!why && count == 1)
        text_printf(stdout, "is referred to by nothing\n");
    show_cut(count, shown);
}
