/* rows.c - Writes rows and chunks of an unsealed recording into a temporary file, and seals it
 * at the end. Each call gets a later clock value than the one before, so that merging the
 * threads keeps their order. A failed write or allocation is remembered and reported by
 * rows_finish. */
#include "import/rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch/page.h"
#include "base/array.h"
#include "base/buffer.h"
#include "trace/trace.h"
#include "trust/place.h"

/* The clock of the recording counts nanoseconds; 0 is no time, so it begins here. */
#define CLOCK_START 1000000000u
#define PAYLOAD     (1u << 16)
#define NAMES_MAX   (1u << 20) /* bytes of names in a chunk */

/* A program image. */
struct part {
    uint32_t pid, threads;
    struct buffer resident, notes; /* notes: TLVs */
    uint64_t lost_calls, start_clock, end_clock;
    uint32_t end_how, end_status;
    bool ended;
};

struct stream {
    uint32_t image;
    struct mlw_chunk head;
    struct mlw_row_state state;
    uint8_t *payload, *p;
};

struct name { /* a record of rows->names */
    uint64_t pc;
    size_t offset, bytes, sequence;
};

struct rows {
    FILE *out;
    char *path;
    struct trust_place place; /* from rows_new: the sealed file's path, and its source */
    struct trust_draft raw;
    bool beside;
    struct stream *streams; /* by thread */
    uint32_t stream_count, stream_room;
    struct part *parts; /* by image */
    uint32_t part_count, part_room;
    struct buffer names;
    struct name *index;
    size_t name_count, name_room;
    uint64_t calls, last_clock;
    bool no_memory;
};

/* image: 1 + its number, 0 for the whole recording, as in the file. */
static void chunk(struct rows *r, struct mlw_chunk *h, const void *payload, size_t n)
{
    h->magic = MLW_CHUNK_MAGIC;
    h->header_bytes = sizeof *h;
    h->payload_bytes = (uint32_t)n;
    h->pid = r->parts[h->image ? h->image - 1 : 0].pid;
    h->checksum = mlw_chunk_checksum(h, payload);
    fwrite(h, sizeof *h, 1, r->out);
    fwrite(payload, 1, n, r->out);
}

static void tlv(struct buffer *b, uint16_t tag, const void *data, size_t n)
{
    static const char zeros[8];
    uint16_t words[2] = {tag, 0};
    uint32_t bytes = (uint32_t)n;
    buffer_append(b, words, sizeof words);
    buffer_append(b, &bytes, 4);
    buffer_append(b, data, n);
    buffer_append(b, zeros, -n & 7);
}

static void rows_tlv_text(struct buffer *b, uint16_t tag, const char *text)
{
    if (text)
        tlv(b, tag, text, strlen(text));
}

static void tlv_u32(struct buffer *b, uint16_t tag, uint32_t v) { tlv(b, tag, &v, 4); }

static void tlv_chunk(struct rows *r, struct mlw_chunk *h, struct buffer *b)
{
    if (buffer_failed(b))
        r->no_memory = true;
    else
        chunk(r, h, b->data, b->size_bytes);
    buffer_release(b);
}

static struct part *new_part(struct rows *r)
{
    if (!ARRAY_ROOM(r->parts, r->part_count + 1, r->part_room)) {
        r->no_memory = true;
        return NULL;
    }
    r->parts[r->part_count] = (struct part){.pid = 1, .end_how = MLW_END_EXIT};
    return &r->parts[r->part_count++];
}

/* Each is later than the one before, so that no merge of threads changes their order. */
static uint64_t next_clock(struct rows *r, uint64_t time_ns)
{
    const uint64_t clock = CLOCK_START + time_ns;
    r->last_clock = clock > r->last_clock ? clock : r->last_clock + 1;
    return r->last_clock;
}

static struct rows *begin_rows(struct rows *r, struct error *err)
{
    r->last_clock = CLOCK_START;
    if (new_part(r))
        return r;
    error_memory(err);
    rows_abandon(r);
    return NULL;
}

static struct rows *make_rows_file(const char *out, struct error *err)
{
    struct rows *r = calloc(1, sizeof *r);
    if (r && !(r->path = strdup(out))) {
        free(r);
        r = NULL;
    }
    if (!r)
        error_memory(err);
    else
        r->place.dir = r->raw.fd = -1;
    return r;
}

