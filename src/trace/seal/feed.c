#include "feed.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

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
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    /* under the lock: parts first to last - 1 are filled; of a part, the number modulo PARTS */
    uint64_t first, last;
    bool stop;
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

static void fill(struct reader *d, struct part *p)
{
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
}

static void *run(void *arg)
{
    struct reader *d = arg;
    int status = 1;
    while (status > 0) {
        pthread_mutex_lock(&d->lock);
        while (d->last - d->first == PARTS && !d->stop)
            pthread_cond_wait(&d->emptied, &d->lock);
        const bool stop = d->stop;
        pthread_mutex_unlock(&d->lock);
        if (stop)
            break;
        struct part *p = &d->parts[d->last % PARTS]; /* only this thread changes `last` */
        fill(d, p);
        status = p->status;
        pthread_mutex_lock(&d->lock);
        d->last++;
        pthread_cond_signal(&d->filled);
        pthread_mutex_unlock(&d->lock);
    }
    return NULL;
}

static void reader_free(struct reader *d)
{
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->filled);
    pthread_cond_destroy(&d->emptied);
    free(d);
}

/* NULL when there is no thread or memory to be had. */
static struct reader *reader_open(struct merge *m, bool track)
{
    struct reader *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->merge = m;
    d->track = track;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->filled, NULL);
    pthread_cond_init(&d->emptied, NULL);
    /* Signals are for the thread that knows what to do about them. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&d->thread, NULL, run, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        reader_free(d);
        return NULL;
    }
    return d;
}

/* The next part that is filled; the one before is given back. */
static struct part *reader_part(struct reader *d, const struct part *before)
{
    pthread_mutex_lock(&d->lock);
    if (before) {
        d->first++;
        /* Not for every part: waking costs as much as filling it. */
        if (d->last - d->first == PARTS / 2)
            pthread_cond_signal(&d->emptied);
    }
    while (d->first == d->last)
        pthread_cond_wait(&d->filled, &d->lock);
    struct part *p = &d->parts[d->first % PARTS];
    pthread_mutex_unlock(&d->lock);
    return p;
}

static void reader_close(struct reader *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->emptied);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    reader_free(d);
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
        f->part = reader_part(f->reader, f->part);
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
