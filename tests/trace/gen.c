#include "gen.h"

#include <string.h>

void gen_chunk(struct gen *g, struct mlw_chunk *h, const void *payload, uint32_t n)
{
    h->magic = MLW_CHUNK_MAGIC;
    h->header_bytes = sizeof *h;
    h->payload_bytes = n;
    h->checksum = mlw_chunk_checksum(h, payload);
    fwrite(h, sizeof *h, 1, g->f);
    fwrite(payload, 1, n, g->f);
}

struct tlvs {
    uint8_t data[4096];
    size_t n;
};

static void tlv(struct tlvs *t, uint16_t tag, const void *data, uint32_t n)
{
    uint16_t zero = 0;
    memcpy(t->data + t->n, &tag, 2);
    memcpy(t->data + t->n + 2, &zero, 2);
    memcpy(t->data + t->n + 4, &n, 4);
    memcpy(t->data + t->n + 8, data, n);
    memset(t->data + t->n + 8 + n, 0, -n & 7);
    t->n += 8 + n + (-n & 7);
}

static void tlv32(struct tlvs *t, uint16_t tag, uint32_t v) { tlv(t, tag, &v, 4); }
static void tlv_text(struct tlvs *t, uint16_t tag, const char *s)
{
    tlv(t, tag, s, (uint32_t)strlen(s));
}

void gen_open(struct gen *g, FILE *f, uint64_t clock, uint64_t monotonic_ns)
{
    struct tlvs t = {.n = 0};
    struct mlw_chunk h = {.type = MLW_CHUNK_FILE};
    uint64_t start[3] = {clock, monotonic_ns, 1700000000000000000u};
    g->f = f;
    tlv32(&t, MLW_TLV_VERSION, MLW_FORMAT_VERSION);
    tlv32(&t, MLW_TLV_CLOCK_KIND, MLW_CLOCK_TSC);
    tlv(&t, MLW_TLV_START, start, sizeof start);
    tlv_text(&t, MLW_TLV_HOST, "Linux 0.0 made-up");
    tlv_text(&t, MLW_TLV_TOOL, "gen");
    gen_chunk(g, &h, t.data, (uint32_t)t.n);
}

void gen_process(struct gen *g, uint64_t image, uint32_t pid, uint64_t forked_from, uint64_t clock,
                 uint64_t monotonic_ns)
{
    struct tlvs t = {.n = 0};
    struct mlw_chunk h = {.type = MLW_CHUNK_PROCESS, .image = image, .pid = pid, .tid = pid};
    uint64_t start[3] = {clock, monotonic_ns, 1700000000000000000u};
    tlv(&t, MLW_TLV_START, start, sizeof start);
    tlv32(&t, MLW_TLV_PPID, 1);
    tlv(&t, MLW_TLV_COMMAND, "made\0up", 8);
    tlv_text(&t, MLW_TLV_EXE, "/made/up");
    tlv_text(&t, MLW_TLV_ALLOCATOR, "glibc 2.36");
    tlv32(&t, MLW_TLV_STACKS, MLW_STACKS_FULL);
    tlv32(&t, MLW_TLV_PAGE_BYTES, 4096);
    if (forked_from)
        tlv(&t, MLW_TLV_FORKED_FROM, &forked_from, 8);
    gen_chunk(g, &h, t.data, (uint32_t)t.n);
}

void gen_end(struct gen *g, uint64_t image, uint32_t pid, uint64_t clock, uint32_t how,
             uint32_t status)
{
    struct tlvs t = {.n = 0};
    struct mlw_chunk h = {.type = MLW_CHUNK_END, .image = image, .pid = pid, .tid = pid};
    uint32_t end[4] = {(uint32_t)clock, (uint32_t)(clock >> 32), how, status};
    tlv(&t, MLW_TLV_END, end, sizeof end);
    gen_chunk(g, &h, t.data, (uint32_t)t.n);
}

void gen_pair(struct gen *g, uint64_t clock, uint64_t monotonic_ns)
{
    struct mlw_chunk h = {.type = MLW_CHUNK_CLOCK};
    uint64_t pair[2] = {clock, monotonic_ns};
    gen_chunk(g, &h, pair, sizeof pair);
}

