/* ctf.c - a trace in the Common Trace Format 1.8: a directory with a description (metadata) and two
 * files for each process, its calls and what happened beside them.
 *
 * A stack is described by `frame` events just before the first call that names it. Packets are made
 * in memory, because their head says how long they are. All fields are aligned to bytes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/event_name.h"
#include "export/job.h"
#include "trust/place.h"

#define PACKET_BYTES (1u << 17)
#define PACKET_HEAD  52u /* header 8, context 44 */
#define MAGIC        0xc1fc1fc1u

#define EVENT_HEAD       13u
#define EVENT_FIELDS_MAX 64u

enum { STREAM_CALLS = 0, STREAM_STATE = 1 };
enum { EVENT_FRAME = 40, EVENT_PROCESS, EVENT_THREAD, EVENT_MARK, EVENT_RESIDENT, EVENT_END };

struct stream {
    FILE *out;
    struct lines lines; /* that write to it */
    struct buffer packet;
    uint64_t first_ns, last_ns;
    uint32_t id, pid, image;
};

struct ctf {
    struct export_job *job;
    int directory;
    struct names *names;
    struct stream calls;
    uint8_t *described; /* by node */
};

static void put16(uint8_t *p, uint16_t v) { memcpy(p, &v, 2); }
static void ctf_put32(uint8_t *p, uint32_t v) { memcpy(p, &v, 4); }
static void ctf_put64(uint8_t *p, uint64_t v) { memcpy(p, &v, 8); }

/* Writes the packet; lost: events of the stream that are missing so far. */
static void flush_packet(struct stream *s, uint64_t lost)
{
    if (buffer_failed(&s->packet) || s->packet.size_bytes < PACKET_HEAD || !s->lines.text)
        return;
    uint8_t *p = (uint8_t *)s->packet.data;
    ctf_put32(p, MAGIC);
    ctf_put32(p + 4, s->id);
    ctf_put64(p + 8, s->first_ns);
    ctf_put64(p + 16, s->last_ns);
    ctf_put64(p + 24, (uint64_t)s->packet.size_bytes * 8);
    ctf_put64(p + 32, (uint64_t)s->packet.size_bytes * 8);
    ctf_put64(p + 40, lost);
    ctf_put32(p + 48, s->pid);
    lines_bytes(&s->lines, p, s->packet.size_bytes);
    buffer_clear(&s->packet);
}

static void begin_packet(struct stream *s, uint64_t time_ns)
{
    static const uint8_t zeros[PACKET_HEAD];
    buffer_append(&s->packet, zeros, sizeof zeros);
    s->first_ns = time_ns;
}

/* The head of an event. Returns the place of the fields that follow it, with room for
 * EVENT_FIELDS_MAX; end_event says how many were written. NULL without memory. */
static inline uint8_t *begin_event(struct stream *s, unsigned id, uint64_t time_ns, uint32_t tid)
{
    if (s->packet.size_bytes >= PACKET_BYTES)
        flush_packet(s, 0);
    if (!s->packet.size_bytes)
        begin_packet(s, time_ns);
    s->last_ns = time_ns;
    uint8_t *p = (uint8_t *)buffer_room(&s->packet, EVENT_HEAD + EVENT_FIELDS_MAX);
    if (!p)
        return NULL;
    p[0] = (uint8_t)id;
    ctf_put64(p + 1, time_ns);
    ctf_put32(p + 9, tid);
    return p + EVENT_HEAD;
}

static inline void end_event(struct stream *s, size_t bytes)
{
    buffer_extend(&s->packet, EVENT_HEAD + bytes);
}

static void ctf_put_event(struct stream *s, unsigned id, uint64_t time_ns, uint32_t tid,
                          const void *fields, size_t bytes)
{
    uint8_t *p = begin_event(s, id, time_ns, tid);
    if (!p)
        return;
    if (bytes)
        memcpy(p, fields, bytes);
    end_event(s, bytes);
}

static void ctf_put_text(struct stream *s, const char *text)
{
    text = text ? text : "";
    buffer_append(&s->packet, text, strlen(text) + 1);
}

/* Events of an address only; op 0 is an inferred release. */
static bool is_short(unsigned op) { return !mlw_op_has(op, MLW_F_SIZE); }

