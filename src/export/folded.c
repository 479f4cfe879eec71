/* folded.c - a line for each call stack: frames from the outermost, with ';' between them, a blank,
 * the value. */
#include <stdlib.h>

#include "base/array.h"
#include "base/lines.h"
#include "base/text.h"
#include "export/job.h"

struct folded {
    struct export_job *job;
    struct lines lines;
    bool several;
    uint32_t *path;
    size_t room;
};

/* Frames are kept apart by ';', so it may not stand in them. */
static void folded_put_frame(struct lines *l, const char *name)
{
    struct text_shown c;
    for (const char *s = name; *s;) {
        s += text_shown(s, &c);
        lines_bytes(l, *c.text == ';' ? ":" : c.text, c.bytes);
    }
}

static int folded_write_process(void *arg, const struct model *m, struct names *names,
                                struct error *err)
{
    struct folded *f = arg;
    const enum metric by = f->job->options->by;
    const struct trace_image *image = model_image(m);
    struct frame_source source = names_source(names, true);
    struct sites sites;
    int status = 0;
    if (sites_build(&sites, m, &source, by, err))
        return -1;
    for (size_t i = 0; i < sites.count && !status; i++) {
        uint64_t value = figures_metric(&sites.items[i].figures, by);
        size_t depth = 0;
        if (!value)
            break; /* they are in order */
        for (uint32_t at = sites.items[i].tip; at; at = sites.parent[at]) {
            if (!ARRAY_ROOM(f->path, depth + 1, f->room)) {
                status = error_memory_for(err, "a stack");
                break;
            }
            f->path[depth++] = sites.frame[at];
        }
        if (f->several) {
            folded_put_frame(&f->lines, job_program(image));
            lines_put(&f->lines, " (");
            lines_number(&f->lines, image->pid, 0);
            lines_put(&f->lines, depth ? ");" : ");[no stack recorded]");
        } else if (!depth) {
            lines_put(&f->lines, "[no stack recorded]");
        }
        while (depth--) {
            folded_put_frame(&f->lines, names_frame(names, f->path[depth])->function);
            if (depth)
                lines_char(&f->lines, ';');
        }
        lines_char(&f->lines, ' ');
        lines_number(&f->lines, value, 0);
        lines_char(&f->lines, '\n');
        f->job->result->samples++;
    }
    sites_release(&sites);
    return status;
}

int export_folded(struct export_job *job, struct error *err)
{
    struct folded f = {.job = job, .several = job_processes(job) > 1};
    if (job_lines_open(job, &f.lines, err))
        return -1;
    int status = job_models(job, folded_write_process, &f, err);
    free(f.path);
    return job_lines_close(job, status, err);
}
