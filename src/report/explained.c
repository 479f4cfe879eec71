/* explained.c - see explained.h: the pass. */
#include "report/explained.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/explained_keep.h"
#include "report/sections.h"

#define MARK_PREFIX "mark:"

static bool has_mark(const struct trace_info *info, const char *label)
{
    for (uint32_t i = 0; i < info->image_count; i++)
        for (uint32_t k = 0; k < info->images[i].note_count; k++) {
            const struct trace_event_note *n = &info->images[i].event_notes[k];
            if (!n->control && n->label && !strcmp(n->label, label))
                return true;
        }
    return false;
}

static int no_such_mark(const struct trace_info *info, const char *label, struct error *err)
{
    struct buffer known = {0};
    for (uint32_t i = 0; i < info->image_count && known.size_bytes < 200; i++)
        for (uint32_t k = 0; k < info->images[i].note_count && known.size_bytes < 200; k++) {
            const struct trace_event_note *n = &info->images[i].event_notes[k];
            if (!n->control && n->label)
                buffer_printf(&known, "%s'%s'", known.size_bytes ? ", " : "", n->label);
        }
    error_set(
        err, ERROR_USAGE,
        "--at: '%s' is none of peak, rss, gap and end, no time such as 1.5s, and no mark; the "
        "recording has %s%s",
        label, known.size_bytes ? "the marks " : "no marks", buffer_text(&known));
    buffer_release(&known);
    return -1;
}

/* A moment at which something ran: of any other there is nothing to explain. */
static int check_time(const struct trace_info *info, const struct explain_wish *wish,
                      struct error *err)
{
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < info->image_count; i++) {
        const struct trace_image *image = &info->images[i];
        first = image->start_ns < first ? image->start_ns : first;
        last = image->end_ns > last ? image->end_ns : last;
    }
    if (!info->image_count || (wish->time_ns >= first && wish->time_ns <= last))
        return 0;
    char from[HUMAN_TEXT_BYTES], to[HUMAN_TEXT_BYTES];
    return error_set(err, ERROR_USAGE,
                     "--at: nothing ran at '%s'; the recording's processes ran from %s to %s",
                     wish->label, human_duration(from, first), human_duration(to, last));
}

int explained_wish(const char *at, const struct trace_info *info, struct explain_wish *wish,
                   struct error *err)
{
    *wish = (struct explain_wish){.at = EXPLAIN_FOUR};
    if (!at)
        return 0;
    for (enum explain_at i = 0; i < EXPLAIN_FOUR; i++)
        if (!strcmp(at, explain_at_name(i))) {
            wish->at = i;
            return 0;
        }
    const bool prefixed = !strncmp(at, MARK_PREFIX, sizeof MARK_PREFIX - 1);
    const char *label = prefixed ? at + sizeof MARK_PREFIX - 1 : at;
    if (!prefixed && !has_mark(info, label) && human_parse_duration(at, &wish->time_ns)) {
        wish->at = EXPLAIN_TIME;
        wish->label = at;
        return check_time(info, wish, err);
    }
    if (!has_mark(info, label))
        return no_such_mark(info, label, err);
    wish->at = EXPLAIN_MARK;
    wish->label = label;
    return 0;
}

static bool filters_blocks(const struct report_options *o)
{
    return o->select.min_bytes || o->select.below_bytes || o->select.min_lifetime_ns ||
           o->select.only_new || o->select.thread || o->select.function || o->select.module;
}

/* What the pass looks at: each moment, and each measurement. */
struct look {
    uint64_t time_ns;
    size_t item;
    bool measurement;
};

