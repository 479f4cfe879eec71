/* job.h - what the formats share: the processes chosen, their stacks, their events. */
#ifndef MALLOW_EXPORT_JOB_H
#define MALLOW_EXPORT_JOB_H

#include "analyse/sites.h"
#include "base/lines.h"
#include "base/strings.h"
#include "export/export.h"
#include "frames/names.h"
#include "frames/select.h"
#include "model/model.h"

struct export_job {
    FILE *out;
    struct lines *lines; /* that write to it; NULL: the format does so itself */
    const char *output;
    const char *recording;
    struct trace *trace;
    struct symbols *symbols;
    const struct export_options *options;
    struct selection selection;
    struct export_result *result;
};

/* Opens lines for the text that goes to job->out. Nothing else may write there before
 * job_lines_close. */
int job_lines_open(struct export_job *job, struct lines *l, struct error *err);

/* Ends them, where they were opened: -1 with the cause of the first write that failed, which the
 * stream itself does not keep; else the status given. */
int job_lines_close(struct export_job *job, int status, struct error *err);

/* How many processes are chosen that did anything. */
uint32_t job_processes(const struct export_job *job);
bool job_has(const struct export_job *job, const struct trace_image *image);
/* The index of the only process chosen, or of its program with the most calls; -1 with an error
 * that lists them. */
int64_t job_one_process(const struct export_job *job, struct error *err);

/* The program's name without its directory, for people; never NULL. */
const char *job_program(const struct trace_image *image);
/* Its command line as it was started, escaped. */
void job_put_command(struct lines *l, const struct trace_image *image);

/* Calls `process` with the finished model of each process chosen. */
int job_models(struct export_job *job,
               int (*process)(void *arg, const struct model *m, struct names *names,
                              struct error *err),
               void *arg, struct error *err);
/* The same for one image. */
int job_model(struct export_job *job, uint32_t image,
              int (*process)(void *arg, const struct model *m, struct names *names,
                             struct error *err),
              void *arg, struct error *err);

/* The filter of the events of an image. */
struct job_filter {
    const struct trace_image *image;
    struct model_filter f;
    bool any; /* something is filtered */
};

/* True if the call passes everything but time. */
static inline bool job_call_passes(const struct job_filter *j, const struct trace_batch *b,
                                   size_t i)
{
    const struct model_filter *f = &j->f;
    const bool sized = b->size[i] || b->kind[i] == TRACE_ALLOC;
    return !j->any || ((!(f->min_bytes || f->below_bytes) ||
                        (sized && b->size[i] >= f->min_bytes &&
                         (!f->below_bytes || b->size[i] < f->below_bytes))) &&
                       (!f->thread_pass || f->thread_pass[b->thread[i]]) &&
                       (!f->stack_pass || f->stack_pass[b->stack[i]]));
}

static inline bool job_event_passes(const struct job_filter *j, const struct trace_batch *b,
                                    size_t i)
{
    return !j->any || (b->time_ns[i] >= j->f.from_ns &&
                       (!j->f.to_ns || b->time_ns[i] < j->f.to_ns) && job_call_passes(j, b, i));
}

/* Calls `batch` with each batch of an image, whose indices have been checked: threads, stacks and
 * slots exist. It is the callee that filters, by job_event_passes. */
int job_events(struct export_job *job, uint32_t image, struct names *names,
               int (*batch)(void *arg, const struct job_filter *filter, const struct trace_batch *b,
                            struct error *err),
               void *arg, struct error *err);

/* An address that frames are at: what makes two nodes the same place. No padding, so that bytes can
 * be compared. */
struct job_place {
    uint64_t pc;
    uint32_t module; /* index + 1, 0 for none */
    uint32_t flags;  /* MLW_NODE_EXACT, MLW_NODE_TRUNCATED (then pc and module are 0) */
};
struct job_place job_place(const struct trace_image *image, uint32_t node);

/* Each function of a table of operations, for formats that know fewer: malloc for MLW_OP_MALLOC,
 * ..., memalign for aligned_alloc, realloc for reallocarray, free for sized frees, 0 for the rest.
 */
unsigned job_plain_op(unsigned op);

/* --- one function a format --- */
int export_pprof(struct export_job *job, struct error *err);
int export_folded(struct export_job *job, struct error *err);
int export_speedscope(struct export_job *job, struct error *err);
int export_heaptrack(struct export_job *job, struct error *err);
int export_ctf(struct export_job *job, struct error *err);
int export_csv(struct export_job *job, struct error *err);
int export_chrome(struct export_job *job, struct error *err);
int export_massif(struct export_job *job, struct error *err);
int export_sqlite(struct export_job *job, struct error *err);
int export_series(struct export_job *job, struct error *err);
int export_hdf5(struct export_job *job, struct error *err);
int export_mtrace(struct export_job *job, struct error *err);

#endif
