/* bound.c - a full buffer, when the file of a flight recorder has no room for it.
 *
 * `mallow record --last` folds old rows beside the program, and releases their part of the file.
 * When that cannot keep up, for whatever reason, the file must not grow without end. So each
 * process looks itself before it writes, and needs no other process at work for that. First, blocks
 * that came and went within one buffer are left out: the live blocks stay right, with their stacks.
 * Other calls follow only when that is not enough. Every call that is left out is counted. The
 * program never waits. */
#include <string.h>

#include "arch/page.h"
#include "recorder.h"

/* ---- how much room there is ---- */

static enum mlw_room room_now(void)
{
    const struct mlw_session *s = recorder.session;
    const uint64_t bound = s ? __atomic_load_n(&s->bound_bytes, __ATOMIC_RELAXED) : 0;
    if (likely(!bound))
        return MLW_ROOM_FREE;
    const uint64_t released = __atomic_load_n(&s->released_bytes, __ATOMIC_RELAXED);
    uint64_t size = __atomic_load_n(&s->file_bytes, __ATOMIC_RELAXED);
    struct stat st;
    if (!sys_closed && recorder.output.fd >= 0 && !sys_fstat(recorder.output.fd, &st) &&
        st.st_dev == recorder.output.dev && st.st_ino == recorder.output.ino)
        size = (uint64_t)st.st_size;
    return mlw_room_of(bound, size, released);
}

/* True if copies of the buffer may be in the file. */
static bool is_copied(const struct mlw_chunk *c)
{
    return __atomic_load_n(&c->slot_state, __ATOMIC_SEQ_CST) == MLW_SLOT_COPIED;
}

/* From here on it is not copied, or is_copied says that it was. */
static void set_changing(struct mlw_chunk *c)
{
    __atomic_store_n(&c->flags, (uint16_t)MLW_CHUNK_CHANGING, __ATOMIC_SEQ_CST);
}

/* ---- which rows can be left out ---- */

enum {
    ROWS = MLW_SLOT_BYTES / 4, /* a row has more bytes than that */
    PLACES = 1 << 15           /* twice as many */
};

struct scratch {
    uint64_t address[PLACES]; /* 0: free */
    uint16_t maker[PLACES];   /* the row, from 1, that made the block there and was not undone */
    uint32_t out_rows, out_calls;
    uint16_t
        *open_maker; /* the maker of the block that a resize is about to end; NULL: none is open */
    uint32_t open_row;
    uint8_t out[ROWS / 8 + 1];
    uint8_t rows[MLW_SLOT_BYTES];
};

static uint16_t *maker_of(struct scratch *s, uint64_t address)
{
    uint32_t i = (uint32_t)((address >> 4) * 0x9e3779b97f4a7c15u >> 49);
    while (s->address[i] && s->address[i] != address)
        i = (i + 1) % PLACES;
    s->address[i] = address;
    return &s->maker[i];
}

static void leave_out_row(struct scratch *s, uint32_t row, bool call)
{
    s->out[row / 8] |= (uint8_t)(1u << row % 8);
    s->out_rows++;
    s->out_calls += call;
}

static bool is_out(const struct scratch *s, uint32_t row) { return s->out[row / 8] >> row % 8 & 1; }

/* A block that came and went in this buffer goes, with both of its rows. The old half of a resize
 * ends a block only if the new half, which comes next, does not fail; a half that stays alone means
 * the same as before. A call that neither makes nor ends a block goes, too. */
static void judge_row(struct scratch *s, const struct mlw_row *row, uint32_t number)
{
    const bool failed = row->path & MLW_PATH_FAILED;
    if (mlw_op_is(row->op, MLW_CLASS_RESIZE_NEW)) {
        if (!failed && s->open_maker && *s->open_maker) {
            leave_out_row(s, *s->open_maker, true);
            leave_out_row(s, s->open_row, false);
        }
        if (!failed && s->open_maker)
            *s->open_maker = 0;
    }
    s->open_maker = NULL; /* also that of a half that stayed alone when this was done before */
    if (mlw_op_is(row->op, MLW_CLASS_OTHER) ||
        (mlw_op_is(row->op, MLW_CLASS_RELEASE) && !row->address))
        leave_out_row(s, number, true);
    if (!row->address || failed)
        return;
    if (mlw_op_is(row->op, MLW_CLASS_MAKES))
        *maker_of(s, row->address) = (uint16_t)number;
    if (mlw_op_is(row->op, MLW_CLASS_RESIZE_OLD)) {
        s->open_maker = maker_of(s, row->address);
        s->open_row = number;
    }
    if (mlw_op_is(row->op, MLW_CLASS_RELEASE)) {
        uint16_t *maker = maker_of(s, row->address);
        if (*maker) {
            leave_out_row(s, *maker, true);
            leave_out_row(s, number, true);
        }
        *maker = 0;
    }
}

