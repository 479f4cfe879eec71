/* tree.c - Prints call sites and their callers as a tree, level by level. Callers with small
 * shares are summed up in one line, and a recursion is one line with a count. */
#include "report/tree.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/group.h"
#include "base/text.h"
#include "symbol/spelling.h"

#define WIDE      120u /* columns of a page from which on a call site has one more figure */
#define CHILDREN  5u   /* callers shown of one function */
#define CUT_SHARE 100  /* callers with less than 1/100 of the whole are not shown one by one */

struct tree {
    const struct page *page;
    const struct model *model;
    struct names *names;
    struct frame_source source;
    enum metric by;
    uint64_t whole;
    unsigned depth;
    struct error *err;
};

static void amount(struct buffer *b, enum metric by, const struct figures *f)
{
    uint64_t v = figures_metric(f, by);
    if (by == BY_TEMPORARY || by == BY_CALLS)
        buffer_append_text(b, COUNT(v));
    else
        buffer_append_text(b, SIZE(v));
}

static void print_frame(const struct tree *t, const char *prefix, const char *before,
                        uint32_t frame)
{
    struct buffer line = {0};
    buffer_append_text(&line, prefix);
    buffer_append_text(&line, before);
    size_t used = text_columns(buffer_text(&line));
    if (frame == NO_FRAME)
        buffer_append_text(&line, "(outermost frame)");
    else
        page_frame(t->page, &line, names_frame(t->names, frame),
                   t->page->columns > used ? t->page->columns - used : 0);
    page_line(t->page, &line);
}

#define CHAIN_SHARE 1000 /* less than this beside one caller does not make it a branch */

/* A frame of a chain that was not printed yet: a recursion is one line. */
struct held {
    uint32_t frame;
    unsigned times;
};

static void print_held(const struct tree *t, const char *prefix, struct held *h)
{
    if (h->times > 1) {
        char before[HUMAN_TEXT_BYTES + 8];
        snprintf(before, sizeof before, "%s times ", COUNT(h->times));
        print_frame(t, prefix, before, h->frame);
    } else if (h->times) {
        print_frame(t, prefix, "", h->frame);
    }
    h->times = 0;
}

/* There are callers further out, which are not shown. */
static void print_deeper(const struct tree *t, const char *prefix)
{
    struct buffer line = {0};
    buffer_append_text(&line, prefix);
    buffer_append_text(&line, t->page->unicode ? "\u2026" : "...");
    page_line(t->page, &line);
}

static int callers(const struct tree *t, const char *prefix, struct group_cursor *cursors,
                   size_t count, unsigned level);

/* One of several callers, and its own below it. */
static int branch(const struct tree *t, const char *prefix, struct group_cursor *cursors,
                  const struct group *g, bool last, unsigned level)
{
    int status = 0;
    struct buffer before = {0}, below = {0};
    buffer_append_text(&before, t->page->unicode ? last ? "\u2514 " : "\u251c "
                                : last           ? "` "
                                                 : "|-");
    page_percent(&before, figures_metric(&g->figures, t->by), t->whole);
    buffer_append_text(&before, "  ");
    print_frame(t, prefix, buffer_text(&before), g->frame);
    buffer_append_text(&below, prefix);
    buffer_append_text(&below, last ? " " : t->page->unicode ? "\u2502" : "|");
    buffer_append_text(&below, "          ");
    if (g->frame != NO_FRAME)
        status = callers(t, buffer_text(&below), cursors + g->first, g->count, level + 1);
    buffer_release(&before);
    buffer_release(&below);
    return status;
}

/* The n callers of one frame, of which those are shown that matter. */
static int branches(const struct tree *t, const char *prefix, struct group_cursor *cursors,
                    const struct group *groups, long n, unsigned level)
{
    int status = 0;
    long shown = 0;
    uint64_t rest = 0;
    while (shown < n && shown < (long)CHILDREN && level < t->depth &&
           figures_metric(&groups[shown].figures, t->by) >= t->whole / CUT_SHARE)
        shown++;
    for (long i = shown; i < n; i++)
        rest += figures_metric(&groups[i].figures, t->by);
    const bool say_rest = !shown || rest >= t->whole / (2 * CHAIN_SHARE);
    for (long i = 0; i < shown && !status; i++)
        status = branch(t, prefix, cursors, &groups[i], i + 1 == shown && (shown == n || !say_rest),
                        level);
    if (shown < n && say_rest && !status) {
        struct buffer line = {0};
        buffer_append_text(&line, prefix);
        buffer_append_text(&line, t->page->unicode ? "\u2514 " : "` ");
        page_percent(&line, rest, t->whole);
        buffer_printf(&line, "  from %ld %s%s", n - shown, shown ? "other " : "",
                      n - shown == 1 ? "caller" : "callers");
        page_line(t->page, &line);
    }
    return status;
}

