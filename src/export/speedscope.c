/* speedscope.c - the file format of speedscope: for each process a profile of each figure, over
 * frames that all share. */
#include <stdlib.h>

#include "base/array.h"
#include "base/json.h"
#include "export/job.h"

struct scope {
    struct export_job *job;
    struct json j;
    struct buffer frames; /* JSON of the frames so far */
    uint32_t frame_count;
    uint32_t *path;
    size_t room;
};

static const char *const titles[METRICS] = {"live at the peak", "live at the end", "allocated",
                                            "temporary allocations", "calls"};

/* Frames of a site from the outermost, as one element of samples[]. */
static int speedscope_put_sample(struct scope *s, const struct sites *sites, uint32_t tip,
                                 struct error *err)
{
    size_t depth = 0;
    for (uint32_t at = tip; at; at = sites->parent[at]) {
        if (!ARRAY_ROOM(s->path, depth + 1, s->room))
            return error_memory_for(err, "a stack");
        s->path[depth++] = sites->frame[at];
    }
    json_open_array(&s->j, NULL);
    while (depth--)
        json_number(&s->j, NULL, (uint64_t)s->frame_count + s->path[depth]);
    json_close_array(&s->j);
    return 0;
}

static int profile(struct scope *s, const struct model *m, struct names *names, enum metric by,
                   struct error *err)
{
    const struct trace_image *image = model_image(m);
    struct frame_source source = names_source(names, true);
    struct buffer title = {0};
    struct sites sites;
    uint64_t sum = 0;
    int status = 0;
    if (sites_build(&sites, m, &source, by, err))
        return -1;
    buffer_printf(&title, "%s (%u): %s", job_program(image), image->pid, titles[by]);
    json_open_object(&s->j, NULL);
    json_text(&s->j, "type", "sampled");
    json_text(&s->j, "name", buffer_text(&title));
    json_text(&s->j, "unit", by == BY_CALLS || by == BY_TEMPORARY ? "none" : "bytes");
    json_number(&s->j, "startValue", 0);
    for (size_t i = 0; i < sites.count; i++)
        sum += figures_metric(&sites.items[i].figures, by);
    json_number(&s->j, "endValue", sum);
    json_open_array(&s->j, "samples");
    for (size_t i = 0; i < sites.count && !status; i++) {
        if (!figures_metric(&sites.items[i].figures, by))
            break; /* they are in order */
        status = speedscope_put_sample(s, &sites, sites.items[i].tip, err);
        s->job->result->samples++;
    }
    json_close_array(&s->j);
    json_open_array(&s->j, "weights");
    for (size_t i = 0; i < sites.count; i++) {
        uint64_t value = figures_metric(&sites.items[i].figures, by);
        if (!value)
            break;
        json_number(&s->j, NULL, value);
    }
    json_close_array(&s->j);
    json_close_object(&s->j);
    buffer_release(&title);
    sites_release(&sites);
    return status;
}

static int speedscope_write_process(void *arg, const struct model *m, struct names *names,
                                    struct error *err)
{
    struct scope *s = arg;
    const struct export_options *o = s->job->options;
    for (int by = 0; by < METRICS; by++)
        if ((!o->by_given || o->by == (enum metric)by) &&
            profile(s, m, names, (enum metric)by, err))
            return -1;
    for (uint32_t i = 0; i < names_count(names); i++) {
        const struct name_frame *f = names_frame(names, i);
        if (s->frames.size_bytes)
            buffer_append_text(&s->frames, ",\n");
        buffer_append_text(&s->frames, "{\"name\":");
        json_quote(&s->frames, f->function);
        if (f->file) {
            buffer_append_text(&s->frames, ",\"file\":");
            json_quote(&s->frames, f->file);
            if (f->line)
                buffer_printf(&s->frames, ",\"line\":%u", f->line);
        } else if (f->module) {
            buffer_append_text(&s->frames, ",\"file\":");
            json_quote(&s->frames, f->module);
        }
        buffer_append_char(&s->frames, '}');
    }
    s->frame_count += names_count(names);
    return buffer_failed(&s->frames) ? error_memory_for(err, "frames") : 0;
}

int export_speedscope(struct export_job *job, struct error *err)
{
    struct scope s = {.job = job, .j = {.out = job->out}};
    json_open_object(&s.j, NULL);
    json_text(&s.j, "$schema", "https://www.speedscope.app/file-format-schema.json");
    json_text(&s.j, "exporter", "mallow " MALLOW_VERSION);
    json_text(&s.j, "name", job->recording);
    json_number(&s.j, "activeProfileIndex", 0);
    json_open_array(&s.j, "profiles");
    int status = job_models(job, speedscope_write_process, &s, err);
    json_close_to(&s.j, 1);
    json_open_object(&s.j, "shared");
    json_open_array(&s.j, "frames");
    if (s.frames.size_bytes)
        json_raw(&s.j, NULL, s.frames.data, s.frames.size_bytes);
    json_close_to(&s.j, 0);
    json_end(&s.j);
    buffer_release(&s.frames);
    free(s.path);
    return status;
}
