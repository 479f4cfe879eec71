/* keep.c - Writes a finished model into the index of its recording, and reads it back. A model
 * from the index is used only if its columns add up to its totals; otherwise the events are read
 * again. */
#include "model/keep.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/words.h"
#include "model/state.h"

enum { COUNTS_OF = 3 }; /* stacks, stacks that mapped, steps of the threshold */

/* Columns. Those of stacks follow the one of their ids, in the order of the tables below. */
enum {
    COLUMN_COUNTS = 2,
    COLUMN_FACTS = 3,
    COLUMN_STACKS = 4,
    COLUMN_MAPPED = 12,
    COLUMN_STEPS = 17 /* times, and 18 bytes */
};

#define FIELD(type, field) offsetof(struct type, field)
static const size_t stack_fields[] = {
    FIELD(model_stack, calls),      FIELD(model_stack, allocated_bytes),
    FIELD(model_stack, live_bytes), FIELD(model_stack, live_blocks),
    FIELD(model_stack, peak_bytes), FIELD(model_stack, peak_blocks),
    FIELD(model_stack, temporary)};
static const size_t mapped_fields[] = {FIELD(mapped_stack, calls), FIELD(mapped_stack, bytes),
                                       FIELD(mapped_stack, live_bytes),
                                       FIELD(mapped_stack, peak_bytes)};
enum {
    STACK_FIELDS = sizeof stack_fields / sizeof *stack_fields,
    MAPPED_FIELDS = sizeof mapped_fields / sizeof *mapped_fields
};
_Static_assert(COLUMN_STACKS + STACK_FIELDS < COLUMN_MAPPED, "columns of stacks");
_Static_assert(COLUMN_MAPPED + MAPPED_FIELDS < COLUMN_STEPS, "columns of mappings");

static uint64_t *kept_field(void *of, size_t offset)
{
    return (uint64_t *)(void *)((char *)of + offset);
}

static uint64_t value(const void *of, size_t offset)
{
    uint64_t v;
    memcpy(&v, (const char *)of + offset, sizeof v);
    return v;
}

static bool has_any(const struct model_stack *s)
{
    return s->calls || s->allocated_bytes || s->live_bytes || s->live_blocks || s->peak_bytes ||
           s->peak_blocks || s->temporary;
}

/* ---- what both directions ask ---- */

/* True if the sums of the figures of stacks are those of the whole: reports rely on it. */
static bool adds_up(const struct model *m, const uint64_t sums[STACK_FIELDS])
{
    const struct model_totals *t = &m->totals;
    const uint64_t whole[STACK_FIELDS] = {t->allocations, t->requested_bytes, t->live_bytes,
                                          t->live_blocks, t->peak_bytes,      t->peak_blocks,
                                          t->temporary};
    for (size_t i = 0; i < m->bin_count; i++)
        if (m->bins[i].max_live_bytes > t->peak_bytes)
            return false;
    return !memcmp(sums, whole, sizeof whole);
}

static bool model_is_whole(const struct model *m)
{
    uint64_t sums[STACK_FIELDS] = {0}, distinct = 0;
    for (uint32_t i = 1; i <= m->stack_count; i++) {
        for (size_t k = 0; k < STACK_FIELDS; k++)
            sums[k] += value(&m->stacks[i], stack_fields[k]);
        distinct += has_any(&m->stacks[i]);
    }
    return distinct == m->distinct_stacks && adds_up(m, sums);
}

static bool mapped_adds_up(const struct model *m)
{
    size_t n;
    const struct mapped_stack *of = mapped_stacks(m->mapped, &n);
    uint64_t live = 0, peak = 0;
    for (size_t i = 0; i < n; i++) {
        live += of[i].live_bytes;
        peak += of[i].peak_bytes;
    }
    return live == mapped_live_bytes(m->mapped) && peak == mapped_peak_bytes(m->mapped);
}

/* ---- writing ---- */

