/* fold.c - Decides where a flight recorder's window begins, writes the live blocks of rows
 * before it, and reports how much of the file is no longer needed. The caller releases that
 * part. */
#include "fold.h"

#include "carry_out.h"
#include "trace/raw/carried.h"
#include "seal.h"
#include "trace/timebase.h"

/* When the file was about so long. */
static uint64_t clock_at(const struct raw *r, uint64_t offset)
{
    uint64_t clock = 0;
    for (size_t i = 0; i < r->carried.piece_count; i++) {
        const struct carried_piece *p = &r->carried.pieces[i];
        if (p->offset > offset)
            break;
        if (p->type == MLW_CHUNK_EVENTS && p->clock > clock)
            clock = p->clock;
    }
    return clock;
}

static bool image_ends_before(const struct raw_image *m, uint64_t cut)
{
    return m && m->ended && m->end_clock && m->end_clock < cut;
}

/* Another fold may have written chunks of an image behind its end. The end is written once more
 * behind them, or they would be there without it. */
static int repeat_ends(struct raw *r, uint64_t cut, struct carry_out *out, struct error *err)
{
    for (size_t i = 0; i < r->carried.piece_count; i++) {
        const struct carried_piece *p = &r->carried.pieces[i];
        struct raw_image *m =
            p->image_id && p->type != MLW_CHUNK_CARRIED ? raw_image_of(r, p->image_id) : NULL;
        if (!m)
            continue;
        m->last_offset = p->offset;
        if (p->type == MLW_CHUNK_END)
            m->end_offset = p->offset;
    }
    for (size_t i = 0; i < r->image_count; i++) {
        const struct raw_image *m = &r->images[i];
        if (image_ends_before(m, cut) && m->end_offset && m->end_offset != m->last_offset &&
            carry_again(out, r->fd, m->end_offset, err))
            return -1;
    }
    return 0;
}

/* True if nothing of the chunk is needed any more. */
static bool is_past(struct raw *r, const struct carried_piece *p, uint64_t cut)
{
    const struct raw_image *m = p->image_id ? raw_image_of(r, p->image_id) : NULL;
    const bool over = image_ends_before(m, cut);
    switch (p->type) {
    case MLW_CHUNK_EVENTS:
        return over || (p->stream < r->stream_count &&
                        carried_is_released(r->met[p->stream], p->sequence, p->payload_bytes));
    case MLW_CHUNK_PROCESS: return over || (m && m->folded);
    case MLW_CHUNK_RESIDENT:
    case MLW_CHUNK_SPLIT: return over || (m && m->folded && p->clock < cut);
    case MLW_CHUNK_END: return over;
    case MLW_CHUNK_MARK:
    case MLW_CHUNK_KERNEL: return p->clock < cut;
    default: return true; /* CLOCK: newer ones come; CARRIED: of an older generation */
    }
}

/* The offset before which nothing is needed, but for FILE and the reserve behind it. */
static uint64_t first_needed(struct raw *r, uint64_t cut)
{
    for (size_t i = 0; i < r->carried.piece_count; i++) {
        const struct carried_piece *p = &r->carried.pieces[i];
        if (p->type != MLW_CHUNK_FILE && p->type != MLW_CHUNK_SPACE && !is_past(r, p, cut))
            return p->offset;
    }
    return r->file_bytes;
}

int fold_recording(struct raw *r, const struct trace_fold_how *how,
                   struct trace_fold_result *result, struct error *err)
{
    struct timebase t;
    bool uncertain;
    *result = (struct trace_fold_result){0};
    timebase_of(r, &t, &uncertain, NULL);
    uint64_t cut = 0;
    if (how->keep_bytes)
        cut = r->file_bytes > how->keep_bytes ? clock_at(r, r->file_bytes - how->keep_bytes) : 0;
    if (how->from_monotonic_ns > r->start_monotonic_ns) {
        const uint64_t from = timebase_clock(&t, how->from_monotonic_ns - r->start_monotonic_ns);
        cut = from > cut ? from : cut;
    }
    if (cut > how->latest_clock)
        cut = how->latest_clock;
    if (cut <= r->carried.clock || cut <= r->start_clock)
        return 0;
    struct carry_out out = {.fd = r->fd, .generation = r->carried.generation + 1, .clock = cut};
    struct mlw_chunk whole = {
        .type = MLW_CHUNK_CARRIED, .first_call = out.generation, .base_clock = cut};
    if (seal_fold(r, &t, cut, &out, err) || repeat_ends(r, cut, &out, err) ||
        carry_put(&out, &whole, NULL, 0, err))
        return -1;
    result->folded = true;
    result->needed_from = first_needed(r, cut);
    result->written_bytes = out.bytes;
    result->live_blocks = out.blocks;
    return 0;
}
