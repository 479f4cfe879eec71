/* ring.c - a thread-race victim: 8 threads pass blocks around a ring, reallocate and free what
 * comes, with no order between them but the exchanges. Usage: ring ROUNDS. Prints what it called:
 * malloc realloc free, threads' calls only. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 8, PLACES = 64 };

static _Atomic(void *) place[THREADS][PLACES];
static long rounds;
static _Atomic long mallocs, reallocs, frees;

static void *worker(void *arg)
{
    long id = (long)arg, m = 0, g = 0, f = 0;
    unsigned long r = (unsigned long)id * 7919 + 1;
    for (long i = 0; i < rounds; i++) {
        r = r * 6364136223846793005ul + 1442695040888963407ul;
        unsigned k = (unsigned)(r >> 33) % PLACES;
        size_t size = (r >> 40) % 700 + 1;
        void *p = malloc(size);
        m++;
        if ((r >> 20) % 5 == 0) {
            p = realloc(p, size * 2);
            g++;
        }
        void *old = atomic_exchange(&place[(id + 1) % THREADS][k], p);
        if (old && (r >> 25) % 3 == 0) { /* another thread's block, resized and passed on */
            old = realloc(old, size / 2 + 1);
            g++;
            old = atomic_exchange(&place[(id + 3) % THREADS][(k + 5) % PLACES], old);
        }
        if (old || (r >> 50) % 97 == 0) {
            free(old);
            f++;
        }
    }
    mallocs += m;
    reallocs += g;
    frees += f;
    return NULL;
}

int main(int argc, char **argv)
{
    static char line[256];
    setvbuf(stdout, line, _IOFBF, sizeof line);
    rounds = argc > 1 ? atol(argv[1]) : 2000;
    pthread_t t[THREADS];
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, worker, (void *)i))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < THREADS; i++)
        for (int k = 0; k < PLACES; k++) {
            free(place[i][k]);
            frees++;
        }
    printf("%ld %ld %ld\n", mallocs, reallocs, frees);
    return 0;
}
