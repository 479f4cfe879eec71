/* show.c - a heap as text; see show.h. */
#include "heap/show/show.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/plural.h"
#include "base/text.h"

static void put_size(uint64_t bytes)
{
    char text[HUMAN_TEXT_BYTES];
    text_printf(stdout, "%10s", human_size(text, bytes));
}

static void put_count(uint64_t n)
{
    char text[HUMAN_TEXT_BYTES];
    text_printf(stdout, " %13s", human_count(text, n));
}

static void show_cold_facts(const struct heap_facts *f)
{
    char a[HUMAN_TEXT_BYTES];
    if (!f->cold_source)
        return;
    put_size(f->cold_bytes);
    text_printf(stdout, "  in memory in %s %s on pages that were not %s",
                human_count(a, f->cold_blocks), plural(f->cold_blocks, "block", "blocks"),
                f->cold_reads ? "touched" : "written");
    text_printf(stdout, " for %s (seen by %s%s)\n", human_duration(a, f->cold_ns), f->cold_source,
                f->cold_reads ? "" : "; reads are not seen");
    if (f->cold_swapped_bytes) {
        put_size(f->cold_swapped_bytes);
        text_printf(stdout, "    and in swap\n");
    }
}

static void show_source(const struct heap_facts *f)
{
    char a[HUMAN_TEXT_BYTES];
    if (f->pid)
        text_printf(stdout, "process %" PRIu32 ", ", f->pid);
    text_printf(stdout, "%s%s", f->loaded ? "saved: " : "", f->source);
    if (f->stopped_ns)
        text_printf(stdout, " (it stood still for %s)", human_duration(a, f->stopped_ns));
    text_printf(stdout, ", heap of %s%s\n", f->only_recorded ? "" : "glibc in ", f->allocator);
    if (*f->note)
        text_printf(stdout, "note: %s\n", f->note);
    if (f->file_bytes)
        text_printf(stdout,
                    "the tables did not fit into memory (--memory): up to %s of them lay in "
                    "temporary files\n",
                    human_size(a, f->file_bytes));
}

static void show_verified(const struct heap_facts *f)
{
    char a[HUMAN_TEXT_BYTES];
    if (f->verified && f->only_recorded)
        text_printf(stdout,
                    "verified: the recording lost nothing, and its blocks match the heap\n");
    else if (f->verified)
        text_printf(
            stdout,
            "verified: all of it was read. %zu arena%s add%s up to the byte, %s blocks with "
            "mappings of their own agree with glibc's count\n",
            f->arena_count, f->arena_count == 1 ? "" : "s", f->arena_count == 1 ? "s" : "",
            human_count(a, f->mapped_blocks));
    else
        text_printf(stdout,
                    "NOT VERIFIED: %s. What follows is incomplete, and there are no totals "
                    "of leaks\n",
                    f->reason);
}

/* How many blocks have a call stack. */
static void show_known(const struct heap_facts *f, const struct heap_samples *samples)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    if (f->recorded && !f->sampled)
        text_printf(stdout, "the recording knows who allocated %s of %s %s\n",
                    human_count(a, f->known_blocks), human_count(b, f->blocks),
                    plural(f->blocks, "block", "blocks"));
    if (samples) {
        const struct estimate_interval e = estimate_bytes_interval(&samples->all);
        char low[HUMAN_TEXT_BYTES], high[HUMAN_TEXT_BYTES];
        text_printf(stdout,
                    "a library in it samples a byte in %s: who allocated is known of %s of "
                    "%s blocks, ",
                    human_size(low, heap_samples_period(samples)), human_count(a, f->known_blocks),
                    human_count(b, f->blocks));
        text_printf(stdout, "which stand for %s (95%% between %s and %s)\n",
                    human_size(a, estimate_whole(samples->all.bytes)),
                    human_size(low, estimate_whole(e.low)),
                    human_size(high, estimate_whole(e.high)));
    }
}

