/* handover.c - what it costs that a word which one thread has written is read by another: the two
 * threads take turns on one cache line. Prints ns for one way, the least of ROUNDS rounds.
 * argv: TURNS ROUNDS. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static _Atomic uint64_t word __attribute__((aligned(128)));
static uint64_t turns;

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Takes every second turn. */
static void *take(void *arg)
{
    uint64_t mine = (uint64_t)(uintptr_t)arg;
    for (; mine < turns; mine += 2) {
        while (atomic_load_explicit(&word, memory_order_acquire) != mine)
            __builtin_ia32_pause();
        atomic_store_explicit(&word, mine + 1, memory_order_release);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    turns = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    unsigned long rounds = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    double least = 1e18;
    while (rounds--) {
        pthread_t t;
        atomic_store(&word, 0);
        double start = now_ns();
        if (pthread_create(&t, NULL, take, (void *)1))
            return 1;
        take(NULL);
        pthread_join(t, NULL);
        double took = (now_ns() - start) / (double)turns;
        least = took < least ? took : least;
    }
    printf("%.1f\n", least);
    return 0;
}
