/* mtrace.c - a raw trace of glibc's branch dj/malloc: records of 64 bytes, see
 * workload/djmalloc_record.h. It has neither times nor stacks.
 *
 * A realloc is one record, at the place of its new half. Frees that were missed (the address came
 * back from an allocation) are written as frees. */
#include <stdlib.h>
#include <string.h>

#include "export/job.h"
#include "workload/djmalloc_record.h"

struct mtrace {
    struct export_job *job;
    struct {
        uint64_t address, bytes; /* the old half of a realloc */
        bool pending;
    } * threads;
    uint64_t *usable; /* by slot */
    struct lines lines;
    uint8_t types[MLW_OP_COUNT]; /* by operation: enum djmalloc_type; 0: it has none */
};

static struct djmalloc_record *mtrace_next_record(struct mtrace *m)
{
    struct djmalloc_record *r = (void *)lines_room(&m->lines, sizeof *r);
    *r = (struct djmalloc_record){0};
    lines_end(&m->lines, (char *)(r + 1));
    return r;
}

static unsigned mtrace_type_of(unsigned op)
{
    static const uint8_t types[MLW_OP_COUNT] = {
        [MLW_OP_MALLOC] = DJ_MALLOC,     [MLW_OP_CALLOC] = DJ_CALLOC,
        [MLW_OP_REALLOC] = DJ_REALLOC,   [MLW_OP_POSIX_MEMALIGN] = DJ_POSIX_MEMALIGN,
        [MLW_OP_MEMALIGN] = DJ_MEMALIGN, [MLW_OP_VALLOC] = DJ_VALLOC,
        [MLW_OP_PVALLOC] = DJ_PVALLOC,   [MLW_OP_FREE] = DJ_FREE};
    return types[job_plain_op(op)];
}

static void mtrace_put_release(struct mtrace *m, const struct trace_image *image,
                               const struct trace_batch *b, size_t i, uint64_t bytes)
{
    struct djmalloc_record *r = mtrace_next_record(m);
    r->thread = (int32_t)image->threads[b->thread[i]].tid;
    r->type_path = DJ_FREE;
    r->ptr1 = b->address[i];
    r->size2 = bytes;
}

static void mtrace_put_call(struct mtrace *m, const struct trace_image *image,
                            const struct trace_batch *b, size_t i)
{
    const unsigned type = m->types[b->op[i]];
    const uint32_t thread = b->thread[i];
    const bool failed = b->path[i] & MLW_PATH_FAILED;
    if (!type) {
        m->job->result->left_out++;
        return;
    }
    if (type == DJ_FREE) {
        mtrace_put_release(m, image, b, i, 0);
        return;
    }
    struct djmalloc_record *r = mtrace_next_record(m);
    r->thread = (int32_t)image->threads[thread].tid;
    r->type_path = type | (b->path[i] & MLW_PATH_SBRK ? DJ_PATH_SBRK : 0) |
                   (b->path[i] & MLW_PATH_MMAPPED ? DJ_PATH_MMAP : 0);
    r->ptr2 = failed ? 0 : b->address[i];
    r->size = b->size[i];
    r->size3 = failed ? 0 : b->usable[i];
    if (type == DJ_REALLOC && m->threads[thread].pending) {
        r->ptr1 = m->threads[thread].address;
        r->size2 = m->threads[thread].bytes;
        m->threads[thread].pending = false;
    } else if (type == DJ_MEMALIGN || type == DJ_POSIX_MEMALIGN) {
        r->size2 = b->argument[i];
        r->ptr1 = type == DJ_POSIX_MEMALIGN && failed ? 12 /* ENOMEM */ : 0;
    }
}

static int mtrace_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                            struct error *err)
{
    struct mtrace *m = arg;
    (void)err;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        uint64_t bytes = 0;
        if (slot != TRACE_NO_SLOT) {
            bytes = m->usable[slot];
            m->usable[slot] = b->kind[i] == TRACE_ALLOC ? b->usable[i] : 0;
        }
        if (!job_event_passes(f, b, i))
            continue;
        m->job->result->samples++;
        if (mlw_op_is(b->op[i], MLW_CLASS_RESIZE_OLD)) {
            m->threads[b->thread[i]].pending = true;
            m->threads[b->thread[i]].address = b->address[i];
            m->threads[b->thread[i]].bytes = bytes;
        } else if (b->kind[i] == TRACE_FREE_INFERRED || m->types[b->op[i]] == DJ_FREE) {
            mtrace_put_release(m, f->image, b, i, bytes);
        } else {
            mtrace_put_call(m, f->image, b, i);
        }
    }
    return 0;
}

int export_mtrace(struct export_job *job, struct error *err)
{
    int64_t image = job_one_process(job, err);
    struct mtrace *m;
    int status = -1;
    if (image < 0)
        return -1;
    const struct trace_image *of = &trace_info(job->trace)->images[image];
    m = calloc(1, sizeof *m);
    if (m) {
        m->job = job;
        m->threads = calloc((size_t)of->thread_count + 1, sizeof *m->threads);
        for (unsigned op = 0; op < MLW_OP_COUNT; op++)
            m->types[op] = (uint8_t)mtrace_type_of(op);
        m->usable = calloc((size_t)of->max_slots + 1, sizeof *m->usable);
    }
    struct names *names = names_new(job->symbols, of, err);
    if (!m || !m->threads || !m->usable) {
        error_memory(err);
    } else if (names && !job_lines_open(job, &m->lines, err)) {
        struct djmalloc_record *r = mtrace_next_record(m);
        r->type_path = DJ_MAGIC;
        r->ptr1 = DJ_MAGIC_POINTER;
        r->size = sizeof(void *);
        status = job_events(job, (uint32_t)image, names, mtrace_add_batch, m, err);
    }
    names_free(names);
    status = job_lines_close(job, status, err);
    if (m) {
        free(m->threads);
        free(m->usable);
    }
    free(m);
    return status;
}