static void describe_stack(struct ctf *c, const struct trace_image *image, uint32_t stack,
                           uint64_t time_ns, uint32_t tid)
{
    for (uint32_t node = stack; node && !c->described[node]; node = trace_caller(image, node)) {
        const uint32_t *ids;
        size_t n = names_of(c->names, node, &ids);
        c->described[node] = 1;
        for (size_t i = 0; i < n; i++) {
            const struct name_frame *f = names_frame(c->names, ids[i]);
            uint8_t fields[23];
            ctf_put32(fields, node);
            ctf_put32(fields + 4, trace_caller(image, node));
            ctf_put64(fields + 8, trace_node(image, node)->pc);
            put16(fields + 16, (uint16_t)i);
            fields[18] = f->inlined;
            ctf_put32(fields + 19, f->line);
            ctf_put_event(&c->calls, EVENT_FRAME, time_ns, tid, fields, sizeof fields);
            ctf_put_text(&c->calls, f->function);
            ctf_put_text(&c->calls, f->file);
            ctf_put_text(&c->calls, f->module);
        }
    }
}

static int ctf_add_batch(void *arg, const struct job_filter *f, const struct trace_batch *b,
                         struct error *err)
{
    struct ctf *c = arg;
    const struct trace_image *image = f->image;
    for (size_t i = 0; i < b->n; i++) {
        if (!job_event_passes(f, b, i))
            continue;
        const uint32_t tid = image->threads[b->thread[i]].tid;
        if (b->stack[i] && !c->described[b->stack[i]])
            describe_stack(c, image, b->stack[i], b->time_ns[i], tid);
        uint8_t *fields = begin_event(&c->calls, b->op[i], b->time_ns[i], tid);
        if (!fields)
            break;
        fields[0] = b->kind[i];
        fields[1] = b->path[i];
        ctf_put64(fields + 2, b->address[i]);
        ctf_put32(fields + 10, b->slot[i]);
        ctf_put64(fields + 14, b->size[i]);
        ctf_put64(fields + 22, b->usable[i]);
        ctf_put64(fields + 30, b->argument[i]);
        ctf_put32(fields + 38, b->stack[i]);
        end_event(&c->calls, is_short(b->op[i]) ? 14 : 42);
        c->job->result->samples++;
    }
    if (buffer_failed(&c->calls.packet))
        return error_memory_for(err, "a packet");
    return lines_failed(&c->calls.lines) ? error_system(err, "cannot write into %s", c->job->output)
                                         : 0;
}

static FILE *create(const struct ctf *c, const char *name, struct error *err)
{
    struct trust_place file = {.dir = c->directory, .path = name};
    snprintf(file.name, sizeof file.name, "%s", name);
    int fd = trust_create(&file, 0666, err);
    if (fd < 0) {
        error_prefix(err, "cannot write into %s", c->job->output);
        return NULL;
    }
    FILE *f = fdopen(fd, "wb");
    if (!f) {
        error_system(err, "cannot create %s/%s", c->job->output, name);
        close(fd);
    }
    return f;
}

/* Creates the stream's file. */
static int open_stream(struct stream *s, const struct ctf *c, unsigned threads, const char *kind,
                       struct error *err)
{
    char name[64];
    snprintf(name, sizeof name, "%s-%u-%u", kind, s->image, s->pid);
    s->out = create(c, name, err);
    if (!s->out)
        return -1;
    return lines_open(&s->lines, s->out, threads) ? error_memory(err) : 0;
}

static int finish_ctf_stream(struct stream *s, uint64_t lost, const char *directory, int status,
                             struct error *err)
{
    bool memory = buffer_failed(&s->packet);
    flush_packet(s, lost);
    buffer_release(&s->packet);
    lines_close(&s->lines);
    bool bad = lines_failed(&s->lines);
    if (s->out && fclose(s->out))
        bad = true;
    if (status)
        return -1;
    if (memory)
        return error_memory_for(err, "a packet");
    return bad ? error_system(err, "cannot write into %s", directory) : 0;
}

static int ctf_write_calls(struct ctf *c, uint32_t index, struct error *err)
{
    const struct trace_image *image = &trace_info(c->job->trace)->images[index];
    int status = -1;
    c->calls = (struct stream){.id = STREAM_CALLS, .pid = image->pid, .image = index};
    c->described = calloc((size_t)image->stacks + 1, 1);
    c->names = names_new(c->job->symbols, image, err);
    if (!c->described)
        error_memory(err);
    else if (c->names && !open_stream(&c->calls, c, c->job->options->threads, "calls", err))
        status = job_events(c->job, index, c->names, ctf_add_batch, c, err);
    status = finish_ctf_stream(&c->calls, image->lost_calls, c->job->output, status, err);
    names_free(c->names);
    free(c->described);
    return status;
}

/* --- what happens beside the calls --- */

