/* otlp.c - Writes the sampled sites of a process as an OpenTelemetry profile, with the same
 * values and stacks as the pprof profile. */
#include "watch/out/otlp.h"

#include <stdlib.h>

#include "export/pprof_stacks.h"

static uint64_t mapping(void *o, const struct pprof_mapping *m) { return otlp_mapping(o, m); }

static uint64_t put_otlp_location(void *o, uint64_t in, uint64_t address,
                                  const struct pprof_line *lines, size_t line_count)
{
    return otlp_location(o, in, address, lines, line_count);
}

struct sample {
    uint64_t stack;
    int64_t values[WATCH_PPROF_VALUES];
};

/* The samples of the chosen sites, whose stacks are written. */
static int collect_samples(struct otlp *o, const struct watch_process *p,
                           const struct watch_sites *sites, struct names *names,
                           const struct watch_pprof_options *options, struct sample *samples,
                           size_t *count, struct error *err)
{
    const uint32_t until = options->until ? options->until : sites->count;
    const struct pprof_sink sink = {o, mapping, put_otlp_location};
    struct pprof_stacks stacks;
    int status = pprof_stacks_begin_into(&stacks, &sink, &p->stacks.image, err);
    if (status)
        return -1;
    for (uint32_t i = options->from; i < until && !status; i++) {
        const uint64_t *locations;
        size_t depth;
        struct sample *s = &samples[*count];
        if (!watch_pprof_values(&sites->items[i], options, s->values))
            continue;
        status = pprof_stacks_of(&stacks, names, sites->items[i].stack, &locations, &depth, err);
        if (!status)
            s->stack = otlp_stack(o, locations, depth);
        ++*count;
    }
    pprof_stacks_end(&stacks);
    return status;
}

int watch_otlp_write(struct otlp *o, FILE *out, const struct watch_process *p,
                     const struct watch_sites *sites, struct symbols *symbols,
                     const struct watch_pprof_options *options, struct error *err)
{
    struct error ignored;
    size_t count = 0;
    struct names *names = names_new(symbols, &p->stacks.image, err);
    struct sample *samples = calloc((size_t)sites->count + 1, sizeof *samples);
    int status = !names ? -1 : samples ? 0 : error_memory(err);
    if (!status)
        names_renew(names);
    if (!status)
        status = collect_samples(o, p, sites, names, options, samples, &count, err);
    const uint64_t base_ns = options->base ? options->base->time_ns : 0;
    const uint64_t from_ns = base_ns > p->start_ns ? base_ns : p->start_ns;
    for (size_t v = 0; v < WATCH_PPROF_VALUES && !status; v++) {
        otlp_profile(o, &(struct otlp_profile){
                            .type = watch_pprof_types[v][0],
                            .unit = watch_pprof_types[v][1],
                            .period_type = "space",
                            .period_unit = "bytes",
                            .period = (int64_t)p->segment.head.settings.period,
                            .time_ns = p->segment.head.start_realtime_ns + (from_ns - p->start_ns),
                            .duration_ns = p->time_ns > from_ns ? p->time_ns - from_ns : 0});
        for (size_t i = 0; i < count; i++)
            if (samples[i].values[v])
                otlp_sample(o, samples[i].stack, samples[i].values[v]);
    }
    if (status)
        (void)otlp_finish(o, NULL, &ignored);
    else
        status = otlp_finish(o, out, err);
    free(samples);
    names_free(names);
    return status;
}
