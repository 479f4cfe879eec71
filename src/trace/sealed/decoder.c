#include "decoder.h"

#include <pthread.h>
#include <signal.h>

#include "cursor_impl.h"

struct part {
    struct arrays a, b; /* the cursor's while it fills this part */
    struct cursor_found found;
    struct trace_batch batch;
    struct error err;
    int status; /* of cursor_decode */
};

struct decoder {
    struct cursor *cursor;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    /* under the lock */
    uint64_t first,
        last; /* parts first to last - 1 are filled; of a part, the number modulo its count */
    bool stop;
    /* the caller's */
    bool held; /* part `first` was given out */
    bool over;
    struct part parts[DECODER_PARTS];
};

static void exchange(struct cursor *c, struct part *p)
{
    const struct arrays a = c->a, b = c->b;
    const struct cursor_found found = c->found;
    c->a = p->a;
    c->b = p->b;
    c->found = p->found;
    p->a = a;
    p->b = b;
    p->found = found;
}

/* Decodes a batch into the part. */
static void fill(struct cursor *c, struct part *p)
{
    exchange(c, p);
    c->found.count = 0;
    /* Behind damage a cursor needs the second arrays; it made only those that it had then. */
    if (c->degraded && !c->b.kind && !cursor_arrays_make(&c->b, CURSOR_DEGRADED_ENTRIES))
        p->status = no_memory(&p->err);
    else
        p->status = cursor_decode(c, &p->batch, &p->err);
    exchange(c, p);
}

static void *run(void *arg)
{
    struct decoder *d = arg;
    int status = 1;
    while (status > 0) {
        pthread_mutex_lock(&d->lock);
        while (d->last - d->first == DECODER_PARTS && !d->stop)
            pthread_cond_wait(&d->emptied, &d->lock);
        const bool stop = d->stop;
        pthread_mutex_unlock(&d->lock);
        if (stop)
            break;
        struct part *p = &d->parts[d->last % DECODER_PARTS]; /* only this thread changes `last` */
        fill(d->cursor, p);
        status = p->status;
        pthread_mutex_lock(&d->lock);
        d->last++;
        pthread_cond_signal(&d->filled);
        pthread_mutex_unlock(&d->lock);
    }
    return NULL;
}

static void parts_free(struct decoder *d)
{
    for (unsigned i = 0; i < DECODER_PARTS; i++) {
        cursor_arrays_free(&d->parts[i].a);
        cursor_arrays_free(&d->parts[i].b);
        free(d->parts[i].found.items);
    }
    free(d);
}

struct decoder *decoder_open(struct cursor *c)
{
    struct decoder *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->cursor = c;
    for (unsigned i = 0; i < DECODER_PARTS; i++)
        if (!cursor_arrays_make(&d->parts[i].a, CURSOR_ENTRIES)) {
            parts_free(d);
            return NULL;
        }
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
        pthread_mutex_destroy(&d->lock);
        pthread_cond_destroy(&d->filled);
        pthread_cond_destroy(&d->emptied);
        parts_free(d);
        return NULL;
    }
    return d;
}

int decoder_next(struct decoder *d, struct trace_batch *batch, struct error *err)
{
    if (d->over)
        return 0;
    pthread_mutex_lock(&d->lock);
    if (d->held) {
        d->first++;
        /* Not for every part: waking costs as much as filling it. */
        if (d->last - d->first == DECODER_PARTS / 2)
            pthread_cond_signal(&d->emptied);
    }
    while (d->first == d->last)
        pthread_cond_wait(&d->filled, &d->lock);
    struct part *p = &d->parts[d->first % DECODER_PARTS];
    pthread_mutex_unlock(&d->lock);
    d->held = true;
    cursor_settle(d->cursor, &p->found);
    if (p->status > 0)
        *batch = p->batch;
    else
        d->over = true;
    if (p->status < 0)
        *err = p->err;
    return p->status;
}

void decoder_close(struct decoder *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    d->stop = true;
    pthread_cond_signal(&d->emptied);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->filled);
    pthread_cond_destroy(&d->emptied);
    parts_free(d);
}
