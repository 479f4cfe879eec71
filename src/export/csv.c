/* csv.c - every event as a row, process by process, each in the order of its time. */
#include <stdlib.h>
#include <string.h>

#include "analyse/event_name.h"
#include "analyse/group.h"
#include "base/digits.h"
#include "base/lines.h"
#include "base/text.h"
#include "export/job.h"

/* For a row up to its call site: nine numbers, and words. */
#define ROW_ROOM 512u

struct word {
    char text[32];
    size_t bytes;
};

struct csv {
    struct export_job *job;
    struct lines lines;
    struct names *names;
    struct buffer text; /* texts of the sites so far, each behind its length */
    size_t *sites;      /* by stack: offset in text + 1; 0: not made yet */
    const struct trace_image *image;
    uint32_t thread; /* the thread of the row before; who: the value that stands for it in a row */
    struct word who;
    struct digits_near time;
    struct word calls[MLW_OP_COUNT], kinds[TRACE_OTHER + 1];
};

static char *csv_put_text(char *p, const char *s)
{
    const size_t n = strlen(s);
    memcpy(p, s, n);
    return p + n;
}

static inline char *csv_put_word(char *p, const struct word *w)
{
    memcpy(p, w->text, sizeof w->text);
    return p + w->bytes;
}

/* The word with the comma behind it. */
static struct word make_csv_word(const char *text)
{
    struct word w;
    char *end = csv_put_text(w.text, text);
    *end++ = ',';
    w.bytes = (size_t)(end - w.text);
    return w;
}

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
static const char *csv_site_text(struct csv *c, uint32_t stack, size_t *bytes)
{
    if (!c->sites[stack]) {
        const size_t at = c->text.size_bytes;
        uint32_t node, position;
        const uint32_t site = names_site(c->names, stack, &node, &position);
        c->sites[stack] = at + 1;
        buffer_append(&c->text, &(size_t){0}, sizeof(size_t));
        buffer_append_char(&c->text, '"');
        if (site != NO_NAME) {
            const struct name_frame *found = names_frame(c->names, site);
            quote(&c->text, found->function);
            if (found->file) {
                buffer_append_text(&c->text, " (");
                quote(&c->text, found->file);
                if (found->line)
                    buffer_printf(&c->text, ":%u", found->line);
                buffer_append_char(&c->text, ')');
            } else if (found->module) {
                buffer_append_text(&c->text, " (");
                quote(&c->text, found->module);
                buffer_append_char(&c->text, ')');
            }
        }
        buffer_append_char(&c->text, '"');
        if (buffer_failed(&c->text))
            return NULL;
        const size_t n = c->text.size_bytes - at - sizeof n;
        memcpy(c->text.data + at, &n, sizeof n);
    }
    const char *text = c->text.data + c->sites[stack] - 1;
    memcpy(bytes, text, sizeof *bytes);
    return text + sizeof *bytes;
}

static __attribute__((noinline)) void set_thread(struct csv *c, uint32_t thread)
{
    char *p = c->who.text;
    *p++ = ',';
    p = digits_put(p, c->image->pid);
    *p++ = ',';
    p = digits_put(p, c->image->threads[thread].tid);
    *p++ = ',';
    c->who.bytes = (size_t)(p - c->who.text);
    c->thread = thread;
}

static __attribute__((noinline)) char *put_path(char *p, unsigned path)
{
    const char *between = "";
    for (unsigned bit = 0; path >> bit; bit++)
        if (path >> bit & 1) {
            p = csv_put_text(csv_put_text(p, between), event_path_name(bit));
            between = " ";
        }
    return p;
}

/* A row up to its call site. */
static inline char *csv_put_row(struct csv *c, char *p, const struct trace_batch *b, size_t i)
{
    const unsigned kind = b->kind[i];
    p = csv_put_word(digits_put_near(p, &c->time, b->time_ns[i]), &c->who);
    if (kind != TRACE_FREE_INFERRED)
        p = csv_put_word(p, &c->calls[b->op[i] & (MLW_OP_COUNT - 1)]);
    else
        *p++ = ',';
    p = csv_put_word(p, &c->kinds[kind]);
    if (b->address[i]) {
        memcpy(p, "0x", 2);
        p = digits_hex(p + 2, b->address[i]);
    }
    *p++ = ',';
    if (b->size[i] || kind == TRACE_ALLOC)
        p = digits_put(p, b->size[i]);
    *p++ = ',';
    if (kind == TRACE_ALLOC)
        p = digits_put(p, b->usable[i]);
    *p++ = ',';
    if (b->slot[i] != TRACE_NO_SLOT)
        p = digits_put(p, b->slot[i]);
    *p++ = ',';
    if (b->argument[i]) {
        memcpy(p, "0x", 2);
        p = digits_hex(p + 2, b->argument[i]);
    }
    *p++ = ',';
    if (b->path[i])
        p = put_path(p, b->path[i]);
    *p++ = ',';
    if (b->stack[i])
        p = digits_put(p, b->stack[i]);
    *p++ = ',';
    return p;
}

static int csv_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                         struct error *err)
{
    struct csv *c = arg;
    struct lines *l = &c->lines;
    for (size_t i = 0; i < b->n; i++) {
        if (!job_event_passes(f, b, i))
            continue;
        if (b->thread[i] != c->thread)
            set_thread(c, b->thread[i]);
        char *p = csv_put_row(c, lines_room(l, ROW_ROOM), b, i);
        if (b->stack[i]) {
            size_t n;
            const char *text = csv_site_text(c, b->stack[i], &n);
            if (!text)
                return error_memory_for(err, "call sites");
            lines_end(l, p);
            lines_bytes(l, text, n);
            p = lines_room(l, 64);
        }
        *p++ = ',';
        if (b->route[i])
            p = csv_put_text(p, mlw_route_name(b->route[i]));
        *p++ = '\n';
        lines_end(l, p);
        c->job->result->samples++;
    }
    return 0;
}

int export_csv(struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct csv c = {.job = job};
    int status = 0;
    for (unsigned op = 0; op < MLW_OP_COUNT; op++)
        c.calls[op] = make_csv_word(event_name(op));
    for (unsigned kind = 0; kind <= TRACE_OTHER; kind++)
        c.kinds[kind] = make_csv_word(event_kind_name(kind));
    if (job_lines_open(job, &c.lines, err))
        return -1;
    lines_put(&c.lines,
              "time_ns,pid,tid,call,kind,address,size_bytes,usable_bytes,slot,argument,path,"
              "stack,site,route\n");
    for (uint32_t i = 0; i < info->image_count && !status; i++) {
        if (!job_has(job, &info->images[i]))
            continue;
        buffer_clear(&c.text);
        c.image = &info->images[i];
        c.thread = UINT32_MAX;
        c.names = names_new(job->symbols, &info->images[i], err);
        c.sites = calloc((size_t)info->images[i].stacks + 1, sizeof *c.sites);
        status = !c.names   ? -1
                 : !c.sites ? error_memory_for(err, "call sites")
                            : job_events(job, i, c.names, csv_add_batch, &c, err);
        names_free(c.names);
        free(c.sites);
    }
    buffer_release(&c.text);
    return job_lines_close(job, status, err);
}
