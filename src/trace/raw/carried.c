/* carried.c - Reads the chunks in which a flight recorder keeps the live blocks of rows that
 * left its window, and chooses the last complete generation. It also restores the numbers at
 * which the streams continue. Every chunk is checked, because the file may be damaged. */
#include "carried.h"

#include "format/row.h"
#include "trace/bytes.h"
#include "trust/file.h"

#define STREAM_BYTES 48u

/* The clock of the last record of a chunk that is not EVENTS. */
static uint64_t last_clock(const struct mlw_chunk *c, const uint8_t *payload)
{
    uint64_t clock = c->pair_clock > c->base_clock ? c->pair_clock : c->base_clock, v;
    const size_t record = sizeof(struct mlw_resident);
    if (c->type == MLW_CHUNK_RESIDENT && c->payload_bytes >= record) {
        memcpy(&v, payload + (c->payload_bytes / record - 1) * record, sizeof v);
        clock = v > clock ? v : clock;
    }
    return clock;
}

bool carried_note(struct raw *r, const struct mlw_chunk *c, const uint8_t *payload, uint64_t offset)
{
    struct carried *k = &r->carried;
    if (!k->on || offset & RAW_SECOND_FILE)
        return true;
    const bool events = c->type == MLW_CHUNK_EVENTS;
    struct carried_piece *p = ARRAY_ADD(k->pieces, k->piece_count, k->piece_cap);
    if (!p)
        return false;
    *p = (struct carried_piece){.offset = offset,
                                .image_id = c->image,
                                .clock = events ? c->pair_clock : last_clock(c, payload),
                                .type = c->type,
                                .stream = UINT32_MAX,
                                .sequence = c->sequence,
                                .payload_bytes = c->payload_bytes};
    if (events) {
        const uint32_t at =
            pair_map_get(&r->stream_map, c->image, (uint64_t)c->thread << 32 | c->lane);
        /* A new stream gets the next number as soon as this chunk is read. */
        p->stream = at == UINT32_MAX ? (uint32_t)r->stream_count : at;
    }
    if (c->type != MLW_CHUNK_CARRIED)
        return true;
    if (!c->image) {
        if (c->first_call > k->generation) {
            k->generation = c->first_call;
            k->clock = c->base_clock;
        }
        return true;
    }
    struct carried_chunk *n = ARRAY_ADD(k->chunks, k->count, k->cap);
    if (!n)
        return false;
    *n = (struct carried_chunk){.offset = offset,
                                .image_id = c->image,
                                .generation = c->first_call,
                                .clock = c->base_clock,
                                .kind = c->lane,
                                .part = c->sequence,
                                .payload_bytes = c->payload_bytes};
    return true;
}

static int by_image(const void *a, const void *b)
{
    const struct carried_chunk *x = a, *y = b;
    if (x->image_id != y->image_id)
        return x->image_id < y->image_id ? -1 : 1;
    if (x->part != y->part)
        return x->part < y->part ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

uint8_t *carried_read(const struct raw *r, const struct carried_chunk *k, struct error *err)
{
    uint8_t *p = malloc((size_t)k->payload_bytes + 1);
    if (!p) {
        error_memory_for(err, "reading what a flight recorder carries");
        return NULL;
    }
    if (trust_read(r->fd, p, k->payload_bytes, k->offset + sizeof(struct mlw_chunk)) ==
        k->payload_bytes)
        return p;
    error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
    free(p);
    return NULL;
}

/* The streams of an image that have a past. */
static int take_streams(struct raw *r, const struct carried_chunk *k, struct error *err)
{
    uint8_t *payload = carried_read(r, k, err);
    if (!payload)
        return -1;
    bool ok = true;
    struct span s = span_of(payload, k->payload_bytes);
    while (span_left(&s) >= STREAM_BYTES) {
        const uint32_t thread = (uint32_t)span_number(&s, 4), lane = (uint32_t)span_number(&s, 4);
        struct raw_stream *st = raw_stream_of(r, k->image_id, thread, lane);
        if (!(ok = st != NULL))
            break;
        st->tid = (uint32_t)span_number(&s, 4);
        st->skips = true;
        st->skip_sequence = (uint32_t)span_number(&s, 4);
        st->skip_bytes = (uint32_t)span_number(&s, 4);
        const uint32_t whole = (uint32_t)span_number(&s, 4);
        if (whole > st->whole)
            st->whole = whole;
        st->skip_calls = span_number(&s, 8);
        const uint64_t lost = span_number(&s, 8);
        if (lost > st->lost_calls)
            st->lost_calls = lost;
        st->gap_calls = span_number(&s, 8);
    }
    free(payload);
    return ok ? 0 : error_memory_for(err, "indexing the recording");
}

int carried_choose(struct raw *r, struct error *err)
{
    struct carried *k = &r->carried;
    size_t n = 0;
    for (size_t i = 0; i < k->count; i++)
        if (k->chunks[i].generation == k->generation)
            k->chunks[n++] = k->chunks[i];
    k->count = n;
    if (n > 1)
        qsort(k->chunks, n, sizeof *k->chunks, by_image);
    for (size_t i = 0; i < n; i++) {
        struct raw_image *im = raw_image_of(r, k->chunks[i].image_id);
        if (!im)
            return error_memory_for(err, "indexing the recording");
        if (!im->carried++) {
            im->first_carried = (uint32_t)i;
            im->carried_clock = k->chunks[i].clock;
        }
        if (k->chunks[i].kind == MLW_CARRIED_STREAMS && take_streams(r, &k->chunks[i], err))
            return -1;
    }
    return 0;
}

void carried_free(struct carried *c)
{
    free(c->chunks);
    free(c->pieces);
}

bool carried_is_released(const struct raw_stream *s, uint32_t sequence, uint32_t payload_bytes)
{
    return s->skips && (sequence < s->skip_sequence ||
                        (sequence == s->skip_sequence && payload_bytes <= s->skip_bytes));
}

size_t carried_zeros(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n && !p[i])
        i++;
    return i;
}

/* The clock of the last row of a chunk. */
static uint64_t last_row(const struct raw *r, const struct raw_chunk *k)
{
    const int fd = k->offset & RAW_SECOND_FILE ? r->second_fd : r->fd;
    uint8_t *p = malloc(sizeof(struct mlw_chunk) + k->payload_bytes);
    const size_t n = sizeof(struct mlw_chunk) + k->payload_bytes;
    struct mlw_chunk c = {0};
    struct mlw_row row;
    struct mlw_row_state state = {0, 0, r->routed};
    if (p && trust_read(fd, p, n, k->offset & ~RAW_SECOND_FILE) == n) {
        memcpy(&c, p, sizeof c);
        state = (struct mlw_row_state){c.base_clock, c.base_address, r->routed};
        for (const uint8_t *at = p + sizeof c; at && at < p + n;)
            at = mlw_row_decode(at, p + n, &state, &row);
    }
    free(p);
    return state.clock >> 63 ? 0 : state.clock;
}

uint64_t carried_latest(const struct raw *r)
{
    uint64_t latest = r->carried.clock;
    bool running = false;
    for (size_t i = 0; i < r->image_count; i++)
        running |= !r->images[i].ended;
    if (running && r->pair_count)
        latest = r->pairs[r->pair_count - 1].clock;
    for (size_t i = 0; i < r->stream_count; i++) {
        const struct raw_stream *s = r->met[i];
        const uint64_t clock = s->chunks ? last_row(r, &s->chunk[s->chunks - 1]) : 0;
        latest = clock > latest ? clock : latest;
    }
    return latest;
}
