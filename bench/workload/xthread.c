/* xthread.c - one thread allocates, another frees, through a ring of 1,024 places: 2 events a
 * block. argv: BLOCKS. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define RING 1024
static _Atomic(void *) ring[RING];
static uint64_t n;

/* A short spin, then the processor is given up: on a busy machine the other side may not be
 * running. */
static inline void relax(unsigned *spins)
{
    if (++*spins % 256)
        __asm__ volatile("pause");
    else
        sched_yield();
}

static void *consume(void *arg)
{
    for (uint64_t i = 0; i < n; i++) {
        void *p;
        unsigned spins = 0;
        while (!(p = atomic_load_explicit(&ring[i % RING], memory_order_acquire)))
            relax(&spins);
        atomic_store_explicit(&ring[i % RING], NULL, memory_order_release);
        free(p);
    }
    return arg;
}

int main(int argc, char **argv)
{
    n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    pthread_t t;
    if (pthread_create(&t, NULL, consume, NULL))
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        void *p = malloc(16 + (i * 37 & 255));
        unsigned spins = 0;
        while (atomic_load_explicit(&ring[i % RING], memory_order_acquire))
            relax(&spins);
        atomic_store_explicit(&ring[i % RING], p, memory_order_release);
    }
    pthread_join(t, NULL);
    return 0;
}