static void put_model_facts(struct words *w, const struct model *m)
{
    const struct threshold *h = &m->threshold;
    WORDS_PUT(w, &m->totals, 1);
    WORDS_PUT(w, m->counts, COUNTS);
    WORDS_PUT(w, m->bins, m->bin_count);
    for (size_t i = 0; i < m->moment_count; i++) {
        words_put(w, m->moments[i].live_bytes);
        words_put(w, m->moments[i].live_blocks);
        words_put_all(w, m->moments[i].live_usable, MODEL_PLACES);
    }
    WORDS_PUT(w, m->threads, m->image->thread_count);
    const struct model_reallocs *r = &m->reallocs;
    const uint64_t sums[] = {r->resized, r->grown, r->shrunk, r->kept_bytes, r->chains};
    words_put_all(w, sums, sizeof sums / sizeof *sums);
    words_put_all(w, r->by_length, sizeof r->by_length / sizeof *r->by_length);
    for (unsigned i = 0; i < MODEL_CHAINS; i++) {
        const struct model_chain *c = &r->longest[i];
        const uint64_t chain[] = {c->resizes, c->last_bytes, c->chains, c->stack};
        words_put_all(w, chain, sizeof chain / sizeof *chain);
    }
    words_put(w, m->failure_count);
    for (unsigned i = 0; i < MODEL_FAILURES; i++) {
        const struct model_failure *f = &m->failures[i];
        const uint64_t failure[] = {f->time_ns, f->size_bytes, f->stack, f->thread, f->op};
        words_put_all(w, failure, sizeof failure / sizeof *failure);
    }
    const uint64_t threshold[] = {h->doubt, h->start, h->fixed, h->contradiction_bytes,
                                  h->contradiction_ns};
    words_put_all(w, threshold, sizeof threshold / sizeof *threshold);
    const uint64_t mapped[] = {m->mapped != NULL, mapped_live_bytes(m->mapped),
                               mapped_peak_bytes(m->mapped), mapped_peak_time_ns(m->mapped)};
    words_put_all(w, mapped, sizeof mapped / sizeof *mapped);
}

/* Gives the rows of a table, in the order of stacks. The item of the row, and its stack; the first
 * for *at 0. NULL behind the last. */
typedef const void *next_row(const struct model *m, size_t *at, uint32_t *stack);

static const void *next_stack(const struct model *m, size_t *at, uint32_t *stack)
{
    while (*at <= m->image->stacks) {
        *stack = (uint32_t)(*at)++;
        const struct model_stack *s = &m->stacks[m->places[*stack]];
        if (has_any(s))
            return s;
    }
    return NULL;
}

static const void *next_mapped(const struct model *m, size_t *at, uint32_t *stack)
{
    size_t n;
    const struct mapped_stack *of = mapped_stacks(m->mapped, &n);
    if (*at == n)
        return NULL;
    *stack = of[*at].stack;
    return &of[(*at)++];
}

/* A column of differences of the numbers of stacks, and one for each field. Returns how many rows
 * there are. */
static size_t put_kept_table(struct trace_kept *k, unsigned column, const struct model *m,
                             next_row *next, const size_t *fields, unsigned field_count,
                             struct words *w)
{
    const void *item;
    uint32_t stack, last = 0;
    w->n = 0;
    for (size_t at = 0; next(m, &at, &stack);) {
        words_put(w, stack - last);
        last = stack;
    }
    const size_t count = w->n;
    trace_kept_put_numbers(k, column, w->v, count);
    for (unsigned f = 0; f < field_count; f++) {
        w->n = 0;
        for (size_t at = 0; (item = next(m, &at, &stack));)
            words_put(w, value(item, fields[f]));
        trace_kept_put_numbers(k, column + 1 + f, w->v, w->n);
    }
    return count;
}

static void put_steps(struct trace_kept *k, const struct threshold *h, struct words *w)
{
    w->n = 0;
    for (size_t i = 0; i < h->count; i++)
        words_put(w, h->steps[i].time_ns);
    trace_kept_put_numbers(k, COLUMN_STEPS, w->v, w->n);
    w->n = 0;
    for (size_t i = 0; i < h->count; i++)
        words_put(w, h->steps[i].bytes);
    trace_kept_put_numbers(k, COLUMN_STEPS + 1, w->v, w->n);
}

