/* threads.c - threads that come and go. The truth of each mode is in tests/truth/test_threads.py.
 * What pthread_create itself allocates depends on glibc's cache of stacks, so the numbers here are
 * of malloc and of blocks of sizes that nobody else uses. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile sink;

/* 10 blocks of 100 B freed, one of 16 B left. */
static void *worker(void *arg)
{
    (void)arg;
    void *p[10];
    for (int i = 0; i < 10; i++)
        p[i] = malloc(100);
    for (int i = 0; i < 10; i++)
        free(p[i]);
    sink = malloc(16);
    return NULL;
}

static void waves(int n_waves, int n)
{
    pthread_t *t = malloc(sizeof *t * (size_t)n);
    pthread_attr_t a;
    pthread_attr_init(&a);
    pthread_attr_setstacksize(&a, 65536);
    for (int w = 0; w < n_waves; w++) {
        for (int i = 0; i < n; i++)
            if (pthread_create(&t[i], &a, worker, NULL))
                abort();
        for (int i = 0; i < n; i++)
            pthread_join(t[i], NULL);
    }
    pthread_attr_destroy(&a);
    free(t);
}

/* One thread allocates, the other frees: n blocks of 64 B through a ring. */
#define RING 256
static _Atomic(void *) ring[RING];
static int cross_n;
static void *consumer(void *arg)
{
    (void)arg;
    for (int i = 0; i < cross_n; i++) {
        void *p;
        while (!(p = atomic_exchange(&ring[i % RING], NULL)))
            sched_yield();
        free(p);
    }
    return NULL;
}
static void cross(int n)
{
    pthread_t t;
    cross_n = n;
    pthread_create(&t, NULL, consumer, NULL);
    for (int i = 0; i < n; i++) {
        void *p = malloc(64), *empty = NULL;
        while (!atomic_compare_exchange_weak(&ring[i % RING], &empty, p)) {
            empty = NULL;
            sched_yield();
        }
    }
    pthread_join(t, NULL);
}

/* A key destructor that allocates, and asks for one more round. 4 rounds of 3 blocks of 77 B. */
static pthread_key_t key;
static void destructor(void *value)
{
    for (int i = 0; i < 3; i++)
        free(sink = malloc(77));
    intptr_t round = (intptr_t)value;
    if (round < 4)
        pthread_setspecific(key, (void *)(round + 1));
}
static void *with_key(void *arg)
{
    pthread_setspecific(key, (void *)1);
    return arg;
}
static void keys(int n)
{
    pthread_key_create(&key, destructor);
    for (int i = 0; i < n; i++) {
        pthread_t t;
        pthread_create(&t, NULL, with_key, NULL);
        pthread_join(t, NULL);
    }
}

/* Detached threads that are still allocating when main calls exit. */
static void *forever(void *arg)
{
    for (;;)
        free(sink = malloc(50));
    return arg;
}
static void detached(int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t t;
        pthread_create(&t, NULL, forever, NULL);
        pthread_detach(t);
    }
    usleep(50000);
    printf("main leaves\n");
    exit(17);
}

/* main ends with pthread_exit; the last thread ends the process by returning. */
static void *late(void *arg)
{
    usleep(20000);
    for (int i = 0; i < 25; i++)
        sink = malloc(40);
    printf("late\n");
    return arg;
}
static void main_first(void)
{
    pthread_t t;
    pthread_create(&t, NULL, late, NULL);
    pthread_exit(NULL);
}

/* Threads that are cancelled, with a cleanup handler that frees. */
static void cleanup(void *p) { free(p); }
static void *cancelled(void *arg)
{
    void *p = malloc(88);
    pthread_cleanup_push(cleanup, p);
    for (;;)
        pause();
    pthread_cleanup_pop(1);
    return arg;
}
static void cancel(int n)
{
    for (int i = 0; i < n; i++) {
        pthread_t t;
        pthread_create(&t, NULL, cancelled, NULL);
        if (i & 1)
            usleep(1000);
        pthread_cancel(t);
        pthread_join(t, NULL);
    }
}

/* Two threads that allocate at once, as hard as they can, with different stacks. */
static void *hammer(void *arg)
{
    int n = (int)(intptr_t)arg;
    void *p[64] = {0};
    for (int i = 0; i < n; i++) {
        free(p[i % 64]);
        p[i % 64] = malloc((size_t)(i % 500) + 1);
    }
    for (int i = 0; i < 64; i++)
        free(p[i]);
    return NULL;
}
static void hammers(int threads, int n)
{
    pthread_t t[64];
    for (int i = 0; i < threads; i++)
        pthread_create(&t[i], NULL, hammer, (void *)(intptr_t)n);
    for (int i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    int a = argc > 2 ? atoi(argv[2]) : 0, b = argc > 3 ? atoi(argv[3]) : 0;
    if (!strcmp(m, "waves"))
        waves(a, b);
    else if (!strcmp(m, "cross"))
        cross(a);
    else if (!strcmp(m, "keys"))
        keys(a);
    else if (!strcmp(m, "detached"))
        detached(a);
    else if (!strcmp(m, "main-first"))
        main_first();
    else if (!strcmp(m, "cancel"))
        cancel(a);
    else if (!strcmp(m, "hammer"))
        hammers(a, b);
    else
        return 2;
    return 0;
}
