/* chrome.c - the trace event format of Chrome and Perfetto: counters of the heap and of RSS over
 * time, threads as long as they lived, marks.
 *
 * Time is cut into slices of equal length, so the file is as large for a day as for a second. In
 * each the counter shows the most that was live. */
#include <stdlib.h>
#include <string.h>

#include "export/job.h"
#include "report/json.h"

enum { SLICES = 4000 };

struct chrome {
    struct export_job *job;
    struct json j;
    const struct trace_image *image;
    uint64_t *size;  /* by slot */
    uint8_t *counts; /* by slot: 1 when it is part of the figures */
    uint64_t start_ns, width_ns, slice_end_ns;
    uint64_t live, live_most, blocks, calls;
    uint64_t peak, peak_ns;
};

/* Time is in microseconds, with three places. */
static void put_time(struct chrome *c, const char *key, uint64_t ns)
{
    char text[40];
    int n = snprintf(text, sizeof text, "%llu.%03u", (unsigned long long)(ns / 1000),
                     (unsigned)(ns % 1000));
    json_raw(&c->j, key, text, (size_t)n);
}

static void open_event(struct chrome *c, const char *phase, const char *name, uint64_t ns,
                       uint32_t tid)
{
    json_open_object(&c->j, NULL);
    json_text(&c->j, "ph", phase);
    json_text(&c->j, "cat", *phase == 'M' ? "__metadata" : "memory"); /* readers rely on one */
    json_text(&c->j, "name", name);
    json_number(&c->j, "pid", c->image->pid);
    json_number(&c->j, "tid", tid);
    put_time(c, "ts", ns);
}

static void counter(struct chrome *c, const char *name, uint64_t ns, const char *a, uint64_t av,
                    const char *b, uint64_t bv)
{
    open_event(c, "C", name, ns, c->image->pid);
    json_open_object(&c->j, "args");
    json_number(&c->j, a, av);
    if (b)
        json_number(&c->j, b, bv);
    json_close_object(&c->j);
    json_close_object(&c->j);
    c->job->result->samples++;
}

/* The slice is over. */
static void close_slice(struct chrome *c)
{
    uint64_t at = c->slice_end_ns - c->width_ns;
    counter(c, "live heap", at, "bytes", c->live_most, NULL, 0);
    counter(c, "live blocks", at, "blocks", c->blocks, NULL, 0);
    counter(c, "calls", at, "calls", c->calls, NULL, 0);
    c->live_most = c->live;
    c->calls = 0;
}

static void come_to(struct chrome *c, uint64_t ns)
{
    if (ns < c->slice_end_ns)
        return;
    close_slice(c);
    uint64_t skip = (ns - c->slice_end_ns) / c->width_ns;
    if (skip) { /* nothing happened in between: one slice says it */
        c->slice_end_ns += c->width_ns;
        close_slice(c);
        skip--;
    }
    c->slice_end_ns += (skip + 1) * c->width_ns;
}

static int batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                 struct error *err)
{
    struct chrome *c = arg;
    (void)err;
    for (size_t i = 0; i < b->n; i++) {
        const uint32_t slot = b->slot[i];
        if (f->f.to_ns && b->time_ns[i] >= f->f.to_ns)
            continue;
        if (b->time_ns[i] >= f->f.from_ns)
            come_to(c, b->time_ns[i]);
        c->calls += b->time_ns[i] >= f->f.from_ns && job_call_passes(f, b, i);
        if (slot == TRACE_NO_SLOT)
            continue;
        if (b->kind[i] == TRACE_ALLOC) {
            c->counts[slot] = job_call_passes(f, b, i);
            if (!c->counts[slot])
                continue;
            c->size[slot] = b->size[i];
            c->blocks++;
            c->live += b->size[i];
            if (c->live > c->live_most)
                c->live_most = c->live;
            if (c->live > c->peak && b->time_ns[i] >= f->f.from_ns) {
                c->peak = c->live;
                c->peak_ns = b->time_ns[i];
            }
        } else if (c->counts[slot]) {
            c->counts[slot] = 0;
            c->blocks--;
            c->live -= c->size[slot];
        }
    }
    return 0;
}

