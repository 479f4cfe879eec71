#include "ahead.h"

#include <stdlib.h>

#define ROWS      AHEAD_ROWS
#define WINDOW_NS 1000u /* a few hundred have been seen */

static uint32_t place(const struct ahead *a, uint32_t i) { return (a->first + i) % ROWS; }
static struct merge_row *at(struct ahead *a, uint32_t i) { return &a->rows[place(a, i)]; }

struct ahead *ahead_open(struct feed *feed, const struct live *live, struct error *err)
{
    struct ahead *a = calloc(1, sizeof *a);
    if (!a) {
        error_memory_for(err, "merging threads");
        return NULL;
    }
    a->feed = feed;
    a->live = live;
    return a;
}

/* What a META row points to goes with the next row: nothing is read beyond it. */
int ahead_fill(struct ahead *a, struct error *err)
{
    while (a->count < ROWS) {
        if (a->count && at(a, a->count - 1)->row.op == MLW_OP_META)
            return 0;
        const uint32_t to = place(a, a->count), left = ROWS - a->count, run = ROWS - to;
        const int k = feed_rows(a->feed, &a->rows[to], left < run ? left : run, err);
        if (k <= 0)
            return k;
        for (uint32_t i = to; i < to + (uint32_t)k; i++) {
            a->late &= ~((uint64_t)1 << i);
            if (a->rows[i].row.op != MLW_OP_META)
                live_prefetch(a->live, a->rows[i].row.address);
        }
        a->count += (uint32_t)k;
    }
    return 0;
}

static bool releases(const struct merge_row *x)
{
    return mlw_op_is(x->row.op, MLW_CLASS_RELEASE) ||
           (mlw_op_is(x->row.op, MLW_CLASS_RESIZE_OLD) && !x->failed);
}

static bool allocates(const struct merge_row *x)
{
    return mlw_op_is(x->row.op, MLW_CLASS_MAKES) && !(x->row.path & MLW_PATH_FAILED);
}

/* The place of the row that the head waits for, or 0. */
static uint32_t awaited(struct ahead *a, const struct timebase *t)
{
    const struct merge_row *head = at(a, 0);
    const bool release = releases(head);
    const uint64_t from_ns = timebase_ns(t, head->row.clock);
    for (uint32_t i = 1; i < a->count; i++) {
        const struct merge_row *x = at(a, i);
        if (x->row.op == MLW_OP_META)
            continue;
        if (timebase_ns(t, x->row.clock) > from_ns + WINDOW_NS)
            return 0;
        if (x->row.address == head->row.address && (releases(x) || allocates(x)))
            return (release ? allocates(x) : releases(x)) &&
                           x->stream->thread_index != head->stream->thread_index
                       ? i
                       : 0;
    }
    return 0;
}

bool ahead_put_off(struct ahead *a, const struct timebase *t)
{
    struct error ignored; /* whatever it is comes again when those rows are due */
    if (a->late >> a->first & 1 || ahead_fill(a, &ignored))
        return false;
    const uint32_t to = awaited(a, t);
    if (!to)
        return false;
    const struct raw_stream *stream = at(a, 0)->stream;
    const uint64_t clock = at(a, to)->row.clock;
    struct merge_row late[ROWS];
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i <= to; i++) {
        const struct merge_row *x = at(a, i);
        if (x->stream == stream) {
            late[n++] = *x;
            continue;
        }
        const uint64_t was = a->late >> place(a, i) & 1;
        a->late = (a->late & ~((uint64_t)1 << place(a, k))) | was << place(a, k);
        *at(a, k++) = *x;
    }
    for (uint32_t i = 0; i < n; i++) {
        late[i].row.clock = clock;
        a->late |= (uint64_t)1 << place(a, k);
        *at(a, k++) = late[i];
    }
    return true;
}

void ahead_close(struct ahead *a) { free(a); }
