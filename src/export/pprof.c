/* pprof.c - a recording as a profile of pprof: what each call stack allocated, holds, held at the
 * peak, and had only for a moment, all in one file. */
#include "export/job.h"
#include "export/pprof_stacks.h"

struct profile {
    struct export_job *job;
    struct pprof *out;
    bool several; /* processes */
};

enum { VALUES = 7 };

static int pprof_write_process(void *arg, const struct model *m, struct names *names,
                               struct error *err)
{
    struct profile *p = arg;
    const struct trace_image *image = model_image(m);
    const struct model_stacks stacks = model_stacks(m);
    const struct pprof_label labels[] = {{.key = "pid", .number = image->pid},
                                         {.key = "process", .text = job_program(image)}};
    int status = 0;
    struct pprof_stacks written;
    if (pprof_stacks_begin(&written, p->out, image, err))
        return -1;
    for (uint32_t i = 0; i <= image->stacks && !status; i++) {
        const struct model_stack *s = model_stack_of(stacks, i);
        const uint64_t *locations;
        size_t depth;
        if (!s->calls && !s->live_blocks && !s->peak_blocks)
            continue;
        status = pprof_stacks_of(&written, names, i, &locations, &depth, err);
        if (status)
            break;
        const int64_t values[VALUES] = {(int64_t)s->calls,       (int64_t)s->allocated_bytes,
                                        (int64_t)s->live_blocks, (int64_t)s->live_bytes,
                                        (int64_t)s->peak_blocks, (int64_t)s->peak_bytes,
                                        (int64_t)s->temporary};
        pprof_sample(p->out, locations, depth, values, VALUES, labels, p->several ? 2 : 0);
        p->job->result->samples++;
    }
    pprof_stacks_end(&written);
    return status;
}

int export_pprof(struct export_job *job, struct error *err)
{
    static const char *const types[VALUES][2] = {
        {"alloc_objects", "count"},    {"alloc_space", "bytes"},  {"inuse_objects", "count"},
        {"inuse_space", "bytes"},      {"peak_objects", "count"}, {"peak_space", "bytes"},
        {"temporary_objects", "count"}};
    const struct trace_info *info = trace_info(job->trace);
    struct profile p = {.job = job, .several = job_processes(job) > 1};
    uint64_t end_ns = 0;
    p.out = pprof_new(job->out, err);
    if (!p.out)
        return -1;
    for (size_t i = 0; i < VALUES; i++)
        pprof_value_type(p.out, types[i][0], types[i][1]);
    pprof_default_type(p.out, job->options->by_given && job->options->by == BY_PEAK ? "peak_space"
                              : !job->options->by_given || job->options->by == BY_END
                                  ? "inuse_space"
                              : job->options->by == BY_ALLOCATED ? "alloc_space"
                              : job->options->by == BY_CALLS     ? "alloc_objects"
                                                                 : "temporary_objects");
    pprof_period(p.out, "space", "bytes", 1);
    for (uint32_t i = 0; i < info->image_count; i++)
        if (job_has(job, &info->images[i]) && info->images[i].end_ns > end_ns)
            end_ns = info->images[i].end_ns;
    pprof_time(p.out, info->start_realtime_ns, end_ns);
    pprof_comment(p.out, "mallow " MALLOW_VERSION ": every allocation was counted, none sampled. "
                         "inuse: live at the end; peak: live at each process's own peak.");
    int status = job_models(job, pprof_write_process, &p, err);
    if (status) {
        pprof_abandon(p.out);
        return -1;
    }
    return pprof_finish(p.out, err);
}
