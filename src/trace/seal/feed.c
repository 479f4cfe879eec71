#include "feed.h"

#include <stdlib.h>

#include "base/ring.h"

#define PART_ROWS 1024u
#define PARTS     8u
#define META_MOST 65535u /* bytes of a META row */

struct part {
    uint32_t n, next;
    int status; /* behind its rows: 1 another part, 0 the end, -1 err */
    uint64_t bytes_done, unreadable;
    uint32_t meta_n;
    struct error err;
    struct feed_row rows[PART_ROWS];
    uint8_t meta[2 * META_MOST]; /* what its META rows point to */
};

struct reader {
    struct merge *merge;
    bool track;
    struct ring *ring;
    struct part parts[PARTS];
};

struct feed {
    struct merge *merge;
    bool track, beside;
    struct reader *reader; /* NULL: the caller's thread reads */
    struct part *part;     /* the one that it reads from */
    uint64_t bytes_done, unreadable;
};

/* Whether the call whose first half was just read fails, as its second half says. */
static __attribute__((noinline)) bool fails(struct merge *m, const struct mlw_row *r, bool *open)
{
    struct mlw_row later;
    bool failed = false;
    switch (mlw_op_class(r->op)) {
    case MLW_CLASS_RESIZE_OLD:
        failed = merge_peek(m, mlw_op_set(MLW_CLASS_RESIZE_NEW), 1000, &later) &&
                 later.path & MLW_PATH_FAILED;
        break;
    case MLW_CLASS_REMAP_OLD:
        failed = merge_peek(m, mlw_op_set(MLW_CLASS_REMAP_NEW), 1000, &later) &&
                 later.path & MLW_PATH_FAILED;
        break;
    default:
        failed = merge_peek(m, mlw_op_set(MLW_CLASS_UNMAP_UNDO), 0, &later) &&
                 later.address == r->address;
    }
    *open = merge_peek_ended(m);
    return failed;
}

static inline int read_row(struct merge *m, bool track, struct feed_row *row, struct error *err)
{
    const int k = merge_next(m, &row->r, err);
    if (k <= 0)
        return k;
    if (track)
        merge_where(m, &row->where);
    row->failed = row->open = false;
    if (mlw_op_is(row->r.row.op, MLW_CLASS_RESIZE_OLD | MLW_CLASS_REMAP_OLD | MLW_CLASS_UNMAP))
        row->failed = fails(m, &row->r.row, &row->open);
    return 1;
}

/* --- the thread --- */

static int fill(void *arg, unsigned part)
{
    struct reader *d = arg;
    struct part *p = &d->parts[part];
    p->n = p->next = p->meta_n = 0;
    do {
        struct feed_row *row = &p->rows[p->n];
        p->status = read_row(d->merge, d->track, row, &p->err);
        if (p->status <= 0)
            break;
        p->n++;
        struct mlw_row *r = &row->r.row;
        if (r->op == MLW_OP_META) { /* its chunk may be gone when it is taken */
            memcpy(p->meta + p->meta_n, r->meta_data, r->meta_bytes);
            r->meta_data = p->meta + p->meta_n;
            p->meta_n += r->meta_bytes;
        }
    } while (p->n < PART_ROWS && p->meta_n <= META_MOST);
    p->bytes_done = merge_bytes_done(d->merge);
    p->unreadable = merge_unreadable(d->merge);
    return p->status > 0;
}

/* NULL when there is no thread or memory to be had. */
static struct reader *reader_open(struct merge *m, bool track)
{
    struct reader *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->merge = m;
    d->track = track;
    if (!(d->ring = ring_open(PARTS, fill, d))) {
        free(d);
        return NULL;
    }
    return d;
}

static void reader_close(struct reader *d)
{
    if (!d)
        return;
    ring_close(d->ring);
    free(d);
}

/* --- the caller --- */

struct feed *feed_open(const struct raw *r, uint32_t image, struct error *err)
{
    struct feed *f = calloc(1, sizeof *f);
    if (!f) {
        error_memory_for(err, "merging threads");
        return NULL;
    }
    if (!(f->merge = merge_open(r, image, err))) {
        free(f);
        return NULL;
    }
    return f;
}

void feed_track(struct feed *f) { f->track = true; }

void feed_beside(struct feed *f) { f->beside = true; }

/* Behind the rows of its part. */
static int next_part(struct feed *f, struct error *err)
{
    do {
        if (f->part && f->part->status <= 0) {
            if (f->part->status < 0)
                *err = f->part->err;
            return f->part->status;
        }
        f->part = &f->reader->parts[ring_next(f->reader->ring)];
        f->bytes_done = f->part->bytes_done;
        f->unreadable = f->part->unreadable;
    } while (!f->part->n);
    return 1;
}

/* Without the first part: starts the thread. */
static __attribute__((noinline)) int next_beside(struct feed *f, struct feed_row *row,
                                                 struct error *err)
{
    if (!f->part && !(f->reader = reader_open(f->merge, f->track))) {
        f->beside = false;
        return read_row(f->merge, f->track, row, err);
    }
    if (!f->part || f->part->next == f->part->n) {
        const int k = next_part(f, err);
        if (k <= 0)
            return k;
    }
    *row = f->part->rows[f->part->next++];
    return 1;
}

int feed_next(struct feed *f, struct feed_row *row, struct error *err)
{
    if (f->beside)
        return next_beside(f, row, err);
    return read_row(f->merge, f->track, row, err);
}

uint64_t feed_bytes_done(const struct feed *f)
{
    return f->reader ? f->bytes_done : merge_bytes_done(f->merge);
}

uint64_t feed_unreadable(const struct feed *f)
{
    return f->reader ? f->unreadable : merge_unreadable(f->merge);
}

void feed_close(struct feed *f)
{
    if (!f)
        return;
    reader_close(f->reader);
    merge_close(f->merge);
    free(f);
}
