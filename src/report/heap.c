#include "report/heap.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "report/sections.h"

int heap_find(struct trace *t, uint32_t image, const struct model *m, struct heap_view *h,
              struct error *err)
{
    struct trace_batch batch;
    memset(h, 0, sizeof *h);
    if (model_filtered(m) || model_totals(m)->resets)
        return 0;
    resident_at_peak(m, &h->at);
    if (!h->at.known)
        return 0;
    struct pinned_reader *r = pinned_new(model_image(m), h->at.time_ns, err);
    struct trace_cursor *c = r ? trace_cursor_open_columns(t, image, pinned_columns(), err) : NULL;
    int more = c ? 1 : -1;
    while (more > 0 && (more = trace_cursor_next(c, &batch, err)) > 0)
        more = pinned_add(r, &batch, err);
    trace_cursor_close(c);
    if (more < 0) {
        pinned_discard(r);
        return -1;
    }
    h->known = true;
    return pinned_finish(r, &h->pinned, err);
}

void heap_release(struct heap_view *h)
{
    pinned_release(&h->pinned);
    memset(h, 0, sizeof *h);
}

struct heap_free heap_free_of(const struct heap_view *h, enum pinned_kind kind)
{
    const struct pinned_heap *sum = &h->pinned.sum[kind];
    struct heap_free f = {.free_bytes = kind == PINNED_MAIN    ? h->at.free_main_bytes
                                        : kind == PINNED_ARENA ? h->at.free_arenas_bytes
                                                               : h->at.parts[RESIDENT_ALLOCATOR],
                          .header_bytes = (int64_t)sum->header_bytes,
                          .pinned_bytes = (int64_t)sum->pinned_bytes};
    const int64_t rest = (int64_t)((uint64_t)f.free_bytes - sum->header_bytes - sum->pinned_bytes);
    const int64_t between = (int64_t)sum->between_bytes;
    f.between_bytes = rest < 0 ? 0 : rest < between ? rest : between;
    f.top_bytes = (int64_t)((uint64_t)rest - (uint64_t)f.between_bytes);
    return f;
}

static uint64_t kept(const struct pinned_stack *s) { return s->pinned_bytes + s->below_bytes; }

static const struct pinned_stack *ranked; /* by what the stacks keep; one thread */

static int by_kept(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (kept(&ranked[x]) != kept(&ranked[y]))
        return kept(&ranked[x]) < kept(&ranked[y]) ? 1 : -1;
    return x < y ? -1 : x > y;
}

uint32_t *heap_keepers(const struct heap_view *h, uint32_t stacks, size_t *count)
{
    uint32_t *list = malloc(((size_t)stacks + 1) * sizeof *list);
    *count = 0;
    for (uint32_t i = 0; list && i <= stacks; i++)
        if (kept(&h->pinned.stacks[i]))
            list[(*count)++] = i;
    ranked = h->pinned.stacks;
    if (*count)
        qsort(list, *count, sizeof *list, by_kept);
    return list;
}

/* --- the text --- */

static void part(const struct page *p, int64_t bytes, const char *what)
{
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    if (bytes <= 0)
        return;
    page_right(&b, human_size(n, (uint64_t)bytes), 14);
    buffer_printf(&b, "  %s", what);
    page_wrap(p, &b, 16);
    buffer_release(&b);
}

/* What is free is what is resident less what is live: below nothing when blocks were not touched.
 */
static void print_sum(struct buffer *b, int64_t free_bytes)
{
    char n[HUMAN_TEXT_BYTES];
    if (free_bytes >= 0)
        buffer_printf(b, "%s free or headers", human_size(n, (uint64_t)free_bytes));
    else
        buffer_printf(b, "%s less resident than live, blocks that were never touched",
                      human_size(n, human_magnitude(free_bytes)));
}