void model_keep(const struct model *m, struct trace *t, uint32_t image)
{
    struct trace_kept *k = trace_kept_new(t, image, TRACE_KEPT_MODEL, 0);
    struct words w = {0};
    if (!k || model_filtered(m) || m->observer || !model_is_whole(m) || !mapped_adds_up(m)) {
        trace_kept_drop(k);
        return;
    }
    put_model_facts(&w, m);
    trace_kept_put_numbers(k, COLUMN_FACTS, w.v, w.n);
    uint64_t counts[COUNTS_OF] = {0, 0, m->threshold.count};
    counts[0] = put_kept_table(k, COLUMN_STACKS, m, next_stack, stack_fields, STACK_FIELDS, &w);
    if (m->mapped)
        counts[1] =
            put_kept_table(k, COLUMN_MAPPED, m, next_mapped, mapped_fields, MAPPED_FIELDS, &w);
    put_steps(k, &m->threshold, &w);
    trace_kept_put_numbers(k, COLUMN_COUNTS, counts, COUNTS_OF);
    if (w.failed)
        trace_kept_drop(k);
    else
        trace_kept_keep(t, k);
    words_release(&w);
}

/* ---- reading ---- */

static void take_reallocs(struct words *w, struct model *m)
{
    struct model_reallocs *r = &m->reallocs;
    r->resized = words_take(w);
    r->grown = words_take(w);
    r->shrunk = words_take(w);
    r->kept_bytes = words_take(w);
    r->chains = words_take(w);
    words_take_all(w, r->by_length, sizeof r->by_length / sizeof *r->by_length);
    for (unsigned i = 0; i < MODEL_CHAINS; i++) {
        struct model_chain *c = &r->longest[i];
        c->resizes = words_take(w);
        c->last_bytes = words_take(w);
        c->chains = words_take(w);
        c->stack = (uint32_t)words_take_at_most(w, m->image->stacks);
    }
}

static void take_failures(struct words *w, struct model *m)
{
    m->failure_count = words_take_at_most(w, MODEL_FAILURES);
    for (unsigned i = 0; i < MODEL_FAILURES; i++) {
        struct model_failure *f = &m->failures[i];
        f->time_ns = words_take(w);
        f->size_bytes = words_take(w);
        f->stack = (uint32_t)words_take_at_most(w, m->image->stacks);
        f->thread = (uint32_t)words_take_at_most(w, m->image->thread_count);
        f->op = (uint8_t)words_take_at_most(w, MLW_OP_COUNT - 1);
        if (i < m->failure_count && f->thread == m->image->thread_count)
            w->failed = true;
    }
}

/* As far as it stands among the facts. */
static void take_threshold(struct words *w, struct threshold *h)
{
    h->doubt = (enum threshold_doubt)words_take_at_most(w, THRESHOLD_NO_MEMORY - 1);
    h->start = (enum threshold_start)words_take_at_most(w, THRESHOLD_ENVIRONMENT);
    h->fixed = words_take_at_most(w, 1);
    h->contradiction_bytes = words_take(w);
    h->contradiction_ns = words_take(w);
}

static void take_mapped(struct words *w, struct model *m)
{
    const bool any = words_take_at_most(w, 1);
    const uint64_t live = words_take(w), peak = words_take(w), time_ns = words_take(w);
    if (any && !(m->mapped = mapped_restore(m->image->stacks, live, peak, time_ns)))
        w->failed = true;
}

static bool take_model_facts(struct words *w, struct model *m)
{
    WORDS_TAKE(w, &m->totals, 1);
    WORDS_TAKE(w, m->counts, COUNTS);
    WORDS_TAKE(w, m->bins, m->bin_count);
    for (size_t i = 0; i < m->moment_count; i++) {
        m->moments[i].live_bytes = words_take(w);
        m->moments[i].live_blocks = words_take(w);
        words_take_all(w, m->moments[i].live_usable, MODEL_PLACES);
    }
    WORDS_TAKE(w, m->threads, m->image->thread_count);
    take_reallocs(w, m);
    take_failures(w, m);
    take_threshold(w, &m->threshold);
    take_mapped(w, m);
    return words_done(w);
}

/* A table of figures into the items that it names; sums: of each field. */
struct table {
    struct model *m;
    void *(*item)(struct model *m, uint32_t stack); /* NULL: it cannot be */
    const size_t *fields;
    unsigned field_count;
    uint64_t last;
    uint64_t sums[TRACE_KEPT_COLUMNS];
};