struct moment {
    uint64_t time_ns;
    uint32_t index;
    uint8_t event;
};

static int compare_event_times(const void *a, const void *b)
{
    const struct moment *x = a, *y = b;
    if (x->time_ns != y->time_ns)
        return x->time_ns < y->time_ns ? -1 : 1;
    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

static void put_moment(struct stream *s, const struct trace_image *image, const struct moment *m)
{
    uint8_t fields[24];
    uint32_t tid = image->pid;
    switch (m->event) {
    case EVENT_PROCESS:
        ctf_put32(fields, image->ppid);
        ctf_put_event(s, EVENT_PROCESS, m->time_ns, tid, fields, 4);
        ctf_put_text(s, image->exe);
        ctf_put_text(s, image->allocator);
        break;
    case EVENT_THREAD:
        tid = image->threads[m->index].tid;
        ctf_put_event(s, EVENT_THREAD, m->time_ns, tid, NULL, 0);
        ctf_put_text(s, image->threads[m->index].name);
        break;
    case EVENT_MARK:
        if (image->event_notes[m->index].thread < image->thread_count)
            tid = image->threads[image->event_notes[m->index].thread].tid;
        fields[0] = image->event_notes[m->index].control;
        ctf_put_event(s, EVENT_MARK, m->time_ns, tid, fields, 1);
        ctf_put_text(s, image->event_notes[m->index].label);
        break;
    case EVENT_RESIDENT:
        ctf_put64(fields, image->resident[m->index].vmsize);
        ctf_put64(fields + 8, image->resident[m->index].rss);
        ctf_put64(fields + 16, image->resident[m->index].rss_shared);
        ctf_put_event(s, EVENT_RESIDENT, m->time_ns, tid, fields, 24);
        break;
    default:
        fields[0] = (uint8_t)image->end_how;
        ctf_put32(fields + 1, image->end_status);
        ctf_put_event(s, EVENT_END, m->time_ns, tid, fields, 5);
    }
}

static int write_state(struct ctf *c, uint32_t index, struct error *err)
{
    const struct trace_image *image = &trace_info(c->job->trace)->images[index];
    const struct export_options *o = c->job->options;
    struct stream s = {.id = STREAM_STATE, .pid = image->pid, .image = index};
    size_t n = 0;
    struct moment *m = calloc(
        (size_t)image->thread_count + image->note_count + image->resident_count + 2, sizeof *m);
    if (!m)
        return error_memory(err);
    if (open_stream(&s, c, 1, "state", err)) {
        free(m);
        return finish_ctf_stream(&s, 0, c->job->output, -1, err);
    }
    m[n++] = (struct moment){image->start_ns, 0, EVENT_PROCESS};
    for (uint32_t i = 0; i < image->thread_count; i++)
        m[n++] = (struct moment){image->threads[i].start_ns, i, EVENT_THREAD};
    for (uint32_t i = 0; i < image->note_count; i++)
        m[n++] = (struct moment){image->event_notes[i].time_ns, i, EVENT_MARK};
    for (uint32_t i = 0; i < image->resident_count; i++)
        m[n++] = (struct moment){image->resident[i].clock, i, EVENT_RESIDENT};
    m[n++] = (struct moment){image->end_ns, 0, EVENT_END};
    qsort(m, n, sizeof *m, compare_event_times);
    for (size_t i = 0; i < n; i++)
        if (selection_has_time(&o->select, m[i].time_ns))
            put_moment(&s, image, &m[i]);
    free(m);
    return finish_ctf_stream(&s, 0, c->job->output, 0, err);
}

static int write_metadata(struct ctf *c, struct error *err)
{
    const struct trace_info *info = trace_info(c->job->trace);
    FILE *f = create(c, "metadata", err);
    if (!f)
        return -1;
    fputs("/* CTF 1.8 */\n"
          "typealias integer { size = 8; align = 8; signed = false; } := uint8_t;\n"
          "typealias integer { size = 16; align = 8; signed = false; } := uint16_t;\n"
          "typealias integer { size = 32; align = 8; signed = false; } := uint32_t;\n"
          "typealias integer { size = 64; align = 8; signed = false; } := uint64_t;\n"
          "typealias integer { size = 64; align = 8; signed = false; base = 16; } := address_t;\n"
          "trace {\n\tmajor = 1;\n\tminor = 8;\n\tbyte_order = le;\n"
          "\tpacket.header := struct { uint32_t magic; uint32_t stream_id; };\n};\n",
          f);
    fputs("env {\n\ttracer_name = \"mallow\";\n\ttracer_version = \"" MALLOW_VERSION "\";\n};\n",
          f);
    fprintf(f,
            "clock {\n\tname = recording;\n\tfreq = 1000000000;\n\toffset_s = %llu;\n"
            "\toffset = %llu;\n\tabsolute = true;\n};\n",
            (unsigned long long)(info->start_realtime_ns / 1000000000u),
            (unsigned long long)(info->start_realtime_ns % 1000000000u));
    fputs(
        "typealias integer { size = 64; align = 8; signed = false; map = clock.recording.value; } "
        ":= "
        "time_t;\n"
        "enum kind : uint8_t { alloc = 0, free = 1, free_temporary = 2, free_unknown = 3, "
        "free_inferred = 4, other = 5 };\n"
        "enum control : uint8_t { mark = 0, start = 1, stop = 2, pause = 3, unpause = 4, sync = 5, "
        "reset = 6 };\n"
        "enum how : uint8_t { unknown = 0, exit = 1, exec = 2, killed = 3 };\n",
        f);
    for (unsigned id = 0; id < 2; id++)
        fprintf(
            f,
            "stream {\n\tid = %u;\n"
            "\tevent.header := struct { uint8_t id; time_t timestamp; };\n"
            "\tevent.context := struct { uint32_t tid; };\n"
            "\tpacket.context := struct { time_t timestamp_begin; time_t timestamp_end; uint64_t "
            "content_size; uint64_t packet_size; uint64_t events_discarded; uint32_t pid; };\n};\n",
            id);
    for (unsigned op = 0; op < MLW_OP_COUNT; op++) {
        if (op && mlw_op_class(op) == MLW_CLASS_NONE)
            continue;
        const char *name = op ? event_name(op) : "free_unseen";
        fputs("event {\n\tname = \"", f);
        for (; *name; name++)
            fputc(*name == '-' ? '_' : *name, f);
        fprintf(
            f,
            "\";\n\tid = %u;\n\tstream_id = 0;\n\tfields := struct { enum kind kind; uint8_t path; "
            "address_t address; uint32_t slot;%s };\n};\n",
            op,
            is_short(op) ? ""
                         : " uint64_t size; uint64_t usable; address_t argument; uint32_t stack;");
    }
    fprintf(
        f,
        "event {\n\tname = \"frame\";\n\tid = %d;\n\tstream_id = 0;\n\tfields := struct { uint32_t "
        "stack; uint32_t parent; address_t pc; uint16_t inline_depth; uint8_t inlined; uint32_t "
        "line; "
        "string function; string file; string module; };\n};\n",
        EVENT_FRAME);
    static const struct {
        int id;
        const char *name, *fields;
    } states[] = {{EVENT_PROCESS, "process", "uint32_t ppid; string exe; string allocator;"},
                  {EVENT_THREAD, "thread", "string name;"},
                  {EVENT_MARK, "mark", "enum control control; string label;"},
                  {EVENT_RESIDENT, "resident", "uint64_t vmsize; uint64_t rss; uint64_t shared;"},
                  {EVENT_END, "end", "enum how how; uint32_t status;"}};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        fprintf(f,
                "event {\n\tname = \"%s\";\n\tid = %d;\n\tstream_id = 1;\n\tfields := struct { %s "
                "};\n};\n",
                states[i].name, states[i].id, states[i].fields);
    int bad = ferror(f);
    bad |= fclose(f);
    return bad ? error_system(err, "cannot write %s/metadata", c->job->output) : 0;
}

/* Its descriptor. */
static int make_directory(const char *path, struct error *err)
{
    struct trust_place place;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    char *name = strndup(path, n);
    if (!name)
        return error_memory(err);
    int fd = -1;
    if (!trust_place_open(&place, name, err)) {
        fd = trust_make_directory(&place, 0777, err);
        trust_place_close(&place);
    } else if (err->number == EISDIR) {
        errno = EEXIST;
        error_system(err, "cannot make the directory %s", path);
    } else {
        trust_unreachable(err, "cannot make the directory", path);
    }
    free(name);
    return fd;
}

int export_ctf(struct export_job *job, struct error *err)
{
    const struct trace_info *info = trace_info(job->trace);
    struct ctf c = {.job = job, .directory = make_directory(job->output, err)};
    if (c.directory < 0)
        return -1;
    int status = write_metadata(&c, err);
    for (uint32_t i = 0; i < info->image_count && !status; i++)
        if (job_has(job, &info->images[i]) &&
            (ctf_write_calls(&c, i, err) || write_state(&c, i, err)))
            status = -1;
    close(c.directory);
    return status;
}