/* The callers of cursors that all stand at one frame, `level` frames from the site. */
static int callers(const struct tree *t, const char *prefix, struct group_cursor *cursors,
                   size_t count, unsigned level)
{
    struct held held = {NO_FRAME, 0};
    for (;;) {
        struct group *groups;
        long n = group_callers(t->model, &t->source, t->by, cursors, count, &groups, t->err);
        uint64_t beside = 0; /* the first */
        for (long i = 1; i < n; i++)
            beside += figures_metric(&groups[i].figures, t->by);
        const bool one = n > 0 && beside < t->whole / CHAIN_SHARE + (n == 1);
        if (one) { /* the calls from elsewhere are too few to be shown */
            cursors += groups[0].first;
            count = groups[0].count;
        }
        if (one && held.times && groups[0].frame == held.frame && groups[0].frame != NO_FRAME &&
            held.times < model_image(t->model)->stacks + 256) {
            held.times++;
            free(groups);
            continue;
        }
        print_held(t, prefix, &held);
        if (n < 0)
            return -1;
        if (n == 0) {
            free(groups);
            return 0;
        }
        if (one) { /* one caller: no deeper */
            uint32_t frame = groups[0].frame;
            free(groups);
            if (frame == NO_FRAME)
                return 0;
            if (level++ >= t->depth) {
                print_deeper(t, prefix);
                return 0;
            }
            held = (struct held){frame, 1};
            continue;
        }
        const int status = branches(t, prefix, cursors, groups, n, level);
        free(groups);
        return status;
    }
}

/* The frame that the call site called, when it is machinery: NO_FRAME for the allocation itself. Of
 * an interpreter, which every script calls, the function that made the object. */
static uint32_t called(const struct tree *t, const struct group_cursor *c)
{
    uint32_t before = NO_FRAME, inner = NO_FRAME;
    for (struct names_walk w = {.node = c->stack}; names_next(t->names, &w);) {
        if (w.node == c->node && w.position == c->position)
            return before != NO_FRAME && names_frame(t->names, before)->role == ROLE_INTERPRETER
                       ? inner
                       : before;
        before = w.id;
        if (inner == NO_FRAME && names_frame(t->names, before)->role != ROLE_ALLOCATOR)
            inner = before;
    }
    return NO_FRAME;
}

struct via {
    const char *function;
    uint64_t weight;
};

/* The functions that the stacks of a site called, the most first. Returns how many functions there
 * are. */
static size_t called_by(const struct tree *t, const struct group_cursor *cursors, size_t count,
                        struct via *list, size_t room)
{
    size_t n = 0;
    for (size_t i = 0; t->source.site && i < count; i++) {
        const uint32_t frame = called(t, &cursors[i]);
        size_t k = 0;
        if (frame == NO_FRAME)
            continue;
        struct figures f = {0};
        const char *function = names_frame_brief(names_frame(t->names, frame));
        figures_add(&f, model_stack_of(model_stacks(t->model), cursors[i].stack));
        while (k < n && strcmp(list[k].function, function) != 0)
            k++;
        if (k == n && n < room)
            list[n++] = (struct via){function, 0};
        if (k == n)
            continue;
        list[k].weight += figures_metric(&f, t->by);
        for (; k && list[k].weight > list[k - 1].weight; k--) {
            const struct via more = list[k];
            list[k] = list[k - 1];
            list[k - 1] = more;
        }
    }
    return n;
}

