/* pprof.c - Writes the sampled sites of a process as a pprof profile, whole or as the difference
 * to a base. Allocations never fall, although the process's table may drop sums. */
#include "watch/out/pprof.h"

#include <stdlib.h>

#include "export/pprof_stacks.h"

enum { VALUES = WATCH_PPROF_VALUES };

const char *const watch_pprof_types[VALUES][2] = {{"alloc_objects", "count"},
                                                  {"alloc_space", "bytes"},
                                                  {"inuse_objects", "count"},
                                                  {"inuse_space", "bytes"}};

static int64_t round_to_whole(double v)
{
    uint64_t n = estimate_whole(v);
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static double larger(double a, double b) { return a > b ? a : b; }

static void values_of(const struct watch_site *s, int64_t values[VALUES])
{
    /* Blocks that a fork inherited were allocated, too, and so they count. */
    values[0] = round_to_whole(larger(s->sums.allocated_blocks, s->live.blocks));
    values[1] = round_to_whole(larger(s->sums.allocated_bytes, s->live.bytes));
    values[2] = round_to_whole(s->live.blocks);
    values[3] = round_to_whole(s->live.bytes);
}

int watch_pprof_base(struct watch_pprof_base *base, const struct watch_process *p,
                     const struct watch_sites *sites, struct error *err)
{
    *base = (struct watch_pprof_base){.time_ns = p->time_ns};
    for (uint32_t i = 0; i < sites->count; i++)
        if (sites->items[i].stack >= base->count)
            base->count = sites->items[i].stack + 1;
    base->values = calloc((size_t)base->count + 1, sizeof *base->values);
    if (!base->values)
        return error_memory(err);
    for (uint32_t i = 0; i < sites->count; i++)
        values_of(&sites->items[i], base->values[sites->items[i].stack]);
    return 0;
}

/* Sums of stacks that made room for others in the process's table are gone: allocations do not
 * fall. */
static void subtract_stack(int64_t values[VALUES], const struct watch_pprof_options *o,
                           uint32_t stack)
{
    const struct watch_pprof_base *base = o ? o->base : NULL;
    if (!base || stack >= base->count)
        return;
    for (size_t i = 0; i < (o->in_use_whole ? 2 : VALUES); i++)
        values[i] -= base->values[stack][i];
    for (size_t i = 0; i < 2; i++)
        if (values[i] < 0)
            values[i] = 0;
}

bool watch_pprof_values(const struct watch_site *s, const struct watch_pprof_options *options,
                        int64_t values[VALUES])
{
    values_of(s, values);
    subtract_stack(values, options, s->stack);
    return values[0] || values[1] || values[2] || values[3];
}

static int write_samples(struct pprof *out, const struct watch_process *p,
                         const struct watch_sites *sites, struct names *names,
                         const struct watch_pprof_options *options, struct error *err)
{
    const uint32_t from = options ? options->from : 0;
    const uint32_t until = options && options->until ? options->until : sites->count;
    struct pprof_stacks stacks;
    if (pprof_stacks_begin(&stacks, out, &p->stacks.image, err))
        return -1;
    int status = 0;
    for (uint32_t i = from; i < until && !status; i++) {
        const struct watch_site *s = &sites->items[i];
        const uint64_t *locations;
        size_t depth;
        int64_t values[VALUES];
        if (!watch_pprof_values(s, options, values))
            continue;
        status = pprof_stacks_of(&stacks, names, s->stack, &locations, &depth, err);
        if (!status)
            pprof_sample(out, locations, depth, values, VALUES, NULL, 0);
    }
    pprof_stacks_end(&stacks);
    return status;
}

int watch_pprof_write(FILE *file, const struct watch_process *p, const struct watch_sites *sites,
                      struct symbols *symbols, const struct watch_pprof_options *options,
                      struct error *err)
{
    struct names *names = names_new(symbols, &p->stacks.image, err);
    struct pprof *out = names ? pprof_new(file, err) : NULL;
    if (!out) {
        names_free(names);
        return -1;
    }
    names_renew(names);
    for (size_t i = 0; i < VALUES; i++)
        pprof_value_type(out, watch_pprof_types[i][0], watch_pprof_types[i][1]);
    pprof_default_type(out,
                       options && options->default_type ? options->default_type : "inuse_space");
    pprof_period(out, "space", "bytes", (int64_t)p->segment.head.settings.period);
    const struct watch_pprof_base *base = options ? options->base : NULL;
    const uint64_t from_ns = base && base->time_ns > p->start_ns ? base->time_ns : p->start_ns;
    pprof_time(out, p->segment.head.start_realtime_ns + (from_ns - p->start_ns),
               p->time_ns > from_ns ? p->time_ns - from_ns : 0);
    pprof_comment(out, "mallow " MALLOW_VERSION ": estimated from sampled blocks");
    int status = write_samples(out, p, sites, names, options, err);
    if (status)
        pprof_abandon(out);
    else
        status = pprof_finish(out, err);
    names_free(names);
    return status;
}