/* True if calls can be left out. */
static bool judge_all(struct scratch *s, const struct mlw_chunk *c)
{
    const uint8_t *p = (const uint8_t *)(c + 1), *const end = p + c->payload_bytes;
    struct mlw_row_state state = {c->base_clock, c->base_address, true};
    struct mlw_row row;
    uint32_t number = 0;
    while (p < end) {
        p = mlw_row_decode(p, end, &state, &row);
        if (!p || ++number >= ROWS)
            return false;
        if (row.op != MLW_OP_META)
            judge_row(s, &row, number);
    }
    return s->out_rows != 0;
}

/* The row from p to after, behind `state`, of which it has now other distances. The end in `to`. */
static uint8_t *put_again(uint8_t *to, const uint8_t *p, const uint8_t *after,
                          const struct mlw_row *row, struct mlw_row_state *state)
{
    const unsigned header = (unsigned)p[0] | (unsigned)p[1] << 8;
    const uint8_t *const rest = p + 2 + (1u << (header >> 5 & 3)) + (1u << (header >> 7 & 3));
    const uint64_t time = row->clock - state->clock, address = mlw_ror4(row->address),
                   distance = mlw_zigzag(address - state->address);
    uint32_t sum = MLW_ROW_FIELD(2, header & ~(15u << 5), 0);
    memcpy(to + 2, &time, sizeof time);
    sum += mlw_row_field(MLW_ROW_TIME, time | 1);
    memcpy(to + (sum >> MLW_ROW_BYTES_SHIFT), &distance, sizeof distance);
    sum += mlw_row_field(MLW_ROW_ADDRESS, distance | 1);
    const uint16_t fresh = (uint16_t)sum;
    memcpy(to, &fresh, sizeof fresh);
    to += sum >> MLW_ROW_BYTES_SHIFT;
    memcpy(to, rest, (size_t)(after - rest));
    *state = (struct mlw_row_state){row->clock, address, true};
    return to + (after - rest);
}

/* Writes what stays to s->rows. The bytes of it, or -1 when that has no room: distances grow. */
static int32_t put_all(struct scratch *s, const struct mlw_chunk *c, struct mlw_row_state *to_state)
{
    const uint8_t *p = (const uint8_t *)(c + 1), *const end = p + c->payload_bytes;
    struct mlw_row_state state = *to_state;
    struct mlw_row row;
    uint8_t *to = s->rows;
    for (uint32_t number = 1; p < end; number++) {
        const uint8_t *after = mlw_row_decode(p, end, &state, &row);
        if (!after)
            return -1;
        const size_t bytes = (size_t)(after - p);
        if ((size_t)(s->rows + sizeof s->rows - to) < bytes + MLW_ROW_MAX)
            return -1;
        if (row.op == MLW_OP_META) {
            memcpy(to, p, bytes);
            to += bytes;
        } else if (!is_out(s, number))
            to = put_again(to, p, after, &row, to_state);
        p = after;
    }
    return (int32_t)(to - s->rows);
}

/* ---- the buffer ---- */

/* The parent copies buffers while they fill. It must see all of the rows as they were, or as they
 * are, and never both of them in one file: so a buffer that it may have copied stays as it is, and
 * it looks for the mark that this one is being changed, and whether another count of losses says
 * that it was. */
