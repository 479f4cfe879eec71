#include "export/watch_pprof.h"

#include "export/pprof_stacks.h"

enum { VALUES = 4 };

static int64_t whole(double v)
{
    uint64_t n = estimate_whole(v);
    return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static double larger(double a, double b) { return a > b ? a : b; }

static int write_samples(struct pprof *out, const struct watch_process *p,
                         const struct watch_sites *sites, struct names *names, struct error *err)
{
    struct pprof_stacks stacks;
    if (pprof_stacks_begin(&stacks, out, &p->stacks.image, err))
        return -1;
    int status = 0;
    for (uint32_t i = 0; i < sites->count && !status; i++) {
        const struct watch_site *s = &sites->items[i];
        const uint64_t *locations;
        size_t depth;
        /* What a fork inherited was allocated, too, and so it counts. */
        const int64_t values[VALUES] = {whole(larger(s->sums.allocated_blocks, s->live.blocks)),
                                        whole(larger(s->sums.allocated_bytes, s->live.bytes)),
                                        whole(s->live.blocks), whole(s->live.bytes)};
        if (!values[0] && !values[1])
            continue;
        status = pprof_stacks_of(&stacks, names, s->stack, &locations, &depth, err);
        if (!status)
            pprof_sample(out, locations, depth, values, VALUES, NULL, 0);
    }
    pprof_stacks_end(&stacks);
    return status;
}

int watch_pprof_write(FILE *file, const struct watch_process *p, const struct watch_sites *sites,
                      struct symbols *symbols, struct error *err)
{
    static const char *const types[VALUES][2] = {{"alloc_objects", "count"},
                                                 {"alloc_space", "bytes"},
                                                 {"inuse_objects", "count"},
                                                 {"inuse_space", "bytes"}};
    struct names *names = names_new(symbols, &p->stacks.image, err);
    struct pprof *out = names ? pprof_new(file, err) : NULL;
    if (!out) {
        names_free(names);
        return -1;
    }
    for (size_t i = 0; i < VALUES; i++)
        pprof_value_type(out, types[i][0], types[i][1]);
    pprof_default_type(out, "inuse_space");
    pprof_period(out, "space", "bytes", (int64_t)p->segment.head.settings.period);
    pprof_time(out, p->segment.head.start_realtime_ns,
               p->time_ns > p->start_ns ? p->time_ns - p->start_ns : 0);
    pprof_comment(out, "mallow " MALLOW_VERSION ": estimated from sampled blocks");
    int status = write_samples(out, p, sites, names, err);
    if (status)
        pprof_abandon(out);
    else
        status = pprof_finish(out, err);
    names_free(names);
    return status;
}
