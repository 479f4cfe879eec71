/* pprof.c - a recording as a profile of pprof: what each call stack allocated, holds, held at the
 * peak, and had only for a moment, all in one file. */
#include <stdlib.h>
#include <string.h>

#include "export/job.h"
#include "export/pprof_write.h"

struct profile {
    struct export_job *job;
    struct pprof *out;
    bool several; /* processes */
    /* of the process at hand */
    uint64_t *mappings;    /* by module; 0: not written yet */
    struct strings places; /* of struct job_place */
    uint64_t *locations;   /* by place - 1 */
    size_t location_room;
    uint64_t *stack;
    size_t stack_room;
};

enum { VALUES = 7 };

static uint64_t mapping_of(struct profile *p, const struct trace_image *image, uint32_t module)
{
    if (!module || module > image->module_count)
        return 0;
    const struct trace_module *m = &image->modules[module - 1];
    if (!p->mappings[module])
        p->mappings[module] =
            pprof_mapping(p->out, &(struct pprof_mapping){.start = m->start,
                                                          .limit = m->end,
                                                          .path = m->path,
                                                          .build_id = m->build_id,
                                                          .build_id_bytes = m->build_id_bytes,
                                                          .has_names = true,
                                                          .has_files = true,
                                                          .has_lines = true,
                                                          .has_inlined = true});
    return p->mappings[module];
}

static int location_of(struct profile *p, struct names *names, uint32_t node, uint64_t *location,
                       struct error *err)
{
    const struct trace_image *image = names_image(names);
    const struct job_place at = job_place(image, node);
    bool fresh;
    uint32_t id = strings_id(&p->places, &at, sizeof at, &fresh);
    if (id > p->location_room) {
        size_t room = p->location_room ? p->location_room * 2 : 1024;
        uint64_t *more = realloc(p->locations, room * sizeof *more);
        if (more) {
            p->locations = more;
            p->location_room = room;
        } else {
            id = 0;
        }
    }
    if (!id)
        return error_set(err, ERROR_MEMORY, "no memory for the places of a profile");
    if (fresh) {
        struct pprof_line lines[64];
        const uint32_t *ids;
        size_t count = names_of(names, node, &ids);
        if (count > sizeof lines / sizeof *lines)
            count = sizeof lines / sizeof *lines;
        for (size_t i = 0; i < count; i++) {
            const struct name_frame *f = names_frame(names, ids[i]);
            lines[i] =
                (struct pprof_line){.function = f->function, .file = f->file, .line = f->line};
        }
        uint64_t call = at.pc - (at.pc && !(at.flags & MLW_NODE_EXACT));
        p->locations[id - 1] =
            pprof_location(p->out, mapping_of(p, image, at.module), call, lines, count);
    }
    *location = p->locations[id - 1];
    return 0;
}

/* The locations of a stack in p->stack. */
static int stack_of(struct profile *p, struct names *names, uint32_t stack, size_t *count,
                    struct error *err)
{
    const struct trace_image *image = names_image(names);
    *count = 0;
    for (uint32_t node = stack; node && node <= image->stacks && *count <= image->stacks;
         node = image->nodes[node].parent) {
        if (*count == p->stack_room) {
            size_t room = p->stack_room ? p->stack_room * 2 : 256;
            uint64_t *more = realloc(p->stack, room * sizeof *more);
            if (!more)
                return error_set(err, ERROR_MEMORY, "no memory for a stack");
            p->stack = more;
            p->stack_room = room;
        }
        if (location_of(p, names, node, &p->stack[*count], err))
            return -1;
        ++*count;
    }
    return 0;
}

static int process(void *arg, const struct model *m, struct names *names, struct error *err)
{
    struct profile *p = arg;
    const struct trace_image *image = model_image(m);
    const struct model_stack *stacks = model_stacks(m);
    const struct pprof_label labels[] = {{.key = "pid", .number = image->pid},
                                         {.key = "process", .text = job_program(image)}};
    int status = 0;
    p->mappings = calloc((size_t)image->module_count + 1, sizeof *p->mappings);
    if (!p->mappings)
        return error_set(err, ERROR_MEMORY, "no memory for mappings");
    for (uint32_t i = 0; i < image->module_count; i++) /* the program itself comes first */
        if (image->exe && image->modules[i].path && !strcmp(image->modules[i].path, image->exe))
            mapping_of(p, image, i + 1);
    for (uint32_t i = 0; i <= image->stacks && !status; i++) {
        const struct model_stack *s = &stacks[i];
        size_t depth;
        if (!s->calls && !s->live_blocks && !s->peak_blocks)
            continue;
        status = stack_of(p, names, i, &depth, err);
        if (status)
            break;
        uint64_t nowhere;
        if (!depth)
            nowhere = pprof_location(p->out, 0, 0,
                                     &(struct pprof_line){.function = "[no stack recorded]"}, 1);
        const int64_t values[VALUES] = {(int64_t)s->calls,       (int64_t)s->allocated_bytes,
                                        (int64_t)s->live_blocks, (int64_t)s->live_bytes,
                                        (int64_t)s->peak_blocks, (int64_t)s->peak_bytes,
                                        (int64_t)s->temporary};
        pprof_sample(p->out, depth ? p->stack : &nowhere, depth ? depth : 1, values, VALUES, labels,
                     p->several ? 2 : 0);
        p->job->result->samples++;
    }
    free(p->mappings);
    free(p->locations);
    strings_release(&p->places);
    p->mappings = p->locations = NULL;
    p->location_room = 0;
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
    int status = job_models(job, process, &p, err);
    free(p.stack);
    if (status) {
        pprof_abandon(p.out);
        return -1;
    }
    return pprof_finish(p.out, err);
}