/* "via xmalloc, operator new": what the site called, where that allocates on its behalf. */
static void via(const struct tree *t, const struct group_cursor *cursors, size_t count, size_t used,
                struct buffer *b)
{
    enum { FEW = 2, LEAST = 24, KNOWN = 32 };
    struct via list[KNOWN];
    const size_t n = called_by(t, cursors, count, list, KNOWN), shown = n < FEW ? n : FEW;
    const char *dots = t->page->unicode ? "\u2026" : "...";
    size_t room = t->page->columns > used + 8 ? t->page->columns - used - 8 : 0;
    room = !t->page->columns ? SIZE_MAX : shown ? room / shown : 0; /* 0: never cut */
    for (size_t i = 0; i < shown; i++) {
        buffer_append_text(b, i ? ", " : "  via ");
        spelling_fit(list[i].function, room > LEAST ? room : LEAST, dots, b);
    }
    if (n > shown)
        buffer_printf(b, ", %s", dots);
}

static void site_figures(const struct tree *t, const struct group *g, unsigned number)
{
    const struct figures *f = &g->figures;
    struct buffer b = {0};
    buffer_printf(&b, "%2u ", number);
    struct buffer a = {0};
    amount(&a, t->by, f);
    page_right(&b, buffer_text(&a), 10);
    buffer_release(&a);
    buffer_append_char(&b, ' ');
    page_percent(&b, figures_metric(f, t->by), t->whole);
    buffer_append_text(&b, "  ");
    if (t->by == BY_PEAK)
        buffer_printf(&b, "in %s block%s; ", COUNT(f->peak_blocks), f->peak_blocks == 1 ? "" : "s");
    else
        buffer_printf(&b, "peak %s; ", SIZE(f->peak_bytes));
    if (t->by == BY_END)
        buffer_printf(&b, "in %s block%s; ", COUNT(f->end_blocks), f->end_blocks == 1 ? "" : "s");
    else
        buffer_printf(&b, "end %s; ", SIZE(f->end_bytes));
    buffer_printf(&b, "allocated %s in %s call%s", SIZE(f->allocated_bytes), COUNT(f->calls),
                  f->calls == 1 ? "" : "s");
    if (t->page->columns >= WIDE && f->calls > 1)
        buffer_printf(&b, " of %s on average", SIZE(figures_mean(f)));
    if (f->temporary && f->calls)
        buffer_printf(&b, ", %.0f %% temporary", 100.0 * (double)f->temporary / (double)f->calls);
    page_wrap(t->page, &b, 24);
}

/* The sites without those that are known: cursors at call sites, grouped; the whole of the metric.
 * Returns the number of groups. */
static long unknown_sites(struct tree *t, struct known *known, struct group_cursor **cursors,
                          struct group **groups, uint64_t *all_stacks)
{
    long n = group_start(t->model, cursors, t->err);
    if (n < 0)
        return -1;
    long kept = 0;
    for (long i = 0; i < n; i++) {
        struct figures f = {0};
        struct suppression *s = known_stack(known, (*cursors)[i].stack);
        figures_add(&f, model_stack_of(model_stacks(t->model), (*cursors)[i].stack));
        if (s) {
            known_count(known, s, f.end_blocks, f.end_bytes);
            continue;
        }
        t->whole += figures_metric(&f, t->by);
        *all_stacks += figures_metric(&f, t->by) != 0;
        (*cursors)[kept++] = (*cursors)[i];
    }

    group_to_sites(&t->source, *cursors, (size_t)kept);
    return group_frames(t->model, &t->source, t->by, *cursors, (size_t)kept, groups, t->err);
}

/* The call sites by the metric, and its whole. Returns the number of groups. */
static long sites_of(struct tree *t, struct group_sites *sites, struct group **groups,
                     uint64_t *all_stacks)
{
    if (group_sites_make(sites, t->model, &t->source, t->err))
        return -1;
    t->whole = figures_metric(&sites->whole, t->by);
    *all_stacks = sites->stacks[t->by];
    return group_sites_by(sites, t->by, groups, t->err);
}

static struct tree plant(const struct page *p, const struct model *m, struct names *names,
                         const struct report_options *o, enum metric by, struct error *err)
{
    return (struct tree){.page = p,
                         .model = m,
                         .names = names,
                         .source = names_source(names, o->all_frames),
                         .by = by,
                         .depth = o->depth ? o->depth : 8,
                         .err = err};
}

