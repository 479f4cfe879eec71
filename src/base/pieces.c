/* pieces.c - Runs helper threads that work on numbered pieces, and hands the results out in
 * order. One lock guards the counts. No thread holds it while it works on a piece. */
#include "pieces.h"

#include <pthread.h>
#include <stdlib.h>

#include "thread.h"

struct pieces {
    unsigned places, helpers;
    uint64_t count;
    pieces_work *work;
    void *arg;
    pthread_t *threads; /* [helpers] */
    pthread_mutex_t lock;
    pthread_cond_t done, room; /* the next in order is done; there is room for another one */
    /* under the lock: pieces below `begun` were begun, those below `released` given back */
    uint64_t begun, taken, released;
    bool *is_done; /* by place */
    bool stop;
};

/* With the lock held, which is not while the piece is done. Whether there was one. */
static bool do_one(struct pieces *p)
{
    if (p->stop || p->begun == p->count || p->begun - p->released == p->places)
        return false;
    const uint64_t number = p->begun++;
    const unsigned place = (unsigned)(number % p->places);
    p->is_done[place] = false;
    pthread_mutex_unlock(&p->lock);
    p->work(p->arg, number, place);
    pthread_mutex_lock(&p->lock);
    p->is_done[place] = true;
    if (number == p->taken)
        pthread_cond_signal(&p->done);
    return true;
}

static void *run_pieces(void *arg)
{
    struct pieces *p = arg;
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->begun < p->count)
        if (!do_one(p))
            pthread_cond_wait(&p->room, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

struct pieces *pieces_open(unsigned places, unsigned helpers, uint64_t count, pieces_work *work,
                           void *arg)
{
    struct pieces *p = calloc(1, sizeof *p);
    if (!p)
        return NULL;
    p->places = places;
    p->count = count;
    p->work = work;
    p->arg = arg;
    p->is_done = calloc(places, sizeof *p->is_done);
    p->threads = calloc((size_t)helpers + 1, sizeof *p->threads);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->done, NULL);
    pthread_cond_init(&p->room, NULL);
    if (!p->is_done || !p->threads) {
        pieces_close(p);
        return NULL;
    }
    while (p->helpers < helpers && !thread_start(&p->threads[p->helpers], run_pieces, p))
        p->helpers++;
    return p;
}

unsigned pieces_next(struct pieces *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->released < p->taken) {
        p->released = p->taken;
        pthread_cond_signal(&p->room);
    }
    const unsigned place = (unsigned)(p->taken % p->places);
    while (p->begun == p->taken || !p->is_done[place])
        if (!do_one(p))
            pthread_cond_wait(&p->done, &p->lock);
    p->taken++;
    pthread_mutex_unlock(&p->lock);
    return place;
}

bool pieces_help(struct pieces *p)
{
    pthread_mutex_lock(&p->lock);
    const bool did = do_one(p);
    pthread_mutex_unlock(&p->lock);
    return did;
}

void pieces_close(struct pieces *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    pthread_cond_broadcast(&p->room);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->helpers; i++)
        pthread_join(p->threads[i], NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->done);
    pthread_cond_destroy(&p->room);
    free(p->threads);
    free(p->is_done);
    free(p);
}
