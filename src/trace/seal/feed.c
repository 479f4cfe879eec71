/* feed.c - Supplies merged rows in parts, read by a thread ahead of the caller or by the caller
 * itself. The payloads of META rows are copied, because their chunk may be gone when the row is
 * used. Both ways give the same rows. */
#include "feed.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/ring.h"

#define PART_ROWS  1024u
#define ALONE_ROWS 128u /* without a thread: so few stay in the processor's nearest cache */
#define PARTS      8u
_Static_assert(FEED_KEPT + ALONE_ROWS <= MERGE_TRACKED, "the places of all rows at hand are kept");
#define META_MOST 65535u /* bytes of a META row */

struct part {
    uint32_t n;
    int status; /* behind its rows: 1 another part, 0 the end, -1 err */
    uint64_t bytes_done, unreadable;
    uint32_t meta_n;
    struct error err;
    struct merge_row rows[FEED_KEPT + PART_ROWS]; /* n, from rows[FEED_KEPT] on */
    uint8_t meta[2 * META_MOST];                  /* the payloads of its META rows */
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
    struct part *own;      /* which it then fills */
    struct part *part;     /* whose rows were given last */
};

static void fill_part(struct merge *m, struct part *p, uint32_t most)
{
    struct merge_row *const rows = p->rows + FEED_KEPT;
    p->n = p->meta_n = 0;
    do {
        const int k = merge_rows(m, rows + p->n, most - p->n, &p->err);
        p->status = k > 0 ? 1 : k;
        if (k <= 0)
            break;
        p->n += (uint32_t)k;
        struct mlw_row *r = &rows[p->n - 1].row;
        if (r->op == MLW_OP_META) { /* its chunk may be gone when it is taken */
            memcpy(p->meta + p->meta_n, r->meta_data, r->meta_bytes);
            r->meta_data = p->meta + p->meta_n;
            p->meta_n += r->meta_bytes;
        }
    } while (p->n < most && p->meta_n <= META_MOST);
    p->bytes_done = merge_bytes_done(m);
    p->unreadable = merge_unreadable(m);
}

/* --- the thread --- */

static int fill_feed_part(void *arg, unsigned part)
{
    struct reader *d = arg;
    fill_part(d->merge, &d->parts[part], PART_ROWS);
    return d->parts[part].status > 0;
}

/* NULL when there is no thread or memory to be had. */
static struct reader *reader_open(struct merge *m)
{
    struct reader *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->merge = m;
    if (!(d->ring = ring_open(PARTS, fill_feed_part, NULL, d))) {
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

bool feed_track(struct feed *f) { return merge_track(f->merge); }

const struct merge_position *feed_where(const struct feed *f, const struct merge_row *r)
{
    return merge_where(f->merge, r);
}

void feed_beside(struct feed *f) { f->beside = true; }

/* Its pages are those that are used: a line of forks has one for each. */
static struct part *own_part(void)
{
    struct part *p = malloc(sizeof *p);
    if (p)
        memset(p, 0, offsetof(struct part, rows));
    return p;
}

/* The part behind f->part. NULL with *err. */
static struct part *next_part(struct feed *f, struct error *err)
{
    if (f->beside && !f->reader && !(f->reader = reader_open(f->merge)))
        f->beside = false;
    if (f->reader)
        return &f->reader->parts[ring_next(f->reader->ring)];
    if (!f->own && !(f->own = own_part())) {
        error_memory_for(err, "merging threads");
        return NULL;
    }
    fill_part(f->merge, f->own, ALONE_ROWS);
    return f->own;
}

int feed_rows(struct feed *f, unsigned kept, struct merge_row **rows, struct error *err)
{
    struct part *p = f->part;
    struct merge_row keep[FEED_KEPT];
    uint32_t n = 0;
    if (!p || p->status > 0) {
        if (kept)
            memcpy(keep, p->rows + FEED_KEPT + p->n - kept, kept * sizeof *keep);
        if (!(p = next_part(f, err)))
            return -1;
        if (kept)
            memcpy(p->rows + FEED_KEPT - kept, keep, kept * sizeof *keep);
        f->part = p;
        n = p->n;
    }
    *rows = p->rows + FEED_KEPT + p->n - n;
    if (!n && p->status < 0)
        *err = p->err;
    return n ? (int)n : p->status;
}

void feed_growing(struct feed *f) { merge_growing(f->merge); }

int feed_grow(struct feed *f, uint64_t limit, bool *late, struct error *err)
{
    if (f->part && !f->part->status)
        f->part->status = 1; /* the end was that of what there was */
    return merge_grow(f->merge, limit, late, err);
}

uint64_t feed_limit(const struct feed *f) { return merge_limit(f->merge); }

bool feed_is_stalled(const struct feed *f) { return merge_is_stalled(f->merge); }

uint64_t feed_bytes_done(const struct feed *f) { return f->part ? f->part->bytes_done : 0; }

uint64_t feed_unreadable(const struct feed *f) { return f->part ? f->part->unreadable : 0; }

void feed_close(struct feed *f)
{
    if (!f)
        return;
    reader_close(f->reader);
    merge_close(f->merge);
    free(f->own);
    free(f);
}