static void heading(const struct tree *t, const char *title, long shown, long n, uint64_t stacks)
{
    struct buffer whole = {0};
    char a[HUMAN_TEXT_BYTES], b[HUMAN_TEXT_BYTES];
    struct figures f = {.peak_bytes = t->whole,
                        .end_bytes = t->whole,
                        .allocated_bytes = t->whole,
                        .temporary = t->whole,
                        .calls = t->whole};
    amount(&whole, t->by, &f);
    human_count(a, (uint64_t)n);
    human_count(b, stacks);
    if (shown < n)
        page_heading(t->page, "%s: %s; %ld of %s call sites, %s stacks", title, buffer_text(&whole),
                     shown, a, b);
    else
        page_heading(t->page, "%s: %s; %s call site%s, %s stack%s", title, buffer_text(&whole), a,
                     n == 1 ? "" : "s", b, stacks == 1 ? "" : "s");
    buffer_release(&whole);
}

/* A call site and its callers. cursors: of its stacks, which will be reordered. */
static int print_site(const struct tree *t, const struct group *g, unsigned number,
                      struct group_cursor *cursors)
{
    const struct page *p = t->page;
    struct buffer line = {0};
    site_figures(t, g, number);
    buffer_append_text(&line, "   ");
    if (g->frame == NO_FRAME)
        buffer_append_text(&line, "(no stack recorded)");
    else
        page_frame(p, &line, names_frame(t->names, g->frame), p->columns > 3 ? p->columns - 3 : 0);
    via(t, cursors, g->count, text_columns(buffer_text(&line)), &line);
    page_line(p, &line);
    return g->frame == NO_FRAME ? 0 : callers(t, "     ", cursors, g->count, 1);
}

int tree_print(const struct page *p, const struct model *m, struct names *names,
               const struct report_options *o, struct group_sites *sites, enum metric by,
               uint64_t top, struct known *known, const char *title, struct error *err)
{
    struct tree t = plant(p, m, names, o, by, err);
    struct group_cursor *own = NULL;
    struct group *groups = NULL;
    uint64_t stacks = 0;
    long n = known ? unknown_sites(&t, known, &own, &groups, &stacks)
                   : sites_of(&t, sites, &groups, &stacks);
    const struct group_cursor *cursors = known ? own : sites->cursors;
    int status = n < 0 ? -1 : 0;
    if (n > 0) {
        long shown = (uint64_t)n < top ? n : (long)top;
        heading(&t, title, shown, n, stacks);
        for (long i = 0; i < shown && !status; i++) {
            const struct group *g = &groups[i];
            struct group_cursor *copy = malloc(g->count * sizeof *copy);
            if (copy)
                memcpy(copy, cursors + g->first, g->count * sizeof *copy);
            status = copy ? print_site(&t, g, (unsigned)i + 1, copy)
                          : error_memory_for(err, "the callers of a call site");
            free(copy);
        }
    }
    free(groups);
    free(own);
    return status;
}

int tree_list(const struct page *p, const struct model *m, struct names *names,
              const struct report_options *o, struct group_sites *sites, enum metric by,
              uint64_t top, const char *title, struct error *err)
{
    struct tree t = plant(p, m, names, o, by, err);
    struct group *groups = NULL;
    uint64_t stacks = 0;
    long n = sites_of(&t, sites, &groups, &stacks);
    if (n > 0) {
        long shown = (uint64_t)n < top ? n : (long)top;
        heading(&t, title, shown, n, stacks);
        for (long i = 0; i < shown; i++) {
            struct buffer line = {0}, a = {0};
            buffer_append_text(&line, "   ");
            amount(&a, by, &groups[i].figures);
            page_right(&line, buffer_text(&a), 10);
            buffer_append_char(&line, ' ');
            page_percent(&line, figures_metric(&groups[i].figures, by), t.whole);
            buffer_append_text(&line, "  ");
            if (groups[i].frame == NO_FRAME)
                buffer_append_text(&line, "(no stack recorded)");
            else
                page_frame(p, &line, names_frame(names, groups[i].frame),
                           p->columns > 24 ? p->columns - 24 : 0);
            page_line(p, &line);
            buffer_release(&a);
            buffer_release(&line);
        }
    }
    free(groups);
    return n < 0 ? -1 : 0;
}
