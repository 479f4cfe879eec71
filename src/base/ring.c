/* ring.c - Runs the thread that fills parts ahead of the caller, in order. One lock guards both
 * ends of the queue, and the thread holds no lock while it fills a part. The caller wakes the
 * thread only now and then, because a wake-up costs as much as filling a part. */
#include "ring.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "thread.h"

struct ring {
    unsigned parts;
    ring_fill *fill;
    ring_help *help; /* NULL: there is none */
    void *arg;
    bool held; /* the caller's: it has part `first` */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    /* under the lock: parts first to last - 1 are filled; of a part, the number modulo `parts` */
    uint64_t first, last;
    bool stop;
};

static void *run_ring(void *arg)
{
    struct ring *r = arg;
    for (bool more = true; more;) {
        pthread_mutex_lock(&r->lock);
        while (r->last - r->first == r->parts && !r->stop)
            pthread_cond_wait(&r->emptied, &r->lock);
        const bool stop = r->stop;
        pthread_mutex_unlock(&r->lock);
        if (stop)
            break;
        /* only this thread changes `last` */
        more = r->fill(r->arg, (unsigned)(r->last % r->parts));
        pthread_mutex_lock(&r->lock);
        r->last++;
        pthread_cond_signal(&r->filled);
        pthread_mutex_unlock(&r->lock);
    }
    return NULL;
}

static void release_ring(struct ring *r)
{
    pthread_mutex_destroy(&r->lock);
    pthread_cond_destroy(&r->filled);
    pthread_cond_destroy(&r->emptied);
    free(r);
}

struct ring *ring_open(unsigned parts, ring_fill *fill, ring_help *help, void *arg)
{
    struct ring *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->parts = parts;
    r->fill = fill;
    r->help = help;
    r->arg = arg;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->filled, NULL);
    pthread_cond_init(&r->emptied, NULL);
    if (thread_start(&r->thread, run_ring, r)) {
        release_ring(r);
        return NULL;
    }
    return r;
}

unsigned ring_next(struct ring *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->held) {
        r->first++;
        /* Not for every part: waking costs as much as filling it. */
        if (r->last - r->first == r->parts / 2)
            pthread_cond_signal(&r->emptied);
    }
    while (r->first == r->last) {
        bool helped = false;
        if (r->help) {
            pthread_mutex_unlock(&r->lock);
            helped = r->help(r->arg);
            pthread_mutex_lock(&r->lock);
        }
        if (!helped && r->first == r->last)
            pthread_cond_wait(&r->filled, &r->lock);
    }
    const unsigned part = (unsigned)(r->first % r->parts);
    pthread_mutex_unlock(&r->lock);
    r->held = true;
    return part;
}

void ring_close(struct ring *r)
{
    if (!r)
        return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->emptied);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    release_ring(r);
}
