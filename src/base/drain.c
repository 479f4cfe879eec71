/* drain.c - Runs the thread that empties parts in the order in which the caller filled them. One
 * lock guards both ends of the queue, and the thread holds no lock while it empties a part. The
 * thread blocks all signals except SIGPIPE and SIGXFSZ, which its own writes raise. */
#include "drain.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct drain {
    unsigned parts;
    drain_take *take;
    void *arg;
    bool held; /* the caller's: it has part `last` */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t filled, emptied;
    /* under the lock: parts first to last - 1 are full; of a part, the number modulo `parts` */
    uint64_t first, last;
    bool stop;
};

static void *run_drain(void *arg)
{
    struct drain *d = arg;
    pthread_mutex_lock(&d->lock);
    for (;;) {
        while (d->first == d->last && !d->stop)
            pthread_cond_wait(&d->filled, &d->lock);
        if (d->first == d->last)
            break;
        pthread_mutex_unlock(&d->lock);
        /* only this thread changes `first` */
        d->take(d->arg, (unsigned)(d->first % d->parts));
        pthread_mutex_lock(&d->lock);
        d->first++;
        pthread_cond_signal(&d->emptied);
    }
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static void release_drain(struct drain *d)
{
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->filled);
    pthread_cond_destroy(&d->emptied);
    free(d);
}

struct drain *drain_open(unsigned parts, drain_take *take, void *arg)
{
    struct drain *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->parts = parts;
    d->take = take;
    d->arg = arg;
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->filled, NULL);
    pthread_cond_init(&d->emptied, NULL);
    /* Signals are for the thread that knows what to do about them, but those of a write are its
     * own. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGPIPE);
    sigdelset(&all, SIGXFSZ);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int failed = pthread_create(&d->thread, NULL, run_drain, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed) {
        release_drain(d);
        return NULL;
    }
    return d;
}

/* Under the lock. */
static void hand_over_buffer(struct drain *d)
{
    if (!d->held)
        return;
    d->last++;
    d->held = false;
    pthread_cond_signal(&d->filled);
}

unsigned drain_next(struct drain *d)
{
    pthread_mutex_lock(&d->lock);
    hand_over_buffer(d);
    while (d->last - d->first == d->parts)
        pthread_cond_wait(&d->emptied, &d->lock);
    const unsigned part = (unsigned)(d->last % d->parts);
    d->held = true;
    pthread_mutex_unlock(&d->lock);
    return part;
}

void drain_close(struct drain *d)
{
    if (!d)
        return;
    pthread_mutex_lock(&d->lock);
    hand_over_buffer(d);
    d->stop = true;
    pthread_cond_signal(&d->filled);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    release_drain(d);
}
