/* merge.c - Merges the streams of an image into one sequence of rows by clock, with a heap of
 * open streams. A stream opens when its first row is due and closes after its last, so that
 * memory grows with the threads that live at once. Rows of one stream are taken in runs, without
 * a look at the heap. */
#include "merge.h"

#include <errno.h>
#include <unistd.h>

#include "decode.h"

struct payload {
    uint8_t *data;
    size_t cap;
    const uint8_t *p, *end;
    struct mlw_row_state state;
    uint64_t left;     /* call rows that its header announced and that are still to come */
    uint64_t end_call; /* the number behind the stream's last call row */
    uint32_t sequence;
    bool after_gap; /* rows are missing before it */
    bool loaded;
};

struct merge_stream {
    uint64_t key; /* the key of `head`: its clock, and whether it allocates */
    uint32_t number;
    uint32_t next_chunk; /* to load, index within the stream */
    uint64_t next_call;  /* the first_call that the next chunk should have */
    const struct raw_stream *stream;
    struct mlw_row head;
    struct payload now, ahead; /* `ahead`: loaded early, by a peek */
    struct merge_stream *next_free;
};

struct merge {
    const struct raw *raw;
    struct merge_stream **heap; /* by (key, number) */
    size_t open, heap_cap;
    uint32_t image;
    struct raw_stream **order; /* streams of the image by first clock */
    uint32_t streams, started, order_room;
    uint64_t limit;            /* clock: rows from it on do not come yet; UINT64_MAX: all come */
    bool stalled;              /* see merge_is_stalled */
    struct merge_stream *dry;  /* while it grows: without a next row */
    struct merge_stream *last; /* heap[0], when its head was given out */
    uint64_t least; /* then: rows of it with keys below come before those of all others */
    bool alone;     /* then: there are no others */
    struct merge_stream *spare;
    uint64_t unreadable, bytes_done;
    struct merge_position *track; /* a ring; NULL: places are not asked for */
    uint32_t tracked;
    bool peek_ended; /* the last peek came to the end of what there is of its stream */
    bool failed;
    struct error err; /* then */
};

/* Rows that were released are read, since they change the state of those behind, and dropped. */
static void skip_released(struct payload *b, uint32_t bytes)
{
    const uint8_t *start = b->p;
    struct mlw_row row;
    while (b->p < b->end && (size_t)(b->p - start) < bytes) {
        const uint8_t *next = mlw_row_decode(b->p, b->end, &b->state, &row);
        if (!next) {
            b->p = b->end;
            return;
        }
        b->p = next;
        b->left -= row.op != MLW_OP_META && b->left;
    }
}

static int merge_load_payload(struct merge *m, struct merge_stream *s, struct payload *to,
                              struct error *err)
{
    to->loaded = false;
    while (s->next_chunk < s->stream->chunks) {
        const struct raw_chunk *k = &s->stream->chunk[s->next_chunk];
        int fd = k->offset & RAW_SECOND_FILE ? m->raw->second_fd : m->raw->fd;
        size_t n = sizeof(struct mlw_chunk) + k->payload_bytes;
        if (to->cap < n) {
            free(to->data);
            to->cap = 0;
            if (!(to->data = malloc(n + DECODE_SPARE)))
                return error_memory_for(err, "reading a chunk");
            to->cap = n;
        }
        size_t done = 0;
        while (done < n) {
            ssize_t got = pread(fd, to->data + done, n - done,
                                (off_t)((k->offset & ~RAW_SECOND_FILE) + done));
            if (got < 0 && errno == EINTR)
                continue;
            if (got < 0)
                return error_system(err, "cannot read the recording");
            if (!got)
                return error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
            done += (size_t)got;
        }
        memset(to->data + n, 0, DECODE_SPARE);
        struct mlw_chunk c;
        memcpy(&c, to->data, sizeof c);
        s->next_chunk++;
        m->bytes_done += n;
        to->p = to->data + sizeof c;
        to->end = to->data + n;
        to->state.clock = c.base_clock;
        to->state.address = c.base_address;
        to->state.routed = m->raw->routed;
        to->left = c.calls;
        to->after_gap = c.first_call != s->next_call;
        s->next_call = to->end_call = c.first_call + c.calls;
        to->sequence = c.sequence;
        to->loaded = true;
        if (s->stream->skips && c.sequence == s->stream->skip_sequence) {
            to->after_gap = false;
            skip_released(to, s->stream->skip_bytes);
        }
        return 0;
    }
    return 0;
}