static void show_sums(const struct heap_facts *f)
{
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    put_size(f->used_bytes);
    text_printf(stdout, "  in %s %s of the program\n", human_count(a, f->blocks),
                plural(f->blocks, "block", "blocks"));
    if (f->pool_bytes) {
        put_size(f->pool_used_bytes);
        text_printf(stdout, "    of these in %s %s of Python's own allocator, whose pools are %s\n",
                    human_count(a, f->pool_blocks), plural(f->pool_blocks, "block", "blocks"),
                    human_size(b, f->pool_bytes));
    }
    put_size(f->free_bytes);
    text_printf(stdout, "  free in the arenas\n");
    put_size(f->trimmable_bytes);
    text_printf(stdout, "    of these, malloc_trim(0) would return%s\n",
                f->resident_known ? ""
                                  : ", at most: a core does not say which pages were in memory");
    put_size(f->pinned_bytes);
    text_printf(stdout, "    of these share pages with blocks in use (--free)\n");
    put_size(f->cached_bytes);
    text_printf(stdout, "  free in the caches of %s of %s %s\n", human_count(a, f->caches),
                human_count(b, f->threads), plural(f->threads, "thread", "threads"));
    put_size(f->own_bytes);
    text_printf(stdout, "  headers, and what glibc keeps for itself\n");
    if (f->garbage_blocks) {
        put_size(f->garbage_bytes);
        text_printf(stdout, "  in %s %s that only Python's collector can free (garbage)\n",
                    human_count(a, f->garbage_blocks),
                    plural(f->garbage_blocks, "block", "blocks"));
    }
    if (f->verified) {
        put_size(f->unreachable_bytes);
        text_printf(stdout, "  in %s %s that nothing refers to any more (leaked)\n",
                    human_count(a, f->unreachable_blocks),
                    plural(f->unreachable_blocks, "block", "blocks"));
    }
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
    char text[HUMAN_TEXT_BYTES];
    if (shown < count)
        text_printf(stdout, "  ... and %s more (-n)\n", human_count(text, count - shown));
}

static void put_age(const struct heap_ages *a)
{
    char text[HUMAN_TEXT_BYTES];
    text_printf(stdout, " %10s", a->known_blocks ? human_duration(text, a->oldest_ns) : "");
}

static int show_types(struct heap *h, const struct heap_show *s, enum heap_by by, const char *title,
                      struct error *err)
{
    size_t count;
    const struct heap_row *rows = heap_table(h, by, &count, err);
    if (!rows && err->kind != ERROR_NONE)
        return -1;
    const bool ages = heap_facts(h)->recorded;
    text_printf(stdout, "\n%10s %10s %13s%s  %s\n", "retained", "own", "blocks",
                ages ? "     oldest" : "", title);
    size_t shown = 0;
    for (; shown < count && shown < s->top; shown++) {
        put_size(rows[shown].retained_bytes);
        text_printf(stdout, " ");
        put_size(rows[shown].bytes);
        put_count(rows[shown].blocks);
        if (ages)
            put_age(&rows[shown].ages);
        text_printf(stdout, "  %s\n", rows[shown].name);
    }
    show_cut(count, shown);
    return 0;
}

/* Its name, and where it is declared: the file alone, without its directories. */
static void show_root(const struct heap_row *r)
{
    const char *slash = strrchr(r->file, '/');
    const char *file = slash ? slash + 1 : r->file;
    text_printf(stdout, "  %s %s%s%s%s", r->kind, r->name, *r->module ? " (" : "", r->module,
                *r->module ? ")" : "");
    if (*file && r->line)
        text_printf(stdout, " %s:%u", file, r->line);
    if (*r->declared)
        text_printf(stdout, " %s", r->declared);
    text_printf(stdout, "\n");
}

static int show_roots(struct heap *h, const struct heap_show *s, struct error *err)
{
    size_t count;
    const struct heap_row *rows = heap_table(h, HEAP_BY_ROOT, &count, err);
    if (!rows && err->kind != ERROR_NONE)
        return -1;
    text_printf(stdout, "\n%10s %13s %10s  %s\n", "retained", "blocks", "reached", "root");
    size_t shown = 0;
    for (; shown < count && shown < s->top; shown++) {
        put_size(rows[shown].retained_bytes);
        put_count(rows[shown].retained_blocks);
        text_printf(stdout, " ");
        put_size(rows[shown].bytes);
        show_root(&rows[shown]);
    }
    show_cut(count, shown);
    return 0;
}