static void *stack_item(struct model *m, uint32_t stack) { return model_figures(m, stack); }
static void *mapped_item(struct model *m, uint32_t stack)
{
    return mapped_restored(m->mapped, stack);
}

static bool take_rows(void *arg, size_t row, size_t rows,
                      uint64_t *const values[TRACE_KEPT_COLUMNS])
{
    struct table *t = arg;
    for (size_t i = 0; i < rows; i++) {
        const uint64_t more = values[0][i];
        if (more > t->m->image->stacks - t->last || (row + i && !more))
            return false;
        t->last += more;
        void *const item = t->item(t->m, (uint32_t)t->last);
        if (!item)
            return false;
        for (unsigned f = 0; f < t->field_count; f++) {
            *kept_field(item, t->fields[f]) = values[1 + f][i];
            t->sums[f] += values[1 + f][i];
        }
    }
    return true;
}

static bool take_steps(struct trace_kept *k, struct threshold *h, size_t n)
{
    const size_t least = h->count; /* those of the start */
    uint64_t *times = calloc(2 * n + 1, sizeof *times), *bytes = times + n;
    bool fits = times && n >= least && trace_kept_numbers(k, COLUMN_STEPS, times, n) &&
                trace_kept_numbers(k, COLUMN_STEPS + 1, bytes, n) &&
                (n <= h->room || ARRAY_ROOM(h->steps, n, h->room));
    for (size_t i = 0; i < n && fits; i++) {
        fits = !i || times[i] > times[i - 1];
        h->steps[i] = (struct threshold_step){times[i], bytes[i]};
    }
    h->count = fits ? n : h->count;
    free(times);
    return fits;
}

static bool take_kept_stacks(struct trace_kept *k, struct model *m, size_t n, struct table *t)
{
    *t = (struct table){m, stack_item, stack_fields, STACK_FIELDS, 0, {0}};
    m->distinct_stacks = n;
    return trace_kept_table(k, COLUMN_STACKS, 1 + STACK_FIELDS, n, take_rows, t);
}

static bool take_mappings(struct trace_kept *k, struct model *m, size_t n)
{
    struct table t = {m, mapped_item, mapped_fields, MAPPED_FIELDS, 0, {0}};
    return m->mapped ? trace_kept_table(k, COLUMN_MAPPED, 1 + MAPPED_FIELDS, n, take_rows, &t) &&
                           mapped_adds_up(m)
                     : !n;
}

static bool take_model(struct trace_kept *k, struct model *m)
{
    uint64_t counts[COUNTS_OF];
    struct words w = {0};
    struct table t;
    const uint64_t facts = trace_kept_count(k, COLUMN_FACTS);
    /* More than can be are not looked at. */
    const uint64_t most = sizeof m->totals / sizeof(uint64_t) + 2 * COUNTS + 4 * m->bin_count +
                          (2 + MODEL_PLACES) * m->moment_count +
                          m->image->thread_count * (sizeof *m->threads / sizeof(uint64_t)) + 1024;
    if (facts > most || !trace_kept_numbers(k, COLUMN_COUNTS, counts, COUNTS_OF) ||
        counts[0] > (uint64_t)m->image->stacks + 1 || counts[1] > (uint64_t)m->image->stacks + 1 ||
        counts[2] > 1u << 20 || !words_make(&w, (size_t)facts))
        return false;
    const bool fits = trace_kept_numbers(k, COLUMN_FACTS, w.v, w.n) && take_model_facts(&w, m) &&
                      take_kept_stacks(k, m, (size_t)counts[0], &t) && adds_up(m, t.sums) &&
                      take_mappings(k, m, (size_t)counts[1]) &&
                      take_steps(k, &m->threshold, (size_t)counts[2]);
    words_release(&w);
    return fits;
}

struct model *model_kept(struct trace *t, uint32_t image)
{
    struct error ignored;
    struct trace_kept *k = trace_kept_find(t, image, TRACE_KEPT_MODEL, 0);
    struct model *m = k ? model_new(&trace_info(t)->images[image], NULL, &ignored) : NULL;
    if (m && !take_model(k, m)) {
        model_free(m);
        m = NULL;
    }
    trace_kept_close(k);
    if (m)
        model_settled(m);
    return m;
}
