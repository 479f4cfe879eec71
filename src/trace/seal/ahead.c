/* ahead.c - Keeps the next merged rows of an image at hand and fetches the memory that they
 * need. A row is put off if a row of another thread with nearly the same clock must come first
 * at the same address. It never looks past a META row, which changes the meaning of later rows. */
#include "ahead.h"

#define ROWS FEED_KEPT /* so far is looked */

int ahead_fill(struct ahead *a, struct error *err)
{
    const int n = feed_rows(a->feed, 0, &a->next, err);
    a->end = a->next + (n > 0 ? n : 0);
    return n > 0 ? 1 : n;
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

/* How many rows there are to look at, at most ROWS: none lies behind a META row. */
static uint32_t count_rows_ahead(struct ahead *a)
{
    uint32_t n = 0;
    for (; n < ROWS && a->next + n < a->end; n++)
        if (a->next[n].row.op == MLW_OP_META)
            return n;
    if (n == ROWS)
        return n;
    struct merge_row *rows;
    struct error ignored; /* whatever it is comes again when those rows are due */
    const int more = feed_rows(a->feed, n, &rows, &ignored);
    a->next = rows - n;
    a->end = rows + (more > 0 ? more : 0);
    for (; n < ROWS && a->next + n < a->end && a->next[n].row.op != MLW_OP_META; n++)
        ;
    return more < 0 ? 0 : n;
}

/* The place of the row that the first of n rows waits for, or 0. */
static uint32_t awaited(const struct merge_row *rows, uint32_t n, const struct timebase *t)
{
    const bool release = releases(rows);
    const uint64_t until = rows->row.clock + t->near;
    for (uint32_t i = 1; i < n; i++) {
        const struct merge_row *x = &rows[i];
        if (x->row.clock > until)
            return 0;
        if (x->row.address == rows->row.address && (releases(x) || allocates(x)))
            return (release ? allocates(x) : releases(x)) &&
                           x->stream->thread_index != rows->stream->thread_index
                       ? i
                       : 0;
    }
    return 0;
}

bool ahead_put_off(struct ahead *a, const struct timebase *t)
{
    if (a->next->late)
        return false;
    struct merge_row *const was = a->next;
    const uint32_t n = count_rows_ahead(a);
    struct merge_row *const rows = a->next;
    const uint32_t to = awaited(rows, n, t);
    if (!to)
        return rows != was;
    const struct raw_stream *stream = rows->stream;
    const uint64_t clock = rows[to].row.clock;
    struct merge_row late[ROWS];
    uint32_t count = 0, k = 0;
    for (uint32_t i = 0; i <= to; i++)
        if (rows[i].stream == stream)
            late[count++] = rows[i];
        else
            rows[k++] = rows[i];
    for (uint32_t i = 0; i < count; i++) {
        late[i].row.clock = clock;
        late[i].late = true;
        rows[k++] = late[i];
    }
    return true;
}
