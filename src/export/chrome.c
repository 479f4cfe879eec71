/* chrome.c - the trace event format of Chrome and Perfetto: counters of the heap and of RSS over
 * time, threads as long as they lived, marks.
 *
 * Time is cut into slices of equal length, so the file is as large for a day as for a second. In
 * each the counter shows the most that was live, and how much of it lay in chunks of which sizes.
 */
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "export/job.h"
#include "export/slices.h"

enum { SLICES = 4000 };

struct chrome {
    struct export_job *job;
    struct json j;
    const struct trace_image *image;
    struct slices slices;
    uint64_t shown[SLICE_CLASSES]; /* the last figure of each class of chunks */
};

/* Time is in microseconds, with three places. */
static void chrome_put_time(struct chrome *c, const char *key, uint64_t ns)
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
    chrome_put_time(c, "ts", ns);
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

/* Chunks of a class, when there are others than at the last time. A counter of its own for each
 * class: its name says how large they are, and what never was there takes no place. */
static void chunk_counters(struct chrome *c, const struct slice *s)
{
    for (unsigned k = 0; k < SLICE_CLASSES; k++) {
        char size[HUMAN_TEXT_BYTES], name[64];
        if (s->chunk_bytes[k] == c->shown[k])
            continue;
        c->shown[k] = s->chunk_bytes[k];
        if (k + 1 < SLICE_CLASSES)
            snprintf(name, sizeof name, "chunks to %s", human_size(size, slice_class_bytes(k)));
        else
            snprintf(name, sizeof name, "chunks above %s",
                     human_size(size, slice_class_bytes(k - 1)));
        counter(c, name, s->start_ns, "bytes", s->chunk_bytes[k], NULL, 0);
    }
}

/* The slice is over. One still slice says what all of a run would. */
static void chrome_close_slice(void *arg, const struct slice *s)
{
    struct chrome *c = arg;
    if (s->still)
        return;
    counter(c, "live heap", s->start_ns, "bytes", s->most_bytes, NULL, 0);
    counter(c, "live blocks", s->start_ns, "blocks", s->live_blocks, NULL, 0);
    counter(c, "calls", s->start_ns, "calls", s->calls, NULL, 0);
    chunk_counters(c, s);
}

static int chrome_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                            struct error *err)
{
    struct chrome *c = arg;
    (void)err;
    slices_add(&c->slices, f, b);
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

static void chrome_write_series(struct chrome *c, const struct export_options *o)
{
    const struct trace_image *image = c->image;
    metadata(c, "process_name", image->pid, job_program(image));
    for (uint32_t i = 0; i < image->thread_count; i++) {
        const struct trace_thread *t = &image->threads[i];
        metadata(c, "thread_name", t->tid, t->name);
        open_event(c, "X", "alive", t->start_ns, t->tid);
        chrome_put_time(c, "dur", t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0);
        json_open_object(&c->j, "args");
        json_number(&c->j, "calls", t->calls);
        json_close_object(&c->j);
        json_close_object(&c->j);
    }
    for (uint32_t i = 0; i < image->note_count; i++) {
        const struct trace_event_note *n = &image->event_notes[i];
        if (n->control || n->time_ns < o->select.from_ns ||
            (o->select.to_ns && n->time_ns >= o->select.to_ns))
            continue;
        open_event(c, "i", n->label ? n->label : "mark", n->time_ns,
                   n->thread < image->thread_count ? image->threads[n->thread].tid : image->pid);
        json_text(&c->j, "s", "p");
        json_close_object(&c->j);
    }
    for (uint32_t i = 0; i < image->resident_count; i++) {
        const struct mlw_resident *r = &image->resident[i];
        if (selection_has_time(&o->select, r->clock)) {
            counter(c, "resident", r->clock, "private", r->rss - r->rss_shared, "shared",
                    r->rss_shared);
            counter(c, "address space", r->clock, "bytes", r->vmsize, NULL, 0);
        }
    }
}

static int chrome_write_image(struct chrome *c, uint32_t index, struct error *err)
{
    const struct trace_image *image = &trace_info(c->job->trace)->images[index];
    const struct export_options *o = c->job->options;
    struct slices *s = &c->slices;
    int status = -1;
    c->image = image;
    memset(c->shown, 0, sizeof c->shown);
    *s = (struct slices){.arg = c, .close = chrome_close_slice, .count = SLICES};
    struct names *names = names_new(c->job->symbols, image, err);
    if (names && !slices_begin(s, image, o, err)) {
        chrome_write_series(c, o);
        status = job_events(c->job, index, names, chrome_add_batch, c, err);
        slices_end(s);
        if (s->peak_bytes) {
            open_event(c, "i", "peak of live bytes", s->peak_ns, image->pid);
            json_text(&c->j, "s", "p");
            json_open_object(&c->j, "args");
            json_number(&c->j, "bytes", s->peak_bytes);
            json_close_object(&c->j);
            json_close_object(&c->j);
        }
        counter(c, "live heap", s->to_ns, "bytes", s->now.live_bytes, NULL, 0);
        counter(c, "live blocks", s->to_ns, "blocks", s->now.live_blocks, NULL, 0);
    }
    slices_release(s);
    names_free(names);
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
            status = chrome_write_image(&c, i, err);
    json_close_to(&c.j, 0);
    json_end(&c.j);
    return status;
}
