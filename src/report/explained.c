/* explained.c - see explained.h: the pass. */
#include "report/explained.h"

#include <stdlib.h>
#include <string.h>

#include "base/human.h"
#include "report/beside.h"
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
    error_set(err, ERROR_USAGE,
              "--at: '%s' is not peak, rss, gap or end, not a time such as 1.5s, and not a mark; "
              "the recording has %s%s",
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
    return error_set(err, ERROR_USAGE,
                     "--at: nothing ran at '%s'; the recording's processes ran from %s to %s",
                     wish->label, TIME(first), TIME(last));
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

/* A look of the pass: each moment, and each measurement. */
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

/* The times that are looked at, the findings there, and the call sites that were asked for. */
struct explained_search {
    struct explained_pass of;
    struct explained_asked asked;
    struct explained_list *list;
    const struct trace_image *image;
    bool known; /* there is nothing to be read: it was in the index */
    struct look looks[2 * EXPLAIN_MOST];
    uint64_t times[2 * EXPLAIN_MOST], trims[2 * EXPLAIN_MOST];
    struct pinned results[2 * EXPLAIN_MOST];
    struct advice_found found[2 * EXPLAIN_MOST];
};

static uint32_t ask_site(void *arg, uint32_t stack)
{
    struct explained_search *x = arg;
    explained_ask(&x->asked, stack);
    return section_site(x->of.names, stack);
}

static int visit(void *arg, size_t moment, const struct pinned *p,
                 const struct pinned_block *blocks, size_t count, struct error *err)
{
    struct explained_search *x = arg;
    const struct advice_sites sites = {ask_site, x};
    (void)err;
    advice_sites_find(x->image, p, blocks, count, &sites, x->trims[moment], &x->found[moment]);
    return 0;
}

static int read_image(struct explained_search *x, struct error *err)
{
    struct pinned_reader *r = pinned_new(x->image, x->times, x->results, x->of.count, true, err);
    if (r)
        pinned_watch(r, visit, x);
    return pinned_read(r, x->of.t, x->of.image, err);
}

size_t explained_looks(const struct explained_search *x, const uint64_t **times_ns)
{
    *times_ns = x->times;
    return x->known ? 0 : x->of.count;
}

int explained_look(struct explained_search *x, size_t look, struct pinned_reader *r,
                   const struct pinned *p, const struct pinned_block *blocks, size_t count,
                   struct error *err)
{
    const int status = visit(x, look, p, blocks, count, err);
    x->results[look] = pinned_take(r);
    return status;
}

/* For a moment that was asked for, both states were found: the measurement's stands for it, or not.
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

struct explained_search *explained_begin(struct trace *t, uint32_t image, const struct model *m,
                                         const struct report_options *o, struct names *names,
                                         struct explained_list *list, struct error *err)
{
    struct explain_wish wish;
    struct explain_moment moments[EXPLAIN_MOST];
    struct explained_search *x = calloc(1, sizeof *x);
    memset(list, 0, sizeof *list);
    if (!x) {
        error_memory(err);
        return NULL;
    }
    x->list = list;
    x->image = model_image(m);
    x->known = true;
    x->of = (struct explained_pass){.t = t,
                                    .image = image,
                                    .names = names,
                                    .times_ns = x->times,
                                    .trim_bytes = x->trims,
                                    .results = x->results,
                                    .found = x->found};
    if (selection_any(&o->select, SELECTION_BLOCKS))
        return x;
    if (explained_wish(o->at, trace_info(t), &wish, err)) {
        free(x);
        return NULL;
    }
    list->count = explain_choose(m, &wish, moments);
    for (size_t i = 0; i < list->count; i++)
        list->items[i].moment = moments[i];
    x->of.count = looks_of(x->image, list, x->looks);
    for (size_t i = 0; i < x->of.count; i++) {
        x->times[i] = x->looks[i].time_ns;
        x->trims[i] = advice_trim_bytes(model_threshold(m), x->looks[i].time_ns);
    }
    if (x->of.count && !explained_kept(&x->of)) {
        x->known = false;
        x->asked.bits = calloc(x->image->stacks / 8 + 1, 1);
    }
    return x;
}

/* Gives the findings to their moments. */
static void distribute(struct explained_search *x)
{
    struct explained_list *list = x->list;
    struct pinned here[EXPLAIN_MOST];
    memset(here, 0, sizeof here);
    for (size_t i = 0; i < x->of.count; i++) {
        const struct look *look = &x->looks[i];
        struct explained *e = &list->items[look->item];
        const bool its = look->measurement || e->moment.split == EXPLAIN_NONE;
        *(its ? &e->pinned : &here[look->item]) = x->results[i];
        if (look->measurement)
            e->found = x->found[i];
    }
    for (size_t i = 0; i < list->count; i++) {
        struct explained *e = &list->items[i];
        if (e->moment.at >= EXPLAIN_FOUR && e->moment.split != EXPLAIN_NONE)
            settle(x->image, e, &here[i]);
        explain_parts(x->image, e);
    }
}

void explained_end(struct explained_search *x, bool done)
{
    if (!x)
        return;
    if (!done) {
        for (size_t i = 0; i < x->of.count; i++)
            pinned_release(&x->results[i]);
        x->list->count = 0;
        explained_forget(&x->asked);
    } else {
        if (!x->known)
            explained_keep(&x->of, &x->asked);
        distribute(x);
    }
    free(x);
}

int explained_find(struct trace *t, uint32_t image, const struct model *m,
                   const struct report_options *o, struct names *names, struct explained_list *list,
                   struct error *err)
{
    struct explained_search *x = explained_begin(t, image, m, o, names, list, err);
    const int status = !x ? -1 : x->known ? 0 : read_image(x, err);
    explained_end(x, !status);
    return status;
}

/* ---- beside something else ---- */

struct explaining {
    struct trace *t;
    uint32_t image;
    const struct model *m;
    const struct report_options *o;
    struct names *names, *apart;
    struct explained_list *list;
    struct beside beside;
    int status;
    struct error err;
};

static void explain(void *arg)
{
    struct explaining *e = arg;
    e->status = explained_find(e->t, e->image, e->m, e->o, e->apart, e->list, &e->err);
    if (!e->status && names_failed(e->apart))
        e->status = error_memory_for(&e->err, "the names of call sites");
}

struct explaining *explaining_begin(struct trace *t, uint32_t image, const struct model *m,
                                    const struct report_options *o, struct names *names,
                                    struct explained_list *list, struct error *err)
{
    struct explaining *e = malloc(sizeof *e);
    struct names *apart = names_again(names, err);
    if (!e || !apart) {
        free(e);
        names_free(apart);
        error_memory(err);
        return NULL;
    }
    *e = (struct explaining){t, image, m, o, .names = names, .apart = apart, .list = list};
    beside_begin(&e->beside, t, explain, e);
    return e;
}

/* Findings know call sites by the numbers of the names that found them. */
int explaining_end(struct explaining *e, struct error *err)
{
    beside_end(&e->beside);
    const int status = e->status;
    if (status)
        *err = e->err;
    for (size_t i = 0; i < e->list->count && !status; i++)
        explained_number_sites(&e->list->items[i].found, e->names);
    explaining_drop(e);
    return status;
}

void explaining_drop(struct explaining *e)
{
    if (!e)
        return;
    beside_wait(&e->beside);
    names_free(e->apart);
    free(e);
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
