/* readahead.c - Reads windows of the target's memory in helper threads ahead of one consumer.
 * One lock guards the states of the windows, and no thread holds it during a read. The consumer
 * reads a window itself if no helper has begun it. */
#include "heap/readahead.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

enum { WINDOW_BYTES = 1 << 19, WINDOWS = 6, THREADS_MAX = 3 };

enum window_state { WINDOW_EMPTY, WINDOW_READING, WINDOW_READY };

struct window {
    uint64_t at;
    size_t bytes;
    enum window_state state;
    bool unwanted; /* once it is read */
    uint8_t *data; /* WINDOW_BYTES */
};

struct readahead {
    struct target *t;
    struct window windows[WINDOWS];
    struct window *here; /* the window of the last call: no other thread touches it; NULL: none */
    uint64_t next, end;  /* [next, end) is to be read ahead */
    uint64_t expected;   /* a call for this address goes on where the last one was */
    unsigned threads;    /* that run */
    pthread_t thread[THREADS_MAX];
    pthread_mutex_t lock;
    pthread_cond_t wanted, ready;
    bool stopping;
};

static void read_window(struct readahead *a, struct window *w, uint64_t end)
{
    uint64_t want = end - w->at;
    w->bytes = target_read(a->t, w->at, w->data, want < WINDOW_BYTES ? (size_t)want : WINDOW_BYTES);
}

static struct window *empty_window(struct readahead *a)
{
    for (size_t i = 0; i < WINDOWS; i++)
        if (a->windows[i].state == WINDOW_EMPTY)
            return &a->windows[i];
    return NULL;
}

static void *work(void *arg)
{
    struct readahead *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->stopping) {
        struct window *w = a->next < a->end ? empty_window(a) : NULL;
        if (!w) {
            pthread_cond_wait(&a->wanted, &a->lock);
            continue;
        }
        const uint64_t end = a->end;
        w->at = a->next;
        w->state = WINDOW_READING;
        w->unwanted = false;
        a->next = end - a->next > WINDOW_BYTES ? a->next + WINDOW_BYTES : end;
        pthread_mutex_unlock(&a->lock);
        read_window(a, w, end);
        pthread_mutex_lock(&a->lock);
        w->state = w->unwanted ? WINDOW_EMPTY : WINDOW_READY;
        pthread_cond_signal(&a->ready);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

struct readahead *readahead_open(struct target *t, unsigned threads)
{
    struct readahead *a = calloc(1, sizeof *a);
    uint8_t *data = a ? aligned_alloc(64, (size_t)WINDOWS * WINDOW_BYTES) : NULL;
    if (!data) {
        free(a);
        return NULL;
    }
    a->t = t;
    for (size_t i = 0; i < WINDOWS; i++)
        a->windows[i].data = data + i * WINDOW_BYTES;
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->wanted, NULL);
    pthread_cond_init(&a->ready, NULL);
    while (threads > 1 && a->threads < THREADS_MAX && a->threads < threads - 1 &&
           !pthread_create(&a->thread[a->threads], NULL, work, a))
        a->threads++;
    return a;
}

void readahead_close(struct readahead *a)
{
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->stopping = true;
    pthread_cond_broadcast(&a->wanted);
    pthread_mutex_unlock(&a->lock);
    for (unsigned i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    pthread_cond_destroy(&a->ready);
    pthread_cond_destroy(&a->wanted);
    pthread_mutex_destroy(&a->lock);
    free(a->windows[0].data);
    free(a);
}

/* The window that was to hold the address. */
static struct window *window_from(struct readahead *a, uint64_t at)
{
    for (size_t i = 0; i < WINDOWS; i++)
        if (a->windows[i].state != WINDOW_EMPTY && !a->windows[i].unwanted &&
            at - a->windows[i].at < WINDOW_BYTES)
            return &a->windows[i];
    return NULL;
}

/* Windows below the address, or, with `all`, all of them, will not be asked for any more. */
static void drop(struct readahead *a, uint64_t below, bool all)
{
    for (size_t i = 0; i < WINDOWS; i++) {
        struct window *w = &a->windows[i];
        if (!all && w->at + WINDOW_BYTES > below)
            continue;
        if (w->state == WINDOW_READING)
            w->unwanted = true;
        else
            w->state = WINDOW_EMPTY;
    }
}

/* Waits for a window; NULL when all are being read in vain. */
static struct window *await(struct readahead *a, uint64_t at)
{
    struct window *w;
    while ((w = window_from(a, at)) && w->state == WINDOW_READING)
        pthread_cond_wait(&a->ready, &a->lock);
    while (!w && !(w = empty_window(a)))
        pthread_cond_wait(&a->ready, &a->lock);
    return w;
}

/* True if `least` bytes from the address on are in a window that was read. */
static bool holds(const struct window *w, uint64_t at, size_t least)
{
    return at - w->at < w->bytes && w->bytes - (at - w->at) >= least;
}

/* Moves on to the window that holds `at`. */
static void turn(struct readahead *a, uint64_t at, uint64_t end, size_t least)
{
    pthread_mutex_lock(&a->lock);
    const bool goes_on = a->here && at - a->expected < WINDOW_BYTES;
    if (!goes_on)
        a->next = a->end = 0;
    drop(a, at, !goes_on);
    struct window *w = a->here = await(a, at);
    if (w->state == WINDOW_EMPTY || !holds(w, at, least)) { /* now, here */
        w->at = at;
        w->state = WINDOW_READING;
        w->unwanted = false;
        pthread_mutex_unlock(&a->lock);
        read_window(a, w, end);
        pthread_mutex_lock(&a->lock);
        w->state = WINDOW_READY;
    }
    a->expected = w->at + w->bytes;
    if (goes_on && a->threads) {
        a->next = a->next < a->expected ? a->expected : a->next;
        a->end = end;
        pthread_cond_broadcast(&a->wanted);
    }
    pthread_mutex_unlock(&a->lock);
}

const uint8_t *readahead_at(struct readahead *a, uint64_t at, uint64_t end, size_t least,
                            size_t *bytes)
{
    if (!a->here || !holds(a->here, at, least))
        turn(a, at, end, least);
    const struct window *w = a->here;
    *bytes = at - w->at < w->bytes ? w->bytes - (size_t)(at - w->at) : 0;
    return w->data + (at - w->at);
}