static uint64_t row_key(const struct mlw_row *r)
{
    /* Bit 0: whether the row is about something that begins. */
    bool release = mlw_op_is(r->op, MLW_CLASS_ENDS) || r->op == MLW_OP_META;
    uint64_t clock = r->clock >> 63 ? INT64_MAX : r->clock;
    return clock << 1 | !release;
}

/* The clock that a META row carries, or the one of the row before. */
static uint64_t meta_clock(const struct mlw_row *r, uint64_t before)
{
    uint64_t v;
    switch (r->meta) {
    case MLW_META_CONTROL:
        if (r->meta_bytes < 8)
            return before;
        memcpy(&v, r->meta_data, 8);
        return v;
    default: return before;
    }
}

/* The row at p, which lies before the end of its payload. Where the next one begins, or NULL: what
 * follows cannot be read. */
static __attribute__((noinline)) const uint8_t *
decode_other(const uint8_t *p, const uint8_t *end, struct mlw_row_state *st, struct mlw_row *row)
{
    const uint64_t before = st->clock;
    p = mlw_row_decode(p, end, st, row);
    if (p && row->op == MLW_OP_META)
        row->clock = meta_clock(row, before);
    return p;
}

/* As decode_other, for any row. */
static inline const uint8_t *decode(const uint8_t *p, const uint8_t *end, struct mlw_row_state *st,
                                    struct mlw_row *row)
{
    const uint8_t *behind = decode_call(p, st, row);
    return !behind ? decode_other(p, end, st, row) : behind <= end ? behind : NULL;
}

/* From a payload that is done (or none) to the stream's next. 1, 0 at the end of the stream, -1. */
static int merge_stream_turn(struct merge *m, struct merge_stream *s, struct error *err)
{
    struct payload *b = &s->now;
    if (b->loaded)
        m->unreadable += b->left;
    b->left = 0;
    if (s->ahead.loaded) {
        struct payload old = *b;
        *b = s->ahead;
        s->ahead = old;
        s->ahead.loaded = false;
    } else if (merge_load_payload(m, s, b, err)) {
        return -1;
    }
    return b->loaded;
}

static void count_calls(struct payload *b, unsigned calls)
{
    b->left -= calls < b->left ? calls : b->left;
}

/* Decodes the first row of the stream into its head. 1, 0 when there is none, -1. */
static int first_row(struct merge *m, struct merge_stream *s, struct error *err)
{
    struct payload *b = &s->now;
    for (;;) {
        const int k = merge_stream_turn(m, s, err);
        if (k <= 0)
            return k;
        if (b->p < b->end && (b->p = decode(b->p, b->end, &b->state, &s->head)))
            break;
        b->p = b->end;
    }
    count_calls(b, s->head.op != MLW_OP_META);
    s->key = row_key(&s->head);
    return 1;
}

static bool stream_is_before(const struct merge_stream *a, const struct merge_stream *b)
{
    return a->key != b->key ? a->key < b->key : a->number < b->number;
}

static void sift_down(struct merge *m, size_t i)
{
    struct merge_stream *s = m->heap[i];
    for (;;) {
        size_t c = 2 * i + 1;
        if (c >= m->open)
            break;
        if (c + 1 < m->open && stream_is_before(m->heap[c + 1], m->heap[c]))
            c++;
        if (!stream_is_before(m->heap[c], s))
            break;
        m->heap[i] = m->heap[c];
        i = c;
    }
    m->heap[i] = s;
}

