/* explained_text.c - see explained.h: what the text report says of each moment. */
#include <stdlib.h>

#include "base/text.h"
#include "report/explained.h"
#include "report/heap.h"
#include "report/sections.h"

enum {
    KEEPERS_SHOWN = 6,
    KEEPERS_SHARE = 50, /* a fiftieth of the kept bytes, or more */
    ARENAS_SHOWN = 6,
    THREADS_SHOWN = 4
};

/* ---- the parts ---- */

static void line_of(const struct page *p, int64_t bytes, const char *what)
{
    char text[HUMAN_TEXT_BYTES + 4];
    struct buffer b = {0};
    snprintf(text, sizeof text, "%s%s", bytes < 0 ? "-" : "", SIZE(human_magnitude(bytes)));
    page_right(&b, text, 14);
    buffer_printf(&b, "  %s", what);
    page_wrap(p, &b, 16);
}

static const char *part_text(const struct explained *e, enum explain_part part)
{
    static const char *const texts[EXPLAIN_PARTS] = {
        [EXPLAIN_ROUNDING] = "the allocator's rounding up of those blocks",
        [EXPLAIN_HEADERS] = "headers of those blocks",
        [EXPLAIN_FRAGMENTATION] = "free on pages that hold live blocks, too: fragmentation",
        [EXPLAIN_FREE_PAGES] = "whole free pages below live blocks: malloc_trim(3) gives them back",
        [EXPLAIN_TCACHE] =
            "freed chunks in the caches of threads (tcache), which only they get again",
        [EXPLAIN_TOPS] =
            "above the highest live block of each heap: the tops, and what glibc itself keeps",
        [EXPLAIN_UNRECORDED] =
            "where no recorded block ever was: the program's own (sbrk), or blocks made unseen",
        [EXPLAIN_ALLOCATOR] =
            "free memory of the allocator, and anonymous mappings that are not blocks",
        [EXPLAIN_NOT_RESIDENT] = "of all this not resident: never touched, or given back",
        [EXPLAIN_UNTOUCHED] =
            "of blocks with a mapping of their own: never touched, or given back, at least",
        [EXPLAIN_MAPPINGS] = "anonymous mappings that are not blocks",
        [EXPLAIN_STACKS] = "stacks",
        [EXPLAIN_FILES] = "code and data of the program and its libraries",
        [EXPLAIN_MAPPED] = "mapped files that nothing is executed from",
        [EXPLAIN_SHARED] = "shared memory",
        [EXPLAIN_LAZY] = "given back lazily (MADV_FREE): counted until the kernel needs the pages",
        [EXPLAIN_RECORDER] = "the recorder's own",
        [EXPLAIN_OTHER] = "other"};
    if (part == EXPLAIN_UNRECORDED && e->attached)
        return "where no recorded block ever was: blocks from before the recording, most of it";
    return part == EXPLAIN_TOPS && !e->measured_ns ? "" : texts[part];
}

static void print_parts(const struct page *p, const struct explained *e)
{
    struct buffer b = {0};
    buffer_printf(&b, "live in %s block%s (bytes the program had asked for)", COUNT(e->live_blocks),
                  e->live_blocks == 1 ? "" : "s");
    line_of(p, e->parts[EXPLAIN_LIVE], buffer_text(&b));
    buffer_clear(&b);
    for (enum explain_part i = EXPLAIN_LIVE + 1; i < EXPLAIN_PARTS; i++)
        if (e->parts[i])
            line_of(p, e->parts[i], part_text(e, i));
    if (e->measured_ns) {
        const uint64_t program = e->resident_bytes - (uint64_t)e->parts[EXPLAIN_RECORDER];
        const int64_t above = (int64_t)(program - e->live_bytes);
        buffer_printf(&b, "%14s", SIZE(e->resident_bytes));
        buffer_printf(&b, "  resident; without the recorder's own %s %s live",
                      SIZE(human_magnitude(above)), above < 0 ? "below" : "above");
        page_wrap(p, &b, 16);
    }
    if (e->huge_bytes)
        line_of(p, (int64_t)e->huge_bytes, "of it in huge pages, which are resident as a whole");
    if (e->hugetlb_bytes)
        line_of(p, (int64_t)e->hugetlb_bytes,
                "of it in HugetlbPages, which the kernel does not count as resident");
    if (e->forked_bytes) {
        line_of(p, (int64_t)e->forked_bytes,
                "of it in pages that other processes have as well, since a fork: each counts them");
        line_of(p, (int64_t)e->proportional_bytes,
                "with each shared page divided among the processes that have it");
    }
    if (e->swapped_bytes)
        line_of(p, (int64_t)e->swapped_bytes, "swapped out, not counted here");
    buffer_release(&b);
}