/* As a file that is created gets it. */
static mode_t usual_mode(void)
{
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

struct rows *rows_new(const char *out, struct error *err)
{
    struct rows *r = make_rows_file(out, err);
    if (!r)
        return NULL;
    int fd = -1;
    if (!trust_place_open(&r->place, r->path, err) &&
        !trust_draft_open(&r->raw, &r->place, ".part-", err)) {
        r->beside = true;
        if (fchmod(r->raw.fd, usual_mode()) || (fd = trust_again(r->raw.fd, TRUST_WRITE)) < 0 ||
            !(r->out = fdopen(fd, "wb")))
            error_system(err, "cannot create a file beside %s", out);
    }
    if (r->out)
        return begin_rows(r, err);
    if (fd >= 0)
        close(fd);
    rows_abandon(r);
    return NULL;
}

struct rows *rows_new_on(int fd, const char *out, struct error *err)
{
    struct rows *r = make_rows_file(out, err);
    if (r && (r->out = fdopen(fd, "ab")))
        return begin_rows(r, err);
    error_memory(err);
    close(fd);
    rows_abandon(r);
    return NULL;
}

static void describe_rows_image(struct rows *r, uint32_t image, const struct rows_process *p,
                                const uint64_t start[3])
{
    struct mlw_chunk process = {.type = MLW_CHUNK_PROCESS, .image = image + 1, .tid = p->pid};
    struct buffer b = {0};
    const uint64_t from = p->forked_from;
    r->parts[image].pid = p->pid;
    tlv(&b, MLW_TLV_START, start, 3 * sizeof *start);
    if (p->ppid)
        tlv_u32(&b, MLW_TLV_PPID, p->ppid);
    if (from)
        tlv(&b, MLW_TLV_FORKED_FROM, &from, sizeof from);
    if (p->command) { /* arguments end in NULs */
        char *words = strdup(p->command);
        if (!words)
            r->no_memory = true;
        size_t n = strlen(p->command) + 1;
        for (size_t i = 0; words && i < n; i++)
            if (words[i] == ' ')
                words[i] = 0;
        if (words) {
            tlv(&b, MLW_TLV_COMMAND, words, n);
            rows_tlv_text(&b, MLW_TLV_EXE, words);
        }
        free(words);
    }
    if (p->arguments && p->argument_bytes)
        tlv(&b, MLW_TLV_COMMAND, p->arguments, p->argument_bytes);
    rows_tlv_text(&b, MLW_TLV_EXE, p->exe);
    rows_tlv_text(&b, MLW_TLV_ALLOCATOR, p->allocator);
    rows_tlv_text(&b, MLW_TLV_NOTE, p->note);
    tlv_u32(&b, MLW_TLV_STACKS, p->stack_mode);
    tlv_u32(&b, MLW_TLV_PAGE_BYTES, (uint32_t)ARCH_PAGE_BYTES);
    tlv_chunk(r, &process, &b);
}

void rows_process(struct rows *r, const struct rows_process *p)
{
    const uint64_t start[3] = {CLOCK_START, CLOCK_START, p->start_realtime_ns};
    struct mlw_chunk file = {.type = MLW_CHUNK_FILE};
    struct buffer b = {0};
    r->parts[0].pid = p->pid;
    tlv_u32(&b, MLW_TLV_VERSION, MLW_FORMAT_PLAIN);
    tlv_u32(&b, MLW_TLV_CLOCK_KIND, MLW_CLOCK_MONOTONIC_NS);
    tlv(&b, MLW_TLV_START, start, sizeof start);
    rows_tlv_text(&b, MLW_TLV_TOOL, p->tool);
    tlv_chunk(r, &file, &b);
    describe_rows_image(r, 0, p, start);
}

uint32_t rows_image(struct rows *r, const struct rows_process *p, uint64_t time_ns)
{
    struct part *part = new_part(r);
    if (!part)
        return 0;
    const uint32_t image = (uint32_t)(part - r->parts);
    const uint64_t clock = part->start_clock = next_clock(r, time_ns);
    const uint64_t start[3] = {clock, clock, p->start_realtime_ns + (clock - CLOCK_START)};
    describe_rows_image(r, image, p, start);
    return image;
}

/* --- rows --- */

static void flush_rows(struct rows *r, struct stream *s)
{
    size_t n = (size_t)(s->p - s->payload);
    if (!n)
        return;
    s->head.type = MLW_CHUNK_EVENTS;
    s->head.image = s->image + 1;
    chunk(r, &s->head, s->payload, n);
    s->head.sequence++;
    s->head.first_call += s->head.calls;
    s->head.calls = 0;
    s->head.base_clock = s->state.clock;
    s->head.base_address = s->state.address;
    s->p = s->payload;
}

/* The stream with room for n bytes; NULL when memory ran out. */
static struct stream *rows_room(struct rows *r, uint32_t thread, size_t n)
{
    struct stream *s = thread < r->stream_count ? &r->streams[thread] : NULL;
    if (!s || !s->payload)
        return NULL;
    if ((size_t)(s->p - s->payload) + n > PAYLOAD)
        flush_rows(r, s);
    return s;
}

static void meta(struct rows *r, uint32_t thread, unsigned kind, const void *data, size_t n)
{
    struct stream *s = n <= PAYLOAD / 2 ? rows_room(r, thread, n + 8) : NULL;
    uint16_t header = MLW_OP_META, bytes = (uint16_t)n;
    if (!s)
        return;
    memcpy(s->p, &header, 2);
    s->p[2] = (uint8_t)kind;
    memcpy(s->p + 3, &bytes, 2);
    memcpy(s->p + 5, data, n);
    s->p += 5 + n;
}

uint32_t rows_thread(struct rows *r, uint32_t tid, const char *name)
{
    return rows_thread_of(r, 0, tid, name);
}

uint32_t rows_thread_of(struct rows *r, uint32_t image, uint32_t tid, const char *name)
{
    if (!ARRAY_ROOM(r->streams, r->stream_count + 1, r->stream_room)) {
        r->no_memory = true;
        return 0;
    }
    uint32_t thread = r->stream_count++;
    struct stream *s = &r->streams[thread];
    memset(s, 0, sizeof *s);
    s->image = image;
    s->head.tid = tid;
    s->head.thread = r->parts[image].threads++;
    s->head.base_clock = s->state.clock = r->last_clock;
    s->p = s->payload = malloc(PAYLOAD + MLW_ROW_MAX);
    if (!s->payload)
        r->no_memory = true;
    uint8_t start[10 + 64];
    size_t n = name ? strnlen(name, 64) : 0;
    memcpy(start, &r->last_clock, 8);
    start[8] = (uint8_t)n;
    start[9] = 0;
    if (n)
        memcpy(start + 10, name, n);
    meta(r, thread, MLW_META_THREAD_START, start, 10 + n);
    return thread;
}

void rows_call(struct rows *r, uint32_t thread, const struct rows_call *c)
{
    struct stream *s = rows_room(r, thread, MLW_ROW_MAX);
    if (!s)
        return;
    const uint64_t clock = next_clock(r, c->time_ns);
    bool said = c->has_usable && c->usable >= c->size && c->usable - c->size <= UINT32_MAX &&
                c->usable != mlw_usual_usable(c->size);
    s->p = mlw_row_encode(s->p, &s->state, c->op, mlw_op_fields(c->op), clock, c->address, c->size,
                          c->stack, said, said ? (uint32_t)(c->usable - c->size) : 0, c->argument,
                          c->path);
    s->head.calls++;
    r->calls += (unsigned)mlw_op_is_call(c->op);
}

static void node(struct rows *r, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc,
                 uint32_t module, uint8_t flags)
{
    uint8_t b[21];
    memcpy(b, &id, 4);
    memcpy(b + 4, &parent, 4);
    memcpy(b + 8, &pc, 8);
    memcpy(b + 16, &module, 4);
    b[20] = flags;
    meta(r, thread, MLW_META_NODE, b, sizeof b);
}

void rows_node(struct rows *r, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc,
               uint32_t module)
{
    node(r, thread, id, parent, pc, module, MLW_NODE_EXACT);
}

void rows_frame(struct rows *r, uint32_t thread, uint32_t id, uint32_t parent, uint64_t pc,
                uint32_t module)
{
    node(r, thread, id, parent, pc, module, 0);
}

void rows_module(struct rows *r, uint32_t thread, uint32_t id, const char *path, uint64_t bias)
{
    uint8_t b[31 + 4096] = {0};
    uint16_t n = (uint16_t)strnlen(path, 4096);
    uint64_t end = UINT64_MAX;
    memcpy(b, &id, 4);
    memcpy(b + 12, &end, 8);
    memcpy(b + 20, &bias, 8);
    memcpy(b + 29, &n, 2);
    memcpy(b + 31, path, n);
    meta(r, thread, MLW_META_MODULE, b, 31u + n);
}

void rows_name(struct rows *r, const struct rows_name *n)
{
    const char *function = n->function ? n->function : "", *file = n->file ? n->file : "";
    uint8_t inlined = n->inlined;
    if (!ARRAY_ROOM(r->index, r->name_count + 1, r->name_room)) {
        r->no_memory = true;
        return;
    }
    size_t offset = r->names.size_bytes;
    buffer_append(&r->names, &n->pc, 8);
    buffer_append(&r->names, &n->line, 4);
    buffer_append(&r->names, &inlined, 1);
    buffer_append(&r->names, function, strlen(function) + 1);
    buffer_append(&r->names, file, strlen(file) + 1);
    r->index[r->name_count] =
        (struct name){n->pc, offset, r->names.size_bytes - offset, r->name_count};
    r->name_count++;
}

static int compare_name_pcs(const void *a, const void *b)
{
    const struct name *x = a, *y = b;
    if (x->pc != y->pc)
        return x->pc < y->pc ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

/* Names, in the order of their addresses, as chunks of the process. */
static void write_row_names(struct rows *r)
{
    struct mlw_chunk h = {.type = MLW_CHUNK_PROCESS, .image = 1, .tid = r->parts[0].pid};
    struct buffer part = {0};
    if (buffer_failed(&r->names)) {
        r->no_memory = true;
        return;
    }
    if (r->name_count)
        qsort(r->index, r->name_count, sizeof *r->index, compare_name_pcs);
    for (size_t i = 0; i < r->name_count; i++) {
        buffer_append(&part, r->names.data + r->index[i].offset, r->index[i].bytes);
        if (part.size_bytes < NAMES_MAX && i + 1 < r->name_count)
            continue;
        struct buffer b = {0};
        tlv(&b, MLW_TLV_NAMES, part.data, part.size_bytes);
        r->no_memory |= buffer_failed(&part);
        tlv_chunk(r, &h, &b);
        buffer_clear(&part);
    }
    buffer_release(&part);
}

void rows_resident(struct rows *r, uint32_t image, uint64_t time_ns, const struct mlw_resident *k)
{
    struct part *p = &r->parts[image];
    const uint64_t clock = CLOCK_START + time_ns;
    const struct mlw_resident at = {clock > p->start_clock ? clock : p->start_clock, k->vmsize,
                                    k->rss, k->rss_shared};
    buffer_append(&p->resident, &at, sizeof at);
}

void rows_split(struct rows *r, uint32_t image, uint64_t time_ns, const struct mlw_split *k)
{
    const struct part *p = &r->parts[image];
    struct mlw_split at = *k;
    struct buffer b = {0};
    at.clock = CLOCK_START + time_ns;
    if (at.clock < p->start_clock)
        at.clock = p->start_clock;
    struct mlw_chunk h = {.type = MLW_CHUNK_SPLIT, .image = image + 1, .base_clock = at.clock};
    tlv(&b, MLW_TLV_SPLIT, &at, sizeof at);
    tlv_chunk(r, &h, &b);
}

uint64_t rows_calls(const struct rows *r) { return r->calls; }

static void write_row_resident(struct rows *r, uint32_t image)
{
    struct part *p = &r->parts[image];
    struct mlw_chunk resident = {.type = MLW_CHUNK_RESIDENT, .image = image + 1, .tid = p->pid};
    const size_t most =
        (size_t)(MLW_CHUNK_MAX / 2 / sizeof(struct mlw_resident)) * sizeof(struct mlw_resident);
    if (buffer_failed(&p->resident))
        r->no_memory = true;
    for (size_t at = 0; at < p->resident.size_bytes && !r->no_memory; at += most) {
        size_t left = p->resident.size_bytes - at;
        chunk(r, &resident, p->resident.data + at, left < most ? left : most);
    }
    buffer_clear(&p->resident);
}

void rows_flush(struct rows *r)
{
    for (uint32_t i = 0; i < r->stream_count; i++)
        if (r->streams[i].payload)
            flush_rows(r, &r->streams[i]);
    for (uint32_t i = 0; i < r->part_count; i++)
        write_row_resident(r, i);
    fflush(r->out);
}

void rows_end(struct rows *r, uint32_t image, uint64_t time_ns, uint32_t how, uint32_t status)
{
    struct part *p = &r->parts[image];
    const uint64_t clock = CLOCK_START + time_ns;
    p->ended = true;
    p->end_clock = clock > r->last_clock ? clock : r->last_clock;
    p->end_how = how;
    p->end_status = status;
    for (uint32_t i = 0; i < r->stream_count; i++) {
        struct stream *s = &r->streams[i];
        if (s->image != image || !s->payload)
            continue;
        flush_rows(r, s);
        free(s->payload);
        s->payload = NULL;
    }
    write_row_resident(r, image);
    buffer_release(&p->resident);
}

void rows_lost(struct rows *r, uint32_t image, uint64_t calls)
{
    r->parts[image].lost_calls += calls;
}

void rows_note(struct rows *r, uint32_t image, const char *note)
{
    rows_tlv_text(&r->parts[image].notes, MLW_TLV_NOTE, note);
}

void rows_called(struct rows *r, uint32_t image, const char *arguments, size_t bytes,
                 const char *comm)
{
    tlv(&r->parts[image].notes, MLW_TLV_TITLE, arguments, bytes);
    rows_tlv_text(&r->parts[image].notes, MLW_TLV_COMM, comm);
}

static void write_row_end(struct rows *r, uint32_t image)
{
    struct part *p = &r->parts[image];
    struct mlw_chunk end = {.type = MLW_CHUNK_END, .image = image + 1, .tid = p->pid};
    struct buffer b = {0};
    const uint32_t how[4] = {(uint32_t)p->end_clock, (uint32_t)(p->end_clock >> 32), p->end_how,
                             p->end_status};
    const uint32_t lost[4] = {(uint32_t)p->lost_calls, (uint32_t)(p->lost_calls >> 32),
                              MLW_LOST_BUFFER, 0};
    tlv(&b, MLW_TLV_END, how, sizeof how);
    if (p->lost_calls)
        tlv(&b, MLW_TLV_LOST, lost, sizeof lost);
    buffer_append(&b, p->notes.data, p->notes.size_bytes);
    r->no_memory |= buffer_failed(&p->notes);
    tlv_chunk(r, &end, &b);
}

/* Writes the rest, and the ends. */
static int complete_rows(struct rows *r, uint64_t end_ns, struct error *err)
{
    uint64_t clock = CLOCK_START + end_ns;
    if (clock < r->last_clock)
        clock = r->last_clock;
    rows_flush(r);
    write_row_names(r);
    for (uint32_t i = 0; i < r->part_count; i++) {
        if (!r->parts[i].ended)
            r->parts[i].end_clock = clock;
        write_row_end(r, i);
    }
    bool bad = ferror(r->out);
    if (fclose(r->out))
        bad = true;
    r->out = NULL;
    int status = bad ? error_system(err, "cannot write %s", r->path) : 0;
    return r->no_memory ? error_memory(err) : status;
}

int rows_finish(struct rows *r, uint64_t end_ns, struct error *err)
{
    struct trace_seal_result sealed;
    int status = complete_rows(r, end_ns, err);
    if (!status)
        status = trace_seal(r->raw.fd, &r->place, 0, NULL, &sealed, NULL, NULL, err);
    rows_abandon(r);
    return status;
}

int rows_finish_raw(struct rows *r, uint64_t end_ns, struct error *err)
{
    int status = complete_rows(r, end_ns, err);
    rows_abandon(r);
    return status;
}

void rows_abandon(struct rows *r)
{
    if (!r)
        return;
    if (r->out)
        fclose(r->out);
    if (r->beside)
        trust_draft_drop(&r->raw, &r->place);
    trust_place_close(&r->place);
    for (uint32_t i = 0; i < r->stream_count; i++)
        free(r->streams[i].payload);
    free(r->streams);
    free(r->index);
    for (uint32_t i = 0; i < r->part_count; i++) {
        buffer_release(&r->parts[i].resident);
        buffer_release(&r->parts[i].notes);
    }
    free(r->parts);
    buffer_release(&r->names);
    free(r->path);
    free(r);
}