static void show_arenas(const struct heap_facts *f, const struct heap_show *s)
{
    text_printf(stdout, "\n%10s %10s %10s %10s %13s  %s\n", "system", "used", "free", "cached",
                "blocks", "arena");
    size_t shown = 0;
    for (; shown < f->arena_count && shown < s->top; shown++) {
        const struct heap_arena *a = &f->arenas[shown];
        put_size(a->system_bytes);
        text_printf(stdout, " ");
        put_size(a->used_bytes);
        text_printf(stdout, " ");
        put_size(a->free_bytes);
        text_printf(stdout, " ");
        put_size(a->cached_bytes);
        put_count(a->used_blocks);
        text_printf(stdout, "  0x%" PRIx64 "%s, %" PRIu64 " thread%s\n", a->address,
                    a->main ? " (main)" : "", a->attached_threads,
                    a->attached_threads == 1 ? "" : "s");
    }
    show_cut(f->arena_count, shown);
    if (f->mapped_blocks) {
        put_size(f->mapped_system_bytes);
        text_printf(stdout, " ");
        put_size(f->mapped_bytes);
        text_printf(stdout, " %21s", "");
        put_count(f->mapped_blocks);
        text_printf(stdout, "  blocks with mappings of their own\n");
    }
}

size_t heap_show_frames(struct names *names, uint32_t stack, uint32_t *ids, size_t max)
{
    size_t count = 0;
    for (struct names_walk w = {.node = stack}; names && count < max && names_next(names, &w);)
        ids[count++] = w.id;
    return count;
}

/* The innermost frame that is not machinery of allocation, and some of its callers. */
static void show_stack(struct names *names, uint32_t stack)
{
    enum { SHOWN = 4, LOOKED_AT = 256 };
    uint32_t ids[LOOKED_AT];
    size_t count = heap_show_frames(names, stack, ids, LOOKED_AT);
    if (!count) {
        text_printf(stdout, "(not in the recording)\n");
        return;
    }
    const size_t from = names_first(names, ids, count);
    count = names_shown(names, ids, count);
    for (size_t i = from; i < count && i < from + SHOWN; i++) {
        const struct name_frame *f = names_frame(names, ids[i]);
        text_printf(stdout, "%s%s", i > from ? " <- " : "", f->function);
        if (f->place && i == from)
            text_printf(stdout, " (%s:%u)", f->place, f->line);
    }
    text_printf(stdout, "\n");
}

/* sampled: the stack is known of some only. */
static bool is_like(const struct heap_leak *a, const struct heap_leak *b, bool sampled)
{
    return a->bytes == b->bytes && a->blocks == b->blocks && (sampled || a->stack == b->stack) &&
           !strcmp(a->type, b->type);
}

static void show_leaks(struct heap *h, const struct heap_show *s)
{
    size_t count = heap_leaks(h), shown = 0, rest = 0;
    char text[HUMAN_TEXT_BYTES];
    if (!heap_facts(h)->verified)
        return;
    if (!count) {
        text_printf(stdout, "\nno unreachable blocks\n");
        return;
    }
    text_printf(stdout, "\n%10s %13s  %s\n", "leaked", "blocks", "first block, its type");
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
        put_size(leak.bytes * like);
        put_count(leak.blocks * like);
        text_printf(stdout, "  0x%" PRIx64 "  %s", leak.address, leak.type);
        if (like > 1)
            text_printf(stdout, ", and %s more like it", human_count(text, like - 1));
        text_printf(stdout, "\n");
        if (s->names && stack) {
            text_printf(stdout, "%26s  %s", "",
                        s->samples && like > 1 ? "one of them, which is sampled, allocated by "
                                               : "allocated by ");
            show_stack(s->names, stack);
        }
        rest = count - i;
    }
    if (rest)
        text_printf(stdout, "  ... and %s more (-n)\n", human_count(text, rest));
}

/* The call sites of the samples of a library in the process, with their estimates. */
static void show_sampled_sites(const struct heap_site *sites, size_t count,
                               const struct heap_show *s)
{
    size_t shown = 0;
    text_printf(stdout, "\n%10s %10s %10s %10s %8s  %s\n", "estimated", "retained", "sampled",
                "leaked", "blocks", "call site, ages");
    for (; shown < count && shown < s->top; shown++) {
        const struct heap_sampled_site *of = heap_samples_of(s->samples, sites[shown].stack);
        char oldest[HUMAN_TEXT_BYTES], youngest[HUMAN_TEXT_BYTES], n[HUMAN_TEXT_BYTES];
        put_size(of ? estimate_whole(of->live.bytes) : 0);
        text_printf(stdout, " ");
        put_size(sites[shown].retained_bytes);
        text_printf(stdout, " ");
        put_size(sites[shown].bytes);
        text_printf(stdout, " ");
        put_size(sites[shown].unreachable_bytes);
        text_printf(stdout, " %8s  %s to %s  ", human_count(n, sites[shown].blocks),
                    human_duration(youngest, of ? of->youngest_ns : 0),
                    human_duration(oldest, of ? of->oldest_ns : 0));
        show_stack(s->names, sites[shown].stack);
    }
    show_cut(count, shown);
}

