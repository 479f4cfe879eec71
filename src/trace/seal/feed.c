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
    struct merge_row rows[PART_ROWS];
    uint8_t meta[2 * META_MOST]; /* what its META rows point to */
};

struct reader {
    struct merge *merge;
    struct ring *ring;
    struct part parts[PARTS];
};

struct feed {
    struct merge *merge;
    bool beside;
    struct reader *reader; /* NULL: the caller's thread reads */
    struct part *part;     /* the one that it reads from */
    uint64_t bytes_done, unreadable;
};

/* --- the thread --- */

static int fill(void *arg, unsigned part)
{
    struct reader *d = arg;
    struct part *p = &d->parts[part];
    p->n = p->next = p->meta_n = 0;
    do {
        const int k = merge_rows(d->merge, p->rows + p->n, PART_ROWS - p->n, &p->err);
        p->status = k > 0 ? 1 : k;
        if (k <= 0)
            break;
        p->n += (uint32_t)k;
        struct mlw_row *r = &p->rows[p->n - 1].row;
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
static struct reader *reader_open(struct merge *m)
{
    struct reader *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->merge = m;
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

void feed_track(struct feed *f) { merge_track(f->merge); }

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
static int rows_beside(struct feed *f, struct merge_row *rows, unsigned n, struct error *err)
{
    if (!f->part && !(f->reader = reader_open(f->merge))) {
        f->beside = false;
        return merge_rows(f->merge, rows, n, err);
    }
    if (!f->part || f->part->next == f->part->n) {
        const int k = next_part(f, err);
        if (k <= 0)
            return k;
    }
    struct part *p = f->part;
    unsigned k = 0;
    while (k < n && p->next < p->n) {
        rows[k] = p->rows[p->next++];
        if (rows[k++].row.op == MLW_OP_META)
            break;
    }
    return (int)k;
}

int feed_rows(struct feed *f, struct merge_row *rows, unsigned n, struct error *err)
{
    return f->beside ? rows_beside(f, rows, n, err) : merge_rows(f->merge, rows, n, err);
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