static int by_time(const void *a, const void *b)
{
    const struct look *x = a, *y = b;
    return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

static size_t looks_of(const struct trace_image *image, const struct explained_list *list,
                       struct look *looks)
{
    size_t n = 0;
    for (size_t i = 0; i < list->count; i++) {
        const struct explain_moment *o = &list->items[i].moment;
        if (o->split != EXPLAIN_NONE)
            looks[n++] = (struct look){image->splits[o->split].clock, i, true};
        if (o->split == EXPLAIN_NONE || o->at >= EXPLAIN_FOUR)
            looks[n++] = (struct look){o->time_ns, i, false};
    }
    qsort(looks, n, sizeof *looks, by_time);
    return n;
}

static uint32_t site_of(void *arg, uint32_t stack) { return section_site(arg, stack); }

/* The pass: what it looks at, what it finds, and which call sites it asked for. */
struct pass {
    struct explained_pass of;
    struct explained_asked asked;
    uint64_t times[2 * EXPLAIN_MOST], trims[2 * EXPLAIN_MOST];
    struct pinned results[2 * EXPLAIN_MOST];
    struct advice_found found[2 * EXPLAIN_MOST];
};

static uint32_t ask_site(void *arg, uint32_t stack)
{
    struct pass *x = arg;
    explained_ask(&x->asked, stack);
    return section_site(x->of.names, stack);
}

static int visit(void *arg, size_t moment, const struct pinned *p,
                 const struct pinned_block *blocks, size_t count, struct error *err)
{
    struct pass *x = arg;
    const struct advice_sites sites = {ask_site, x};
    (void)err;
    advice_sites_find(&trace_info(x->of.t)->images[x->of.image], p, blocks, count, &sites,
                      x->trims[moment], &x->found[moment]);
    return 0;
}

static int read_image(struct pass *x, struct error *err)
{
    struct trace_batch batch;
    struct trace *t = x->of.t;
    struct pinned_reader *r = pinned_new(&trace_info(t)->images[x->of.image], x->times, x->results,
                                         x->of.count, true, err);
    struct trace_cursor *c =
        r ? trace_cursor_open_columns(t, x->of.image, pinned_columns(), err) : NULL;
    int more = c ? 1 : -1;
    if (r)
        pinned_watch(r, visit, x);
    while (more > 0 && (more = trace_cursor_next(c, &batch, err)) > 0)
        more = pinned_add(r, &batch, err);
    trace_cursor_close(c);
    if (more >= 0)
        return pinned_finish(r, err);
    pinned_discard(r);
    return -1;
}

/* From the index, or by reading the image. */
static int find_states(struct pass *x, struct error *err)
{
    if (explained_kept(&x->of))
        return 0;
    x->asked.bits = calloc(trace_info(x->of.t)->images[x->of.image].stacks / 8 + 1, 1);
    const int status = read_image(x, err);
    if (!status)
        explained_keep(&x->of, &x->asked);
    else
        explained_forget(&x->asked);
    return status;
}

/* Of a moment that was asked for, both states were found: the measurement's stands for it, or not.
 * The other has no advice. */
static void settle(const struct trace_image *image, struct explained *e, struct pinned *here)
{
    if (explain_holds(image, &e->moment, here, &e->pinned)) {
        pinned_release(here);
        return;
    }
    e->moment.split = EXPLAIN_NONE;
    pinned_release(&e->pinned);
    e->pinned = *here;
}

int explained_find(struct trace *t, uint32_t image, const struct model *m,
                   const struct report_options *o, struct names *names, struct explained_list *list,
                   struct error *err)
{
    const struct trace_image *of = model_image(m);
    struct explain_wish wish;
    struct explain_moment moments[EXPLAIN_MOST];
    struct look looks[2 * EXPLAIN_MOST];
    struct pinned here[EXPLAIN_MOST];
    struct pass x = {.of = {.t = t,
                            .image = image,
                            .names = names,
                            .times_ns = x.times,
                            .trim_bytes = x.trims,
                            .results = x.results,
                            .found = x.found}};
    memset(list, 0, sizeof *list);
    memset(here, 0, sizeof here);
    if (filters_blocks(o))
        return 0;
    if (explained_wish(o->at, trace_info(t), &wish, err))
        return -1;
    list->count = explain_choose(m, &wish, moments);
    for (size_t i = 0; i < list->count; i++)
        list->items[i].moment = moments[i];
    const size_t n = looks_of(of, list, looks);
    for (size_t i = 0; i < n; i++) {
        x.times[i] = looks[i].time_ns;
        x.trims[i] = advice_trim_bytes(model_threshold(m), looks[i].time_ns);
    }
    x.of.count = n;
    if (!n)
        return 0;
    if (find_states(&x, err)) {
        for (size_t i = 0; i < n; i++)
            pinned_release(&x.results[i]);
        list->count = 0;
        return -1;
    }
    for (size_t i = 0; i < n; i++) {
        struct explained *e = &list->items[looks[i].item];
        *(looks[i].measurement || e->moment.split == EXPLAIN_NONE ? &e->pinned
                                                                  : &here[looks[i].item]) =
            x.results[i];
        if (looks[i].measurement)
            e->found = x.found[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        struct explained *e = &list->items[i];
        if (e->moment.at >= EXPLAIN_FOUR && e->moment.split != EXPLAIN_NONE)
            settle(of, e, &here[i]);
        explain_parts(of, e);
    }
    return 0;
}

size_t explained_advice(const struct model *m, const struct explained *e, struct names *names,
                        struct advice list[ADVICE_MOST])
{
    const struct advice_sites sites = {site_of, names};
    return advice_find(e, model_threshold(m), &sites, list);
}

void explained_release(struct explained_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        pinned_release(&list->items[i].pinned);
    memset(list, 0, sizeof *list);
}