static int show_sites(struct heap *h, const struct heap_show *s, struct error *err)
{
    size_t count, shown = 0;
    const struct heap_site *sites = heap_sites(h, &count, err);
    if (!sites)
        return err->kind == ERROR_NONE ? 0 : -1;
    if (s->samples) {
        show_sampled_sites(sites, count, s);
        return 0;
    }
    text_printf(stdout, "\n%10s %10s %10s %13s %10s  %s\n", "retained", "own", "leaked", "blocks",
                "oldest", "call site");
    for (; shown < count && shown < s->top; shown++) {
        put_size(sites[shown].retained_bytes);
        text_printf(stdout, " ");
        put_size(sites[shown].bytes);
        text_printf(stdout, " ");
        put_size(sites[shown].unreachable_bytes);
        put_count(sites[shown].blocks);
        put_age(&sites[shown].ages);
        text_printf(stdout, "  ");
        show_stack(s->names, sites[shown].stack);
    }
    show_cut(count, shown);
    return 0;
}

/* A type, a root or a call stack. */
static void show_group(const struct heap_group *g, enum heap_by by, struct names *names)
{
    if (by == HEAP_BY_SITE)
        show_stack(names, g->stack);
    else
        text_printf(stdout, "%s%s%s%s%s%s\n", g->kind, *g->kind ? " " : "", g->name,
                    *g->module ? " (" : "", g->module, *g->module ? ")" : "");
}

static int show_pins(struct heap *h, const struct heap_show *s, enum heap_by by, const char *what,
                     struct error *err)
{
    size_t shown = 0, count;
    const struct heap_pin *pins = heap_pins(h, by, &count, err);
    if (!pins)
        return err->kind == ERROR_NONE ? 0 : -1;
    text_printf(stdout, "\n%10s %13s  %s\n", "free", "blocks", what);
    for (; shown < count && shown < s->top; shown++) {
        put_size(pins[shown].free_bytes);
        put_count(pins[shown].blocks);
        text_printf(stdout, "  ");
        show_group(&pins[shown].group, by, s->names);
    }
    show_cut(count, shown);
    return 0;
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

static int show_cold(struct heap *h, const struct heap_show *s, enum heap_by by, const char *what,
                     struct error *err)
{
    size_t count, shown = 0;
    const struct heap_cold *rows = heap_cold(h, by, &count, err);
    if (!rows)
        return err->kind == ERROR_NONE ? 0 : -1;
    text_printf(stdout, "\n%10s %10s %13s  %s\n", "cold", "own", "cold blocks", what);
    for (; shown < count && shown < s->top; shown++) {
        const struct heap_cold *r = &rows[shown];
        put_size(r->cold_bytes);
        text_printf(stdout, " ");
        put_size(r->bytes);
        put_count(r->cold_blocks);
        text_printf(stdout, "  ");
        show_group(&r->group, by, s->names);
    }
    show_cut(count, shown);
    return 0;
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
        status = show_roots(h, s, err);
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
    char size[HUMAN_TEXT_BYTES], retained[HUMAN_TEXT_BYTES];
    human_size(retained, step->retained_bytes);
    if (step->is_root) {
        text_printf(stdout, "%s%s %s%s%s%s", first ? "" : "  ", step->type, step->name,
                    *step->module ? " (" : "", step->module, *step->module ? ")" : "");
        if (step->address)
            text_printf(stdout, " at 0x%" PRIx64, step->address);
        text_printf(stdout, ", retains %s\n", retained);
        return;
    }
    text_printf(stdout, "%s0x%" PRIx64 "  %s  %s, retains %s\n", first ? "" : "  ", step->address,
                human_size(size, step->bytes), step->type, retained);
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