static void metadata(struct chrome *c, const char *what, uint32_t tid, const char *name)
{
    open_event(c, "M", what, c->image->start_ns, tid);
    json_open_object(&c->j, "args");
    json_text(&c->j, "name", name && *name ? name : "?");
    json_close_object(&c->j);
    json_close_object(&c->j);
}

static void beside(struct chrome *c, const struct report_options *o)
{
    const struct trace_image *image = c->image;
    metadata(c, "process_name", image->pid, job_program(image));
    for (uint32_t i = 0; i < image->thread_count; i++) {
        const struct trace_thread *t = &image->threads[i];
        metadata(c, "thread_name", t->tid, t->name);
        open_event(c, "X", "alive", t->start_ns, t->tid);
        put_time(c, "dur", t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0);
        json_open_object(&c->j, "args");
        json_number(&c->j, "calls", t->calls);
        json_close_object(&c->j);
        json_close_object(&c->j);
    }
    for (uint32_t i = 0; i < image->note_count; i++) {
        const struct trace_event_note *n = &image->event_notes[i];
        if (n->control || n->time_ns < o->from_ns || (o->to_ns && n->time_ns >= o->to_ns))
            continue;
        open_event(c, "i", n->label ? n->label : "mark", n->time_ns,
                   n->thread < image->thread_count ? image->threads[n->thread].tid : image->pid);
        json_text(&c->j, "s", "p");
        json_close_object(&c->j);
    }
    for (uint32_t i = 0; i < image->resident_count; i++) {
        const struct mlw_resident *r = &image->resident[i];
        if (r->clock >= o->from_ns && (!o->to_ns || r->clock < o->to_ns)) {
            counter(c, "resident", r->clock, "private", r->rss - r->rss_shared, "shared",
                    r->rss_shared);
            counter(c, "address space", r->clock, "bytes", r->vmsize, NULL, 0);
        }
    }
}

static int one_image(struct chrome *c, uint32_t index, struct error *err)
{
    const struct trace_image *image = &trace_info(c->job->trace)->images[index];
    const struct report_options *o = c->job->options;
    uint64_t end_ns = o->to_ns && o->to_ns < image->end_ns ? o->to_ns : image->end_ns;
    int status = -1;
    c->image = image;
    c->start_ns = o->from_ns > image->start_ns ? o->from_ns : image->start_ns;
    c->width_ns = end_ns > c->start_ns ? (end_ns - c->start_ns) / SLICES + 1 : 1;
    c->slice_end_ns = c->start_ns + c->width_ns;
    c->live = c->live_most = c->blocks = c->calls = c->peak = c->peak_ns = 0;
    c->size = calloc((size_t)image->max_slots + 1, sizeof *c->size);
    c->counts = calloc((size_t)image->max_slots + 1, 1);
    struct names *names = names_new(c->job->symbols, image, err);
    if (!c->size || !c->counts) {
        error_memory_for(err, "live blocks");
    } else if (names) {
        beside(c, o);
        status = job_events(c->job, index, names, batch, c, err);
        close_slice(c);
        if (c->peak) {
            open_event(c, "i", "peak of live bytes", c->peak_ns, image->pid);
            json_text(&c->j, "s", "p");
            json_open_object(&c->j, "args");
            json_number(&c->j, "bytes", c->peak);
            json_close_object(&c->j);
            json_close_object(&c->j);
        }
        counter(c, "live heap", end_ns, "bytes", c->live, NULL, 0);
        counter(c, "live blocks", end_ns, "blocks", c->blocks, NULL, 0);
    }
    names_free(names);
    free(c->size);
    free(c->counts);
    return status;
}

int export_chrome(struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct chrome c = {.job = job, .j = {.out = job->out}};
    int status = 0;
    json_open_object(&c.j, NULL);
    json_text(&c.j, "displayTimeUnit", "ns");
    json_open_object(&c.j, "otherData");
    json_text(&c.j, "exporter", "mallow " MALLOW_VERSION);
    json_text(&c.j, "recording", job->recording);
    json_close_object(&c.j);
    json_open_array(&c.j, "traceEvents");
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (job_has(job, &info->images[i]))
            status = one_image(&c, i, err);
    json_close_to(&c.j, 0);
    json_end(&c.j);
    return status;
}