static int merge_push_stream(struct merge *m, struct merge_stream *s)
{
    if (!ARRAY_ROOM(m->heap, m->open + 1, m->heap_cap))
        return -1;
    struct merge_stream **h = m->heap;
    size_t i = m->open++;
    while (i && stream_is_before(s, h[(i - 1) / 2])) {
        h[i] = h[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h[i] = s;
    return 0;
}

static int by_first_clock(const void *a, const void *b)
{
    const struct raw_stream *x = *(struct raw_stream *const *)a,
                            *y = *(struct raw_stream *const *)b;
    if (x->first_clock != y->first_clock)
        return x->first_clock < y->first_clock ? -1 : 1;
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Streams that were not known before. *late: one begins before the limit. 0, or -1 without memory.
 */
static int add_streams(struct merge *m, bool *late)
{
    const struct raw_image *im = &m->raw->images[m->image];
    const uint32_t before = m->streams;
    if (!ARRAY_ROOM(m->order, im->streams + 1, m->order_room))
        return -1;
    for (uint32_t i = 0; i < im->streams; i++) {
        struct raw_stream *st = m->raw->streams[im->first_stream + i];
        if (st->merging || st->hidden || !st->chunks)
            continue;
        st->merging = true;
        *late |= st->first_clock < m->limit;
        m->order[m->streams++] = st;
    }
    if (m->streams > before && m->streams - m->started > 1)
        qsort(m->order + m->started, m->streams - m->started, sizeof(struct raw_stream *),
              by_first_clock);
    return 0;
}

struct merge *merge_open(const struct raw *r, uint32_t image, struct error *err)
{
    const struct raw_image *im = &r->images[image];
    struct merge *m = calloc(1, sizeof *m);
    bool ignored = false;
    for (uint32_t i = 0; i < im->streams; i++)
        r->streams[im->first_stream + i]->merging = false;
    if (m) {
        m->raw = r;
        m->image = image;
        m->limit = UINT64_MAX;
    }
    if (!m || add_streams(m, &ignored)) {
        merge_close(m);
        error_memory_for(err, "merging threads");
        return NULL;
    }
    return m;
}

void merge_growing(struct merge *m) { m->limit = 0; }

uint64_t merge_limit(const struct merge *m) { return m->limit; }

bool merge_is_stalled(const struct merge *m) { return m->stalled; }

static void merge_stream_free(struct merge_stream *s)
{
    free(s->now.data);
    free(s->ahead.data);
    free(s);
}

/* Opens the streams whose first row may be due before the least head. */
static int start_due(struct merge *m, struct error *err)
{
    while (m->started < m->streams) {
        const struct raw_stream *st = m->order[m->started];
        if (m->open && (m->heap[0]->key >> 1) < st->first_clock)
            return 0;
        struct merge_stream *s = m->spare;
        if (s) {
            m->spare = s->next_free;
            s->now.loaded = s->ahead.loaded = false;
        } else if (!(s = calloc(1, sizeof *s))) {
            return error_memory_for(err, "merging threads");
        }
        s->stream = st;
        s->number = st->index;
        m->started++;
        s->next_chunk = 0;
        s->next_call = st->skip_calls;
        int k = first_row(m, s, err);
        if (!k && m->limit != UINT64_MAX) {
            s->next_free = m->dry;
            m->dry = s;
        } else if (k <= 0 || merge_push_stream(m, s)) {
            s->next_free = m->spare;
            m->spare = s;
            if (k)
                return k < 0 ? -1 : error_memory_for(err, "merging threads");
        }
    }
    return 0;
}

/* Lets heap[0] be the stream that is due. 1, 0 when there is none, -1. */
static int merge_choose_stream(struct merge *m, struct error *err)
{
    if (m->started < m->streams && start_due(m, err))
        return -1;
    const bool growing = m->limit != UINT64_MAX;
    uint64_t least = growing ? m->limit << 1 : UINT64_MAX;
    if (!m->open || (growing && m->heap[0]->key >= least))
        return 0;
    m->alone = m->open == 1 && m->started == m->streams && !growing;
    for (size_t i = 1; i < m->open && i < 3; i++) {
        const struct merge_stream *o = m->heap[i];
        const uint64_t key = o->key + (m->heap[0]->number < o->number && o->key != UINT64_MAX);
        least = key < least ? key : least;
    }
    if (m->started < m->streams) {
        const uint64_t clock = m->order[m->started]->first_clock;
        if (clock <= INT64_MAX && clock << 1 < least)
            least = clock << 1;
    }
    m->least = least;
    return 1;
}

/* For calls that have two rows, the first: how they end stands in the second. */
#define HALVES (MLW_CLASS_RESIZE_OLD | MLW_CLASS_REMAP_OLD | MLW_CLASS_UNMAP)

static inline bool is_special(const struct mlw_row *r)
{
    return (mlw_op_set(HALVES) | 1u << MLW_OP_META) >> (r->op & 31) & 1;
}

enum stop {
    STOP_ROW,     /* there was room for no more, or the last one is_special */
    STOP_PAYLOAD, /* the payload is done */
    STOP_BOUND    /* another stream may be due before the next row, which is the head */
};

/* The head of heap[0], if it was not given out, and the rows behind it. Returns how many. bounded:
 * a constant, !m->alone. */
static inline __attribute__((always_inline)) unsigned run(struct merge *m, struct merge_row *rows,
                                                          unsigned n, bool bounded, enum stop *stop)
{
    struct merge_stream *s = m->heap[0];
    struct merge_row *r = rows, *room = rows + n;
    const struct raw_stream *stream = s->stream;
    if (!m->last) {
        m->last = s;
        r->row = s->head;
        r->stream = stream;
        r->failed = r->open = r->late = false;
        r++;
        if (is_special(&s->head))
            room = r;
    }
    struct merge_row *const first = r;
    struct mlw_row_state state = s->now.state;
    const uint8_t *p = s->now.p, *const end = s->now.end;
    for (*stop = STOP_ROW; r < room;) {
        if (p >= end) {
            *stop = STOP_PAYLOAD;
            break;
        }
        const uint8_t *behind = decode_call(p, &state, &r->row);
        if (__builtin_expect(!behind, 0)) {
            s->now.state = state; /* which can else be in registers */
            behind = decode_other(p, end, &s->now.state, &r->row);
            state = s->now.state;
            behind = behind ? behind : end + 1;
        }
        p = behind <= end ? behind : end;
        if (__builtin_expect(behind > end, 0))
            continue;
        if (bounded && row_key(&r->row) >= m->least) {
            s->head = r->row;
            s->key = row_key(&r->row);
            *stop = STOP_BOUND;
            break;
        }
        r->stream = stream;
        r->failed = r->open = r->late = false;
        r++;
        if (is_special(&r[-1].row))
            break;
    }
    s->now.p = p;
    s->now.state = state;
    const struct merge_row *const last = *stop == STOP_BOUND ? r : r - 1;
    if (last >= first)
        count_calls(&s->now, (unsigned)(last - first) + (last->row.op != MLW_OP_META));
    return (unsigned)(r - rows);
}

/* Behind a payload of m->last. 0 or -1. */
static int leave_payload(struct merge *m, struct error *err)
{
    struct merge_stream *s = m->last;
    const int status = merge_stream_turn(m, s, err);
    if (status)
        return status < 0 ? -1 : 0;
    m->last = NULL;
    m->heap[0] = m->heap[--m->open];
    if (m->open > 1)
        sift_down(m, 0);
    if (m->limit != UINT64_MAX) {
        s->next_free = m->dry;
        m->dry = s;
        return 0;
    }
    /* Keep one emptied stream for the next thread, not all that there ever were. */
    if (m->spare) {
        merge_stream_free(s);
    } else {
        s->next_free = NULL;
        m->spare = s;
    }
    return 0;
}

/* The next call row of the stream that the last row came from, as it will come later: the first
 * whose operation is in `ops` (bit per operation), at most `reach` call rows ahead and not past a
 * gap. False when there is none. */
static bool merge_peek_row(struct merge *m, uint32_t ops, unsigned reach, struct mlw_row *row)
{
    struct merge_stream *s = m->last;
    m->peek_ended = false;
    if (!s)
        return false;
    struct payload *b = &s->now;
    for (;;) {
        struct mlw_row_state state = b->state;
        for (const uint8_t *p = b->p; p < b->end;) {
            p = mlw_row_decode(p, b->end, &state, row);
            if (!p)
                return false;
            if (row->op == MLW_OP_META)
                continue;
            if (ops >> row->op & 1)
                return true;
            if (!reach--)
                return false;
        }
        if (b == &s->ahead)
            return false;
        b = &s->ahead;
        struct error ignored;
        if (!b->loaded && (merge_load_payload(m, s, b, &ignored) || !b->loaded)) {
            m->peek_ended = true;
            return false;
        }
        if (b->after_gap)
            return false;
    }
}

/* True if the call whose first half was just read fails, as its second half says. */
static __attribute__((noinline)) bool fails(struct merge *m, const struct mlw_row *r, bool *open)
{
    struct mlw_row later;
    bool failed = false;
    switch (mlw_op_class(r->op)) {
    case MLW_CLASS_RESIZE_OLD:
        failed = merge_peek_row(m, mlw_op_set(MLW_CLASS_RESIZE_NEW), 1000, &later) &&
                 later.path & MLW_PATH_FAILED;
        break;
    case MLW_CLASS_REMAP_OLD:
        failed = merge_peek_row(m, mlw_op_set(MLW_CLASS_REMAP_NEW), 1000, &later) &&
                 later.path & MLW_PATH_FAILED;
        break;
    default:
        failed = merge_peek_row(m, mlw_op_set(MLW_CLASS_UNMAP_UNDO), 0, &later) &&
                 later.address == r->address;
    }
    *open = m->peek_ended;
    return failed;
}

bool merge_track(struct merge *m)
{
    return (m->track = calloc(MERGE_TRACKED, sizeof *m->track)) != NULL;
}

const struct merge_position *merge_where(const struct merge *m, const struct merge_row *r)
{
    return &m->track[r->where % MERGE_TRACKED];
}

/* The rest of the row that was given out last. */
static void merge_complete_row(struct merge *m, struct merge_row *r)
{
    const struct payload *b = &m->last->now;
    if (m->track) {
        r->where = m->tracked++;
        m->track[r->where % MERGE_TRACKED] = (struct merge_position){
            .sequence = b->sequence,
            .bytes = (uint32_t)((size_t)(b->p - b->data) - sizeof(struct mlw_chunk)),
            .calls = b->end_call - b->left};
    }
    if (mlw_op_is(r->row.op, HALVES))
        r->failed = fails(m, &r->row, &r->open);
}

/* The row that was given out last becomes the next one again. */
static void merge_take_back(struct merge *m, const struct merge_row *r)
{
    m->last->head = r->row;
    m->last->key = row_key(&r->row);
    m->last = NULL;
    m->stalled = true;
}

int merge_rows(struct merge *m, struct merge_row *rows, unsigned n, struct error *err)
{
    unsigned k = 0;
    while (k < n && !m->failed && !m->stalled) {
        const int status = m->last ? 1 : merge_choose_stream(m, &m->err);
        m->failed = status < 0;
        if (status <= 0)
            break;
        const unsigned most = m->track ? 1 : n - k;
        enum stop stop;
        k += m->alone ? run(m, rows + k, most, false, &stop) : run(m, rows + k, most, true, &stop);
        if (stop == STOP_BOUND) {
            m->last = NULL;
            sift_down(m, 0);
        } else if (stop == STOP_PAYLOAD) {
            m->failed = leave_payload(m, &m->err) != 0;
        } else {
            merge_complete_row(m, &rows[k - 1]);
            if (rows[k - 1].row.op == MLW_OP_META)
                break;
            if (rows[k - 1].open && m->limit != UINT64_MAX)
                merge_take_back(m, &rows[--k]);
        }
    }
    if (k || !m->failed)
        return (int)k;
    *err = m->err;
    return -1;
}

int merge_grow(struct merge *m, uint64_t limit, bool *late, struct error *err)
{
    const struct raw_image *im = &m->raw->images[m->image];
    *late = false;
    for (uint32_t i = 0; i < im->streams && limit != UINT64_MAX; i++) {
        const struct raw_stream *st = m->raw->streams[im->first_stream + i];
        uint64_t bound = UINT64_MAX; /* rows from it on may not be there to be read */
        if (st->hidden || !st->chunks)
            bound = st->chunks ? st->first_clock : st->held ? 0 : UINT64_MAX;
        else if (st->held > st->chunks)
            bound = st->chunk[st->chunks - 1].base_clock;
        limit = bound < limit ? bound : limit;
    }
    for (size_t i = 0; i < m->open; i++)
        m->heap[i]->number = m->heap[i]->stream->index;
    if (add_streams(m, late))
        return error_memory_for(err, "merging threads");
    for (struct merge_stream **at = &m->dry, *s; (s = *at);) {
        s->number = s->stream->index;
        const int k = s->next_chunk < s->stream->chunks ? first_row(m, s, err) : 0;
        if (k < 0)
            return -1;
        if (!k) {
            at = &s->next_free;
            continue;
        }
        *at = s->next_free;
        *late |= s->key < m->limit << 1;
        if (merge_push_stream(m, s))
            return error_memory_for(err, "merging threads");
    }
    m->limit = limit > m->limit ? limit : m->limit;
    m->stalled = false;
    return 0;
}

uint64_t merge_unreadable(const struct merge *m) { return m->unreadable; }
uint64_t merge_bytes_done(const struct merge *m) { return m->bytes_done; }

void merge_close(struct merge *m)
{
    if (!m)
        return;
    for (size_t i = 0; i < m->open; i++)
        merge_stream_free(m->heap[i]);
    for (struct merge_stream **list = &m->spare; list; list = list == &m->spare ? &m->dry : NULL)
        while (*list) {
            struct merge_stream *s = *list;
            *list = s->next_free;
            merge_stream_free(s);
        }
    free(m->track);
    free(m->heap);
    free(m->order);
    free(m);
}
