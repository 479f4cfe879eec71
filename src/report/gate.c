/* gate.c - Collects the figures of a report for which limits can be set, of each process and in
 * total. A figure that is not known never exceeds a limit. */
#include "report/gate.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/resident.h"
#include "frames/known.h"
#include "frames/names.h"
#include "report/report.h"

static const struct {
    const char *name, *words;
    bool bytes;
} figures[GATE_FIGURES] = {
    [GATE_PEAK] = {"peak", "live at the peak", true},
    [GATE_END] = {"end", "live at the end", true},
    [GATE_ALLOCATED] = {"allocated", "allocated", true},
    [GATE_TEMPORARY] = {"temporary", "temporary allocations", false},
    [GATE_CALLS] = {"calls", "calls that allocate", false},
    [GATE_RSS] = {"rss", "largest resident size", true},
    [GATE_GAP] = {"gap", "resident above live", true},
};

const char *gate_name(enum gate_figure figure) { return figures[figure].name; }
const char *gate_words(enum gate_figure figure) { return figures[figure].words; }
bool gate_in_bytes(enum gate_figure figure) { return figures[figure].bytes; }

enum gate_figure gate_find(const char *name, size_t n)
{
    unsigned f = 0;
    while (f < GATE_FIGURES && (strlen(figures[f].name) != n || memcmp(figures[f].name, name, n)))
        f++;
    return (enum gate_figure)f;
}

static void resident_values(const struct model *m, const struct report_options *o,
                            struct gate_values *v)
{
    const struct trace_image *image = model_image(m);
    size_t moments;
    bool sampled = false, split = false;
    model_moments(m, &moments);
    for (uint32_t i = 0; i < image->resident_count; i++) {
        const struct mlw_resident *r = &image->resident[i];
        if (!selection_has_time(&o->select, r->clock))
            continue;
        sampled = true;
        if (r->rss > v->value[GATE_RSS])
            v->value[GATE_RSS] = r->rss;
    }
    for (size_t i = 0; i < moments; i++) {
        struct resident_view at = {0};
        resident_at(m, i, &at);
        if (!selection_has_time(&o->select, at.time_ns))
            continue;
        split = true;
        const uint64_t all = at.resident_bytes + at.recorder_bytes;
        if (all > v->value[GATE_RSS])
            v->value[GATE_RSS] = all;
        if (at.resident_bytes > at.live_bytes &&
            at.resident_bytes - at.live_bytes > v->value[GATE_GAP])
            v->value[GATE_GAP] = at.resident_bytes - at.live_bytes;
    }
    if (!sampled && !split)
        v->unknown[GATE_RSS] = "the resident size was not measured";
    if (!split)
        v->unknown[GATE_GAP] = "the resident size was not measured by kind of mapping";
    if (selection_any(&o->select, SELECTION_BLOCKS) /* RSS belongs to no block */) {
        v->value[GATE_RSS] = v->value[GATE_GAP] = 0; /* unknown is not above */
        v->unknown[GATE_RSS] = v->unknown[GATE_GAP] =
            "resident memory cannot be split by a filter of blocks";
    }
}

void gate_values_of(const struct model *m, const struct report_options *o, struct gate_values *v)
{
    const struct model_totals *t = model_totals(m);
    *v = (struct gate_values){.value = {[GATE_PEAK] = t->peak_bytes,
                                        [GATE_END] = t->live_bytes,
                                        [GATE_ALLOCATED] = t->requested_bytes,
                                        [GATE_TEMPORARY] = t->temporary,
                                        [GATE_CALLS] = t->allocations}};
    if (model_image(m)->lost_calls)
        for (unsigned i = 0; i < GATE_RSS; i++)
            v->unknown[i] = "calls are missing: the recording lost them";
    resident_values(m, o, v);
}

void gate_values_add(struct gate_values *sum, const struct gate_values *v)
{
    for (unsigned i = 0; i < GATE_FIGURES; i++) {
        sum->value[i] += v->value[i];
        if (!sum->unknown[i])
            sum->unknown[i] = v->unknown[i];
    }
}

static char *copied(const char *text) { return text ? strdup(text) : NULL; }

