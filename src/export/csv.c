/* csv.c - every event as a row, process by process, each in the order of its time. */
#include <stdlib.h>

#include "analyse/event_name.h"
#include "analyse/group.h"
#include "base/lines.h"
#include "base/text.h"
#include "export/job.h"

struct csv {
    struct export_job *job;
    struct lines *lines;
    struct names *names;
    struct buffer text; /* of the sites so far */
    size_t *sites;      /* by stack: offset in text + 1; 0: not made yet */
};

/* Text in quotes, quotes doubled. */
static void quote(struct buffer *b, const char *s)
{
    struct text_shown c;
    while (*s) {
        s += text_shown(s, &c);
        if (*c.text == '"')
            buffer_append_char(b, '"');
        buffer_append(b, c.text, c.bytes);
    }
}

/* The call site of the stack, as it stands in a row. */
static const char *site(struct csv *c, uint32_t stack)
{
    if (c->sites[stack])
        return c->text.data + c->sites[stack] - 1;
    uint32_t node, position;
    const uint32_t site = names_site(c->names, stack, &node, &position);
    c->sites[stack] = c->text.size_bytes + 1;
    buffer_append_char(&c->text, '"');
    if (site != NO_NAME) {
        const struct name_frame *found = names_frame(c->names, site);
        quote(&c->text, found->function);
        if (found->file) {
            buffer_append_text(&c->text, " (");
            quote(&c->text, found->file);
            buffer_printf(&c->text, ":%u)", found->line);
        } else if (found->module) {
            buffer_append_text(&c->text, " (");
            quote(&c->text, found->module);
            buffer_append_char(&c->text, ')');
        }
    }
    buffer_append(&c->text, "\"", 2); /* with the NUL */
    return buffer_text(&c->text) + c->sites[stack] - 1;
}

static int batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                 struct error *err)
{
    struct csv *c = arg;
    struct lines *l = c->lines;
    const struct trace_image *image = f->image;
    for (size_t i = 0; i < b->n; i++) {
        if (!job_event_passes(f, b, i))
            continue;
        lines_number(l, b->time_ns[i], 0);
        lines_char(l, ',');
        lines_number(l, image->pid, 0);
        lines_char(l, ',');
        lines_number(l, image->threads[b->thread[i]].tid, 0);
        lines_char(l, ',');
        if (b->kind[i] != TRACE_FREE_INFERRED)
            lines_put(l, event_name(b->op[i]));
        lines_char(l, ',');
        lines_put(l, event_kind_name(b->kind[i]));
        lines_char(l, ',');
        if (b->address[i])
            lines_hex(l, b->address[i]);
        lines_char(l, ',');
        if (b->size[i] || b->kind[i] == TRACE_ALLOC)
            lines_number(l, b->size[i], 0);
        lines_char(l, ',');
        if (b->kind[i] == TRACE_ALLOC)
            lines_number(l, b->usable[i], 0);
        lines_char(l, ',');
        if (b->slot[i] != TRACE_NO_SLOT)
            lines_number(l, b->slot[i], 0);
        lines_char(l, ',');
        if (b->argument[i])
            lines_hex(l, b->argument[i]);
        lines_char(l, ',');
        const char *between = "";
        for (unsigned bit = 0; b->path[i] >> bit; bit++)
            if (b->path[i] >> bit & 1) {
                lines_put(l, between);
                lines_put(l, event_path_name(bit));
                between = " ";
            }
        lines_char(l, ',');
        if (b->stack[i]) {
            lines_number(l, b->stack[i], 0);
            lines_char(l, ',');
            lines_put(l, site(c, b->stack[i]));
        } else {
            lines_char(l, ',');
        }
        lines_char(l, '\n');
        c->job->result->samples++;
    }
    return buffer_failed(&c->text) ? error_memory_for(err, "call sites") : 0;
}

int export_csv(struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct csv c = {.job = job};
    int status = 0;
    c.lines = malloc(sizeof *c.lines);
    if (!c.lines)
        return error_memory(err);
    c.lines->out = job->out;
    c.lines->used = 0;
    lines_put(c.lines,
              "time_ns,pid,tid,call,kind,address,size_bytes,usable_bytes,slot,argument,path,"
              "stack,site\n");
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        if (!job_has(job, &info->images[i]))
            continue;
        buffer_clear(&c.text);
        c.names = names_new(job->symbols, &info->images[i], err);
        c.sites = calloc((size_t)info->images[i].stacks + 1, sizeof *c.sites);
        status = !c.names   ? -1
                 : !c.sites ? error_memory_for(err, "call sites")
                            : job_events(job, i, c.names, batch, &c, err);
        names_free(c.names);
        free(c.sites);
    }
    lines_flush(c.lines);
    buffer_release(&c.text);
    free(c.lines);
    return status;
}
