/* job.c - Chooses the processes of an export, and runs the model or the filtered events of each
 * through a writer. It checks that events refer to existing blocks, stacks and threads before a
 * writer sees them. */
#include "export/job.h"

#include <inttypes.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cmdline.h"
#include "frames/pass.h"

const char *job_program(const struct trace_image *image)
{
    return cmdline_name(image->exe, image->command);
}

void job_put_command(struct lines *l, const struct trace_image *image)
{
    struct buffer command = {0};
    cmdline_append(&command, image->exe, image->command, false);
    lines_harmless(l, buffer_text(&command));
    buffer_release(&command);
}

int job_lines_open(struct export_job *job, struct lines *l, struct error *err)
{
    if (lines_open(l, job->out, job->options->threads))
        return error_memory(err);
    job->lines = l;
    return 0;
}

static int not_all(const struct export_job *job, struct error *err)
{
    return error_system(err, "cannot write all of %s",
                        job->output ? job->output : "standard output");
}

int job_lines_close(struct export_job *job, int status, struct error *err)
{
    struct lines *l = job->lines;
    if (!l)
        return status;
    job->lines = NULL;
    lines_close(l);
    return !status && lines_failed(l) ? not_all(job, err) : status;
}

static bool cannot_write(const struct export_job *job)
{
    return job->lines ? lines_failed(job->lines) : job->out && ferror(job->out);
}

bool job_has(const struct export_job *job, const struct trace_image *image)
{
    return image->events && selection_has_image(&job->selection, image);
}

uint32_t job_processes(const struct export_job *job)
{
    const struct trace_info *info = trace_info(job->trace);
    uint32_t n = 0;
    for (uint32_t i = 0; i < info->image_count; i++)
        n += job_has(job, &info->images[i]);
    return n;
}

int64_t job_one_process(const struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct buffer list = {0};
    int64_t found = -1;
    uint32_t pids = 0, last = 0;
    for (uint32_t i = 0; i < info->image_count; i++) {
        const struct trace_image *m = &info->images[i];
        if (!job_has(job, m))
            continue;
        if (!pids || m->pid != last) {
            pids++;
            if (pids <= 8)
                buffer_printf(&list, "%s%u (%s)", pids > 1 ? ", " : "", m->pid, job_program(m));
        }
        last = m->pid;
        if (found < 0 || m->calls > info->images[found].calls)
            found = i;
    }
    if (found < 0)
        error_set(err, ERROR_USAGE, "no process of this recording allocated anything");
    if (pids > 1) {
        found = error_set(err, ERROR_USAGE,
                          "this format holds one process; choose one with --pid: %s%s",
                          buffer_text(&list), pids > 8 ? ", ..." : "");
    }
    buffer_release(&list);
    return found;
}

int job_model(struct export_job *job, uint32_t image,
              int (*process)(void *arg, const struct model *m, struct names *names,
                             struct error *err),
              void *arg, struct error *err)
{
    struct pass pass;
    int status = pass_begin(&pass, job->trace, image, &job->selection, job->symbols, NULL, err);
    if (!status)
        status = process(arg, pass.model, pass.names, err);
    if (!status && names_failed(pass.names))
        status = error_memory_for(err, "names");
    pass_end(&pass);
    job->result->processes++;
    return status;
}

int job_models(struct export_job *job,
               int (*process)(void *arg, const struct model *m, struct names *names,
                              struct error *err),
               void *arg, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    for (uint32_t i = 0; i < info->image_count; i++)
        if (job_has(job, &info->images[i]) && job_model(job, i, process, arg, err))
            return -1;
    return 0;
}

struct job_place job_place(const struct trace_image *image, uint32_t node)
{
    const struct trace_frame_node *n = trace_node(image, node);
    if (n->flags & MLW_NODE_TRUNCATED)
        return (struct job_place){.flags = n->flags & (MLW_NODE_TRUNCATED | MLW_NODE_EXACT)};
    return (struct job_place){n->pc, n->module <= image->module_count ? n->module : 0,
                              n->flags & MLW_NODE_EXACT};
}

unsigned job_plain_op(unsigned op)
{
    switch (mlw_op_class(op)) {
    case MLW_CLASS_RELEASE: return MLW_OP_FREE;
    case MLW_CLASS_RESIZE_NEW: return MLW_OP_REALLOC;
    case MLW_CLASS_ALLOC:
        op = mlw_op_standard(op);
        return op == MLW_OP_ALIGNED_ALLOC ? MLW_OP_MEMALIGN : op;
    default: return 0;
    }
}

static int check_batch(const struct trace_image *image, const struct trace_batch *b,
                       struct error *err)
{
    uint32_t threads = 0, stacks = 0, kinds = 0;
    bool slots = true;
    for (size_t i = 0; i < b->n; i++) {
        threads = b->thread[i] > threads ? b->thread[i] : threads;
        stacks = b->stack[i] > stacks ? b->stack[i] : stacks;
        kinds = b->kind[i] > kinds ? b->kind[i] : kinds;
        slots &= b->slot[i] < image->max_slots || b->slot[i] == TRACE_NO_SLOT;
    }
    if (b->n &&
        (threads >= image->thread_count || stacks > image->stacks || kinds > TRACE_OTHER || !slots))
        return error_set(err, ERROR_FORMAT,
                         "events from number %" PRIu64 " of process %u make no sense: a thread, "
                         "stack, slot or kind that does not exist",
                         b->first_event, image->pid);
    return 0;
}

int job_events(struct export_job *job, uint32_t index, struct names *names,
               int (*batch)(void *arg, const struct job_filter *filter, const struct trace_batch *b,
                            struct error *err),
               void *arg, struct error *err)
{
    const struct trace_image *image = &trace_info(job->trace)->images[index];
    struct image_filter filter;
    if (selection_resolve(&job->selection, image, names, &filter, err))
        return -1;
    const struct job_filter f = {
        .image = image, .f = filter.filter, .any = selection_filters(&job->selection)};
    struct trace_cursor *c = trace_cursor_open(job->trace, index, err);
    struct trace_batch b;
    int more = c ? 1 : -1;
    while (more > 0 && (more = trace_cursor_next(c, &b, err)) > 0)
        if (check_batch(image, &b, err) || batch(arg, &f, &b, err))
            more = -1;
        else if (cannot_write(job))
            more = not_all(job, err);
    trace_cursor_close(c);
    selection_release(&filter);
    job->result->processes++;
    return more;
}