/* ---- by arena ---- */

static uint64_t arena_free(const struct pinned_arena *a, bool main)
{
    const uint64_t used = a->live_bytes + a->header_bytes,
                   extent = main ? a->span_bytes : a->extent_bytes;
    return extent > used ? extent - used : 0;
}

static void print_threads(struct buffer *b, const struct trace_image *image, const struct pinned *p,
                          size_t arena)
{
    unsigned shown = 0;
    uint64_t threads = 0;
    for (uint32_t i = 0; i < image->thread_count; i++)
        threads += p->arena_of[i] == arena;
    if (!threads) {
        buffer_append_text(b, "no thread uses it");
        return;
    }
    buffer_append_text(b, threads == 1 ? "thread" : "threads");
    for (uint32_t i = 0; i < image->thread_count && shown < THREADS_SHOWN; i++)
        if (p->arena_of[i] == arena) {
            const char *name = image->threads[i].name;
            buffer_printf(b, "%s %u", shown++ ? "," : "", image->threads[i].tid);
            if (name && *name)
                buffer_printf(b, " %s", name);
        }
    if (threads > shown)
        buffer_printf(b, " and %llu more", (unsigned long long)(threads - shown));
}

struct ranked {
    size_t arena;
    uint64_t free_bytes;
};

static int by_free(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->free_bytes != y->free_bytes)
        return x->free_bytes < y->free_bytes ? 1 : -1;
    return x->arena < y->arena ? -1 : x->arena > y->arena;
}

static void print_arenas(const struct page *p, const struct trace_image *image,
                         const struct pinned *q)
{
    struct buffer b = {0};
    struct ranked *ranked = q->arena_count > 1 ? calloc(q->arena_count, sizeof *ranked) : NULL;
    if (!ranked)
        return;
    for (size_t i = 0; i < q->arena_count; i++)
        ranked[i] = (struct ranked){i, arena_free(&q->arenas[i], i == 0)};
    qsort(ranked, q->arena_count, sizeof *ranked, by_free);
    const size_t known = pinned_known_arenas(q);
    buffer_printf(&b, "   %zu arena%s%s, free + live, by their addresses:", known,
                  known == 1 ? "" : "s", known < q->arena_count ? ", and heaps of others" : "");
    page_wrap(p, &b, 6);
    for (size_t i = 0; i < q->arena_count && i < ARENAS_SHOWN; i++) {
        const struct pinned_arena *a = &q->arenas[ranked[i].arena];
        buffer_printf(&b, "%14s + %s in %s block%s; %llu heap%s; ", SIZE(ranked[i].free_bytes),
                      SIZE(a->live_bytes), COUNT(a->live_blocks), a->live_blocks == 1 ? "" : "s",
                      (unsigned long long)a->heaps, a->heaps == 1 ? "" : "s");
        if (!ranked[i].arena)
            buffer_append_text(&b, "the main arena; ");
        if (a->address == PINNED_ARENA_UNKNOWN)
            buffer_append_text(&b, "of which arenas is not known");
        else
            print_threads(&b, image, q, ranked[i].arena);
        page_wrap(p, &b, 16);
    }
    if (q->arena_count > ARENAS_SHOWN)
        text_printf(p->out, "                and %zu more\n", q->arena_count - ARENAS_SHOWN);
    free(ranked);
    buffer_release(&b);
}

/* ---- whose blocks keep it ---- */

struct keeper { /* stacks with the same frame */
    uint32_t frame;
    struct pinned_stack sums;
};

static uint64_t kept(const struct pinned_stack *s) { return s->pinned_bytes + s->below_bytes; }