void gen_stream_begin(struct gen_stream *s, uint64_t image, uint32_t pid, uint32_t tid,
                      uint32_t thread, uint64_t clock)
{
    memset(&s->head, 0, sizeof s->head);
    s->head.type = MLW_CHUNK_EVENTS;
    s->head.image = image;
    s->head.pid = pid;
    s->head.tid = tid;
    s->head.thread = thread;
    s->head.base_clock = s->state.clock = clock;
    s->state.address = 0;
    s->p = s->payload;
    s->limit = 0;
}

void gen_flush(struct gen *g, struct gen_stream *s, unsigned flags)
{
    uint32_t n = (uint32_t)(s->p - s->payload);
    if (!n)
        return;
    s->head.flags = (uint16_t)flags;
    gen_chunk(g, &s->head, s->payload, n);
    if (flags & MLW_CHUNK_INTERIM)
        return;
    s->head.sequence++;
    s->head.first_call += s->head.calls;
    s->head.calls = 0;
    s->head.base_clock = s->state.clock;
    s->head.base_address = s->state.address;
    s->p = s->payload;
}

static void room(struct gen *g, struct gen_stream *s, size_t n)
{
    size_t used = (size_t)(s->p - s->payload);
    if (used + n > sizeof s->payload || (s->limit && used >= s->limit))
        gen_flush(g, s, 0);
}

void gen_call(struct gen *g, struct gen_stream *s, unsigned op, uint64_t clock, uint64_t address,
              uint64_t size, uint32_t stack, uint64_t usable, uint64_t argument, unsigned path)
{
    room(g, s, MLW_ROW_MAX);
    bool said = usable != UINT64_MAX && usable != mlw_usual_usable(size);
    if (path >> 8)
        s->p = mlw_row_encode_routed(s->p, &s->state, op, mlw_op_fields(op), clock, address, size,
                                     stack, said, said ? (uint32_t)(usable - size) : 0, argument,
                                     path & 255, path >> 8);
    else
        s->p = mlw_row_encode(s->p, &s->state, op, mlw_op_fields(op), clock, address, size, stack,
                              said, said ? (uint32_t)(usable - size) : 0, argument, path);
    s->head.calls++;
}

void gen_meta(struct gen *g, struct gen_stream *s, unsigned kind, const void *data, uint16_t n)
{
    room(g, s, (size_t)n + 8);
    uint16_t header = MLW_OP_META;
    memcpy(s->p, &header, 2);
    s->p[2] = (uint8_t)kind;
    memcpy(s->p + 3, &n, 2);
    memcpy(s->p + 5, data, n);
    s->p += 5 + n;
}

void gen_node(struct gen *g, struct gen_stream *s, uint32_t id, uint32_t parent, uint64_t pc,
              uint32_t module, uint8_t flags)
{
    uint8_t b[21];
    memcpy(b, &id, 4);
    memcpy(b + 4, &parent, 4);
    memcpy(b + 8, &pc, 8);
    memcpy(b + 16, &module, 4);
    b[20] = flags;
    gen_meta(g, s, MLW_META_NODE, b, sizeof b);
}

void gen_module(struct gen *g, struct gen_stream *s, uint32_t id, uint64_t start, uint64_t end,
                uint64_t bias, const char *path)
{
    uint8_t b[512];
    uint16_t m = (uint16_t)strlen(path);
    memcpy(b, &id, 4);
    memcpy(b + 4, &start, 8);
    memcpy(b + 12, &end, 8);
    memcpy(b + 20, &bias, 8);
    b[28] = 4;
    memcpy(b + 29, "\xde\xad\xbe\xef", 4);
    memcpy(b + 33, &m, 2);
    memcpy(b + 35, path, m);
    gen_meta(g, s, MLW_META_MODULE, b, (uint16_t)(35 + m));
}

void gen_control(struct gen *g, struct gen_stream *s, uint64_t clock, uint8_t control)
{
    uint8_t b[9];
    memcpy(b, &clock, 8);
    b[8] = control;
    gen_meta(g, s, MLW_META_CONTROL, b, sizeof b);
}

void gen_mark(struct gen *g, struct gen_stream *s, uint64_t clock, const char *label)
{
    uint8_t b[256];
    uint16_t n = (uint16_t)strlen(label);
    memcpy(b, &clock, 8);
    memcpy(b + 8, &n, 2);
    memcpy(b + 10, label, n);
    gen_meta(g, s, MLW_META_MARK, b, (uint16_t)(10 + n));
}