/* The call sites with the largest shares. hidden: by stack, blocks of its end that do not count. */
static int find_places(struct gate_process *p, const struct model *m, struct names *names,
                       const uint8_t *hidden, struct error *err)
{
    const uint32_t stacks = model_image(m)->stacks;
    const struct model_stacks of = model_stacks(m);
    struct figures *sums = NULL;
    size_t room = 0;
    uint64_t most[METRICS] = {0};
    uint32_t best[METRICS] = {0};
    for (uint32_t i = 1; i <= stacks; i++) {
        uint32_t node, position;
        struct model_stack s = *model_stack_of(of, i);
        if (!s.calls && !s.live_blocks && !s.peak_blocks)
            continue;
        const uint32_t id = names_site(names, i, &node, &position);
        if (id == NO_NAME)
            continue;
        if (id >= room) {
            const size_t more = (size_t)names_count(names) * 2 + 64;
            struct figures *grown = realloc(sums, more * sizeof *grown);
            if (!grown) {
                free(sums);
                return error_memory_for(err, "call sites");
            }
            memset(grown + room, 0, (more - room) * sizeof *grown);
            sums = grown;
            room = more;
        }
        if (hidden && hidden[i])
            s.live_bytes = s.live_blocks = 0;
        figures_add(&sums[id], &s);
        for (unsigned by = 0; by < METRICS; by++)
            if (figures_metric(&sums[id], (enum metric)by) > most[by]) {
                most[by] = figures_metric(&sums[id], (enum metric)by);
                best[by] = id;
            }
    }
    free(sums);
    for (unsigned by = 0; by < METRICS; by++) {
        if (!most[by])
            continue;
        const struct name_frame *f = names_frame(names, best[by]);
        p->place[by] = (struct gate_place){copied(f->function), copied(f->file), f->line};
        if (!p->place[by].function || (f->file && !p->place[by].file))
            return error_memory_for(err, "call sites");
    }
    return names_failed(names) ? error_memory_for(err, "call sites") : 0;
}

/* Takes suppressed blocks off the end; *hidden: by stack, whether it is. */
static int suppress(struct gate_processes *g, struct gate_process *p, const struct model *m,
                    struct names *names, const struct report_options *o, uint8_t **hidden,
                    struct error *err)
{
    const uint32_t stacks = model_image(m)->stacks;
    if (!g->suppressions_read && suppressions_read(&g->suppressions, o->suppressions, err))
        return -1;
    g->suppressions_read = true;
    *hidden = calloc((size_t)stacks + 1, 1);
    if (!*hidden)
        return error_memory_for(err, "known leaks");
    struct known known = {.suppressions = &g->suppressions, .names = names};
    for (uint32_t i = 1; i <= stacks; i++) {
        const struct model_stack *s = model_stack_of(model_stacks(m), i);
        if (!s->live_blocks || !known_stack(&known, i))
            continue;
        (*hidden)[i] = 1;
        p->values.value[GATE_END] -= s->live_bytes;
    }
    known_release(&known);
    return names_failed(names) ? error_memory_for(err, "known leaks") : 0;
}

int gate_add(struct gate_processes *g, const struct model *m, struct names *names,
             const struct report_options *o, struct error *err)
{
    if (!g)
        return 0;
    struct gate_process *items = realloc(g->items, (g->count + 1) * sizeof *items);
    if (!items)
        return error_memory(err);
    g->items = items;
    struct gate_process *p = &items[g->count++];
    *p = (struct gate_process){.pid = model_image(m)->pid, .exe = model_image(m)->exe};
    gate_values_of(m, o, &p->values);
    uint8_t *hidden = NULL;
    int status = o->suppressions ? suppress(g, p, m, names, o, &hidden, err) : 0;
    if (!status && g->places)
        status = find_places(p, m, names, hidden, err);
    free(hidden);
    return status;
}

void gate_release(struct gate_processes *g)
{
    for (size_t i = 0; i < g->count; i++)
        for (unsigned by = 0; by < METRICS; by++) {
            free(g->items[i].place[by].function);
            free(g->items[i].place[by].file);
        }
    free(g->items);
    suppressions_release(&g->suppressions);
    *g = (struct gate_processes){0};
}