static int by_sums(const void *a, const void *b)
{
    const struct keeper *x = a, *y = b;
    if (kept(&x->sums) != kept(&y->sums))
        return kept(&x->sums) < kept(&y->sums) ? 1 : -1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* The stacks by the frame that shows who, what keeps most first. NULL without memory. */
static struct keeper *keepers(const struct pinned *q, struct names *names, size_t *count)
{
    size_t n;
    uint32_t *list = heap_keepers(q, &n);
    uint32_t *frames = malloc((n + 1) * sizeof *frames);
    struct keeper *all = calloc(n + 1, sizeof *all);
    for (size_t i = 0; list && frames && i < n; i++)
        frames[i] = section_site(names, q->stacks.of[list[i]].stack);
    const uint32_t known = names_count(names);
    uint32_t *at = calloc((size_t)known + 1, sizeof *at); /* index + 1; [known]: no frame */
    *count = 0;
    for (size_t i = 0; list && frames && all && at && i < n; i++) {
        const struct pinned_stack *s = &q->stacks.of[list[i]];
        uint32_t *place = &at[frames[i] < known ? frames[i] : known];
        if (!*place) {
            *place = (uint32_t)++ * count;
            all[*place - 1].frame = frames[i];
        }
        struct pinned_stack *sums = &all[*place - 1].sums;
        sums->live_blocks += s->live_blocks;
        sums->live_bytes += s->live_bytes;
        sums->pinned_bytes += s->pinned_bytes;
        sums->below_bytes += s->below_bytes;
    }
    if (!list || !frames || !at) {
        free(all);
        all = NULL;
    }
    if (all && *count)
        qsort(all, *count, sizeof *all, by_sums);
    free(list);
    free(frames);
    free(at);
    return all;
}

static void print_keepers(const struct page *p, const struct explained *e, struct names *names)
{
    struct buffer b = {0};
    size_t count = 0, shown = 0;
    uint64_t sum = 0;
    struct keeper *all = keepers(&e->pinned, names, &count);
    if (!all)
        text_printf(p->out, "   (out of memory: the call sites are missing)\n");
    for (size_t i = 0; all && i < count; i++)
        sum += kept(&all[i].sums);
    if (all && count) {
        buffer_append_text(&b, "   Call sites whose live blocks keep most free bytes");
        if (e->glibc)
            buffer_append_text(&b, ": on their pages + in whole pages below them");
        page_wrap(p, &b, 6);
    }
    for (; all && shown < count && shown < KEEPERS_SHOWN; shown++) {
        const struct pinned_stack *s = &all[shown].sums;
        if (shown && kept(s) * KEEPERS_SHARE < sum)
            break;
        buffer_printf(&b, "%14s", SIZE(s->pinned_bytes));
        if (s->below_bytes)
            buffer_printf(&b, " + %s", SIZE(s->below_bytes));
        buffer_printf(&b, "; %s in %s block%s: ", SIZE(s->live_bytes), COUNT(s->live_blocks),
                      s->live_blocks == 1 ? "" : "s");
        section_print_site(p, &b, names, all[shown].frame);
        page_wrap(p, &b, 16);
    }
    if (count > shown)
        text_printf(p->out, "                and %zu more\n", count - shown);
    free(all);
    buffer_release(&b);
}

/* ---- what would help ---- */

static void put_saving(struct buffer *b, const struct advice *a)
{
    char text[HUMAN_TEXT_BYTES + 8];
    if (a->kind == ADVICE_ALLOCATOR)
        snprintf(text, sizeof text, "?");
    else if (a->saves_bytes || !a->most_bytes)
        snprintf(text, sizeof text, "%s", SIZE(a->saves_bytes));
    else
        snprintf(text, sizeof text, "up to %s", SIZE(a->most_bytes));
    page_right(b, text, 14);
}

static void print_advice(const struct page *p, const struct model *m, const struct explained *e,
                         struct names *names)
{
    struct advice list[ADVICE_MOST];
    const size_t n = explained_advice(m, e, names, list);
    struct buffer b = {0};
    if (n) {
        buffer_append_text(&b, "   What could help, and about what it saves by the addresses "
                               "(mallow advise measures it)");
        page_wrap(p, &b, 6);
    }
    for (size_t i = 0; i < n; i++) {
        const enum advice_kind kind = list[i].kind;
        const char *environment = advice_environment(kind);
        put_saving(&b, &list[i]);
        buffer_printf(&b, "  %s", advice_text(kind));
        if (list[i].saves_address_bytes)
            buffer_printf(&b, " (%s)", SIZE(list[i].saves_address_bytes));
        if (advice_has_site(kind)) {
            buffer_printf(&b, ": %s block%s of ", COUNT(list[i].blocks),
                          list[i].blocks == 1 ? "" : "s");
            section_print_site(p, &b, names, section_site(names, list[i].stack));
        }
        if (environment)
            buffer_printf(&b, ": %s", environment);
        if (kind == ADVICE_POOL && !list[i].saves_bytes)
            buffer_append_text(&b, "; the rest of the heap may give its pages back on "
                                   "malloc_trim(0) only");
        page_wrap(p, &b, 16);
    }
    buffer_release(&b);
}

/* ---- a moment ---- */

/* "479.1 us after" */
static void distance(struct buffer *b, uint64_t from_ns, uint64_t to_ns)
{
    buffer_printf(b, "%s %s", TIME(to_ns > from_ns ? to_ns - from_ns : from_ns - to_ns),
                  to_ns >= from_ns ? "after" : "before");
}

static void print_heading(const struct page *p, const struct trace_image *image,
                          const struct explained *e)
{
    static const char *const where[EXPLAIN_FOUR] = {"at the peak", "at the largest RSS",
                                                    "at the largest gap", "at the end"};
    static const char *const what[EXPLAIN_MARK + 1] = {[EXPLAIN_PEAK] = "the peak",
                                                       [EXPLAIN_RSS] = "the largest sample",
                                                       [EXPLAIN_END] = "the end",
                                                       [EXPLAIN_TIME] = "it",
                                                       [EXPLAIN_MARK] = "it"};
    const struct explain_moment *o = &e->moment;
    struct buffer b = {0};
    buffer_append_text(&b, "Resident against live ");
    if (o->at == EXPLAIN_MARK)
        buffer_printf(&b, "at the mark '%s'", o->label);
    else if (o->at == EXPLAIN_TIME)
        buffer_printf(&b, "%s into the recording", TIME(o->time_ns));
    else
        buffer_append_text(&b, where[o->at]);
    for (enum explain_at i = 0; i < EXPLAIN_FOUR; i++)
        if (o->also & 1u << i)
            buffer_printf(&b, "%s %s", o->also >> i > 1 ? "," : " and", where[i]);
    page_heading(p, "%s", buffer_text(&b));
    buffer_clear(&b);
    if (o->split == EXPLAIN_NONE) {
        buffer_append_text(&b, "   No measurement was made ");
        if (o->nearest == EXPLAIN_NONE) {
            buffer_append_text(&b, "at any time");
        } else {
            buffer_append_text(&b, "then; the nearest was ");
            distance(&b, o->time_ns, image->splits[o->nearest].clock);
            buffer_append_text(&b, " this moment");
        }
        buffer_append_text(&b, ". The addresses alone show:");
    } else {
        buffer_append_text(&b, "   measured ");
        distance(&b, image->start_ns, e->measured_ns);
        buffer_append_text(&b, " the start");
        if (what[o->at] && e->measured_ns != o->time_ns) {
            buffer_append_text(&b, ", ");
            distance(&b, o->time_ns, e->measured_ns);
            buffer_printf(&b, " %s", what[o->at]);
        }
    }
    page_wrap(p, &b, 3);
}

static void print_unknown(const struct page *p, const struct trace_image *image,
                          const struct explained *e)
{
    struct buffer b = {0};
    if (!e->pinned.unknown_version)
        return;
    buffer_printf(&b,
                  "   mallow does not know the caches and fastbins of %s: the other parts include "
                  "their memory",
                  image->allocator);
    page_wrap(p, &b, 6);
}

void section_explained(const struct page *p, const struct model *m,
                       const struct explained_list *list, struct names *names)
{
    const struct trace_image *image = model_image(m);
    for (size_t i = 0; i < list->count; i++) {
        const struct explained *e = &list->items[i];
        print_heading(p, image, e);
        print_parts(p, e);
        print_unknown(p, image, e);
        if (e->glibc)
            print_arenas(p, image, &e->pinned);
        print_keepers(p, e, names);
        print_advice(p, m, e, names);
    }
}