static bool replace(struct thread *t, const struct scratch *s, uint32_t bytes,
                    struct mlw_row_state state)
{
    struct mlw_chunk *const c = t->chunk;
    set_changing(c);
    if (is_copied(c)) {
        __atomic_store_n(&c->flags, (uint16_t)0, __ATOMIC_RELEASE);
        return false;
    }
    const uint32_t calls = c->calls - s->out_rows;
    /* a kill in the middle loses them all */
    __atomic_store_n(&c->lost_calls, t->lost + c->calls, __ATOMIC_SEQ_CST);
    __atomic_store_n(&c->payload_bytes, 0, __ATOMIC_SEQ_CST);
    memcpy(c + 1, s->rows, bytes);
    t->position = (uint8_t *)(c + 1) + bytes;
    t->row = state;
    c->calls = calls;
    __atomic_store_n(&c->payload_bytes, bytes, __ATOMIC_RELEASE);
    t->lost += s->out_calls;
    __atomic_store_n(&c->lost_calls, t->lost, __ATOMIC_RELEASE);
    __atomic_store_n(&c->flags, (uint16_t)0, __ATOMIC_RELEASE);
    __atomic_fetch_add(&recorder.process->lost_bound, s->out_calls, __ATOMIC_RELAXED);
    return true;
}

/* True if half of the buffer is free again. */
static bool thin(struct thread *t)
{
    const struct mlw_chunk *c = t->chunk;
    if (sys_closed || is_copied(c))
        return false;
    struct scratch *s = (struct scratch *)own_map(sizeof *s);
    if (!s)
        return false;
    struct mlw_row_state state = {c->base_clock, c->base_address, true};
    const int32_t bytes = judge_all(s, c) ? put_all(s, c, &state) : -1;
    const bool done = bytes >= 0 && replace(t, s, (uint32_t)bytes, state);
    own_unmap(s, sizeof *s);
    return done && bytes < (int32_t)(MLW_SLOT_BYTES / 2);
}

/* Rows that later rows refer to (stack nodes, modules, marks) stay. error: 0 at the bound. */
static void drop_calls(struct thread *t, int error)
{
    struct mlw_chunk *c = t->chunk;
    uint8_t *payload = (uint8_t *)c + sizeof *c;
    const uint8_t *p = payload, *end = payload + c->payload_bytes;
    struct mlw_row_state state = {0, 0, true};
    struct mlw_row row;
    set_changing(c);
    const uint32_t calls = c->calls, sequence = c->sequence + is_copied(c);
    t->lost += calls;
    __atomic_fetch_add(error ? &recorder.process->lost_sink : &recorder.process->lost_bound, calls,
                       __ATOMIC_RELAXED);
    if (error)
        recorder.process->unwritten = (uint32_t)-error;
    stream_begin_chunk(t, sequence, c->first_call);
    set_changing(c);
    uint8_t *to = payload;
    while (p < end) {
        const uint8_t *after = mlw_row_decode(p, end, &state, &row);
        if (!after)
            break;
        if (row.op == MLW_OP_META) {
            size_t n = (size_t)(after - p);
            memmove(to, p, n);
            to += n;
        }
        p = after;
    }
    barrier();
    t->position = to;
    __atomic_store_n(&c->payload_bytes, (uint32_t)(to - payload), __ATOMIC_RELEASE);
    __atomic_store_n(&c->flags, (uint16_t)0, __ATOMIC_RELEASE);
}

/* When what later rows refer to fills the buffer, recording ends for good. */
static void end_if_stuck(struct thread *t)
{
    if (t->position < t->limit - ARCH_PAGE_BYTES || recorder.ending)
        return;
    stream_begin_chunk(t, t->chunk->sequence, t->chunk->first_call);
    __atomic_store_n(&recorder.process->control, MLW_CTL_DEAD, __ATOMIC_RELEASE);
}

void bound_unwritten(struct thread *t, int error)
{
    drop_calls(t, error);
    end_if_stuck(t);
    if (recorder.lone) {
        static volatile uint32_t said;
        if (!__atomic_exchange_n(&said, 1, __ATOMIC_RELAXED))
            process_say("mallow: the recording cannot be written; the program continues, and lost "
                        "calls are counted\n");
    }
}

bool bound_keeps_back(struct thread *t, bool goes_on)
{
    const enum mlw_room room = room_now();
    if (likely(room == MLW_ROOM_FREE))
        return false;
    const bool thinned = thin(t);
    if (thinned && goes_on)
        return true;
    if (room < (thinned ? MLW_ROOM_NONE : MLW_ROOM_SHUT))
        return false;
    drop_calls(t, 0);
    if (room == MLW_ROOM_SHUT) /* stacks and modules leave once they fill the buffer, or with it */
        return goes_on && t->position < t->limit - ARCH_PAGE_BYTES;
    end_if_stuck(t);
    return true;
}
