#include "ahead.h"

#include <stdlib.h>

#define ROWS      64u   /* so many memory accesses are under way at a time */
#define WINDOW_NS 1000u /* a few hundred have been seen */

struct ahead {
    struct feed *feed;
    const struct live *live;
    struct ahead_row rows[ROWS]; /* a ring */
    uint32_t first, count;
};

static struct ahead_row *at(struct ahead *a, uint32_t i) { return &a->rows[(a->first + i) % ROWS]; }

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

/* What a META row points to goes with the next row: nothing is read beyond it. 0, or -1. */
static int fill(struct ahead *a, struct error *err)
{
    while (a->count < ROWS) {
        if (a->count && at(a, a->count - 1)->f.r.row.op == MLW_OP_META)
            return 0;
        struct ahead_row *n = at(a, a->count);
        int k = feed_next(a->feed, &n->f, err);
        if (k <= 0)
            return k;
        a->count++;
        n->late = false;
        if (n->f.r.row.op != MLW_OP_META)
            live_prefetch(a->live, n->f.r.row.address);
    }
    return 0;
}

int ahead_head(struct ahead *a, const struct ahead_row **head, struct error *err)
{
    if (a->count < ROWS / 2 && fill(a, err))
        return -1;
    if (!a->count)
        return 0;
    if (a->count > ROWS / 4) {
        const struct mlw_row *r = &at(a, ROWS / 4)->f.r.row;
        if (r->op != MLW_OP_META)
            live_prefetch_block(a->live, r->address);
    }
    *head = at(a, 0);
    return 1;
}

void ahead_drop(struct ahead *a)
{
    a->first = (a->first + 1) % ROWS;
    a->count--;
}

static bool releases(const struct ahead_row *x)
{
    return mlw_op_is(x->f.r.row.op, MLW_CLASS_RELEASE) ||
           (mlw_op_is(x->f.r.row.op, MLW_CLASS_RESIZE_OLD) && !x->f.failed);
}

static bool allocates(const struct ahead_row *x)
{
    return mlw_op_is(x->f.r.row.op, MLW_CLASS_MAKES) && !(x->f.r.row.path & MLW_PATH_FAILED);
}

/* The place of the row that the head waits for, or 0. */
static uint32_t awaited(struct ahead *a, const struct timebase *t)
{
    const struct ahead_row *head = at(a, 0);
    const bool release = releases(head);
    const uint64_t from_ns = timebase_ns(t, head->f.r.row.clock);
    for (uint32_t i = 1; i < a->count; i++) {
        const struct ahead_row *x = at(a, i);
        if (x->f.r.row.op == MLW_OP_META)
            continue;
        if (timebase_ns(t, x->f.r.row.clock) > from_ns + WINDOW_NS)
            return 0;
        if (x->f.r.row.address == head->f.r.row.address && (releases(x) || allocates(x)))
            return (release ? allocates(x) : releases(x)) &&
                           x->f.r.stream->thread_index != head->f.r.stream->thread_index
                       ? i
                       : 0;
    }
    return 0;
}

bool ahead_put_off(struct ahead *a, const struct timebase *t)
{
    struct error ignored; /* whatever it is comes again when those rows are due */
    if (at(a, 0)->late || fill(a, &ignored))
        return false;
    const uint32_t to = awaited(a, t);
    if (!to)
        return false;
    const struct raw_stream *stream = at(a, 0)->f.r.stream;
    const uint64_t clock = at(a, to)->f.r.row.clock;
    struct ahead_row late[ROWS];
    uint32_t n = 0, k = 0;
    for (uint32_t i = 0; i <= to; i++) {
        const struct ahead_row *x = at(a, i);
        if (x->f.r.stream == stream)
            late[n++] = *x;
        else
            *at(a, k++) = *x;
    }
    for (uint32_t i = 0; i < n; i++) {
        late[i].late = true;
        late[i].f.r.row.clock = clock;
        *at(a, k++) = late[i];
    }
    return true;
}

void ahead_close(struct ahead *a) { free(a); }
