/* series.c - a process over time as a table: ideal and measured resident size, address space, and
 * the chunks by size, in a thousand slices. */
#include <inttypes.h>

#include "base/text.h"
#include "export/job.h"
#include "export/slices.h"

enum { SLICES = 1000 };

struct series_out {
    struct export_job *job;
    const struct trace_image *image;
    struct slices slices;
};

static void put_measured(FILE *out, bool measured, uint64_t v)
{
    fputc(',', out);
    if (measured)
        text_printf(out, "%" PRIu64, v);
}

static void series_close_slice(void *arg, const struct slice *s)
{
    struct series_out *o = arg;
    FILE *out = o->job->out;
    const uint64_t at_ns = s->end_ns < o->slices.to_ns ? s->end_ns : o->slices.to_ns;
    text_printf(out, "%" PRIu64 ",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64, at_ns,
                o->image->pid, s->calls, s->live_blocks, s->live_bytes, s->most_bytes);
    put_measured(out, s->measured, s->rss_bytes);
    put_measured(out, s->measured, s->vmsize_bytes);
    for (unsigned k = 0; k < SLICE_CLASSES; k++)
        text_printf(out, ",%" PRIu64, s->chunks[k]);
    for (unsigned k = 0; k < SLICE_CLASSES; k++)
        text_printf(out, ",%" PRIu64, s->chunk_bytes[k]);
    fputc('\n', out);
    o->job->result->samples++;
}

static int series_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                            struct error *err)
{
    struct series_out *o = arg;
    (void)err;
    slices_add(&o->slices, f, b);
    return 0;
}

static void series_put_classes(FILE *out, const char *what)
{
    for (unsigned k = 0; k + 1 < SLICE_CLASSES; k++)
        text_printf(out, ",%s_to_%" PRIu64, what, slice_class_bytes(k));
    text_printf(out, ",%s_above", what);
}

int export_series(struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct series_out o = {.job = job};
    int status = 0;
    fputs("time_ns,pid,calls,live_blocks,ideal_rss_bytes,most_ideal_rss_bytes,rss_bytes,"
          "vmsize_bytes",
          job->out);
    series_put_classes(job->out, "chunks");
    series_put_classes(job->out, "chunk_bytes");
    fputc('\n', job->out);
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        o.image = &info->images[i];
        if (!job_has(job, o.image))
            continue;
        o.slices = (struct slices){.arg = &o, .close = series_close_slice, .count = SLICES};
        struct names *names = names_new(job->symbols, o.image, err);
        status = -1;
        if (names && !slices_begin(&o.slices, o.image, job->options, err))
            status = job_events(job, i, names, series_add_batch, &o, err);
        if (!status)
            slices_end(&o.slices);
        slices_release(&o.slices);
        names_free(names);
    }
    return status;
}