static void print_free(const struct page *p, const struct heap_view *h, enum pinned_kind kind)
{
    const struct pinned_heap *sum = &h->pinned.sum[kind];
    const struct heap_free f = heap_free_of(h, kind);
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    if (!sum->live_blocks && f.free_bytes <= 0)
        return;
    if (kind == PINNED_OTHER)
        buffer_append_text(&b, "   Of pages with live blocks");
    else if (kind == PINNED_MAIN)
        buffer_append_text(&b, "   The break's heap: ");
    else
        buffer_printf(&b, "   %llu heap%s of other arenas: ", (unsigned long long)sum->address,
                      sum->address == 1 ? "" : "s");
    if (kind != PINNED_OTHER)
        print_sum(&b, f.free_bytes);
    buffer_printf(&b, "; %s live blocks", human_count(n, sum->live_blocks));
    page_wrap(p, &b, 6);
    buffer_release(&b);
    part(p, f.header_bytes, "headers of live blocks");
    part(p, f.pinned_bytes, "free on pages that hold live blocks, too: nothing gives it back");
    if (kind == PINNED_OTHER)
        return;
    part(p, f.between_bytes, "whole free pages below live blocks: malloc_trim(3) gives them back");
    part(p, f.top_bytes,
         "above the highest live block: the top, and what the allocator itself keeps");
    part(p, -f.top_bytes,
         f.free_bytes < 0
             ? "not resident, of these and of the blocks: not touched yet, or given back"
             : "of these not resident: not touched yet, or given back");
}

struct keeper { /* stacks with the same frame */
    uint32_t frame;
    struct pinned_stack sums;
};

static int by_sums(const void *a, const void *b)
{
    const struct keeper *x = a, *y = b;
    if (kept(&x->sums) != kept(&y->sums))
        return kept(&x->sums) < kept(&y->sums) ? 1 : -1;
    return x->frame < y->frame ? -1 : x->frame > y->frame;
}

/* The stacks by the frame that shows who, what keeps most first. NULL without memory. */
static struct keeper *keepers(const struct heap_view *h, struct names *names, size_t *count)
{
    size_t n;
    uint32_t *list = heap_keepers(h, names_image(names)->stacks, &n);
    uint32_t *frames = malloc((n + 1) * sizeof *frames);
    struct keeper *all = calloc(n + 1, sizeof *all);
    for (size_t i = 0; list && frames && i < n; i++)
        frames[i] = section_site(names, list[i]);
    const uint32_t known = names_count(names);
    uint32_t *at = calloc((size_t)known + 1, sizeof *at); /* index + 1; [known]: no frame */
    *count = 0;
    for (size_t i = 0; list && frames && all && at && i < n; i++) {
        const struct pinned_stack *s = &h->pinned.stacks[list[i]];
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

enum { KEEPERS_SHOWN = 8, KEEPERS_SHARE = 50 /* a fiftieth of what is kept, or more */ };

static void print_line(const struct page *p, const char *text)
{
    struct buffer b = {0};
    buffer_append_text(&b, text);
    page_wrap(p, &b, 6);
    buffer_release(&b);
}

void section_heap(const struct page *p, const struct heap_view *h, struct names *names)
{
    char n[HUMAN_TEXT_BYTES];
    struct buffer b = {0};
    size_t count = 0;
    if (!h->known || !h->pinned.count)
        return;
    page_heading(p, "Free memory of the heap at that moment");
    for (unsigned kind = 0; kind < PINNED_KINDS; kind++)
        if (h->pinned.glibc == (kind != PINNED_OTHER))
            print_free(p, h, (enum pinned_kind)kind);
    struct keeper *all = keepers(h, names, &count);
    if (!all)
        text_printf(p->out, "   (no memory to say whose blocks keep it)\n");
    else if (count)
        print_line(p, h->pinned.glibc
                          ? "   Whose live blocks keep most of it: on their pages + in whole "
                            "pages below them"
                          : "   Whose live blocks keep most of it");
    size_t shown = 0;
    uint64_t kept = 0;
    for (size_t i = 0; all && i < count; i++)
        kept += all[i].sums.pinned_bytes + all[i].sums.below_bytes;
    for (; all && shown < count && shown < KEEPERS_SHOWN; shown++) {
        const struct pinned_stack *s = &all[shown].sums;
        if (shown && (s->pinned_bytes + s->below_bytes) * KEEPERS_SHARE < kept)
            break;
        page_right(&b, human_size(n, s->pinned_bytes), 14);
        if (s->below_bytes)
            buffer_printf(&b, " + %s", human_size(n, s->below_bytes));
        buffer_printf(&b, "; %s in", human_size(n, s->live_bytes));
        buffer_printf(&b, " %s block%s: ", human_count(n, s->live_blocks),
                      s->live_blocks == 1 ? "" : "s");
        section_print_site(p, &b, names, all[shown].frame);
        page_wrap(p, &b, 16);
        buffer_clear(&b);
    }
    if (count > shown)
        text_printf(p->out, "                and %zu more\n", count - shown);
    free(all);
    buffer_release(&b);
}
