/* parallel.c - Runs a loop over ranges, or two calls, on several threads. The threads take
 * pieces from an atomic counter. The caller's thread works too, so the result is complete even
 * if no thread can start. */
#include "heap/parallel.h"

#include <pthread.h>
#include <stdatomic.h>

enum { PIECE = 1 << 16, THREADS_MAX = 64 };

struct ranges {
    size_t n;
    atomic_size_t next;
    void (*part)(void *arg, size_t from, size_t to);
    void *arg;
};

static void *work(void *arg)
{
    struct ranges *r = arg;
    for (size_t from; (from = atomic_fetch_add(&r->next, PIECE)) < r->n;)
        r->part(r->arg, from, r->n - from < PIECE ? r->n : from + PIECE);
    return NULL;
}

void parallel_ranges(unsigned threads, size_t n, void (*part)(void *arg, size_t from, size_t to),
                     void *arg)
{
    struct ranges r = {.n = n, .part = part, .arg = arg};
    pthread_t other[THREADS_MAX];
    unsigned started = 0;
    if (threads > THREADS_MAX)
        threads = THREADS_MAX;
    while (started + 1 < threads && (size_t)(started + 1) * PIECE < n &&
           !pthread_create(&other[started], NULL, work, &r))
        started++;
    work(&r);
    for (unsigned i = 0; i < started; i++)
        pthread_join(other[i], NULL);
}

struct task {
    void (*call)(void *);
    void *arg;
};

static void *run(void *arg)
{
    const struct task *t = arg;
    t->call(t->arg);
    return NULL;
}

void parallel_both(unsigned threads, void (*one)(void *), void *one_arg, void (*other)(void *),
                   void *other_arg)
{
    struct task t = {one, one_arg};
    pthread_t thread;
    const int alone = threads < 2 || pthread_create(&thread, NULL, run, &t);
    if (alone)
        one(one_arg);
    other(other_arg);
    if (!alone)
        pthread_join(thread, NULL);
}
