/* heap.c - a program that says what glibc's own mallinfo2 says at its very end. Usage: heap THREADS
 * ROUNDS. With 0 threads all is done by the first one; else THREADS threads, all there before one
 * ends, work on blocks of their own, hand some to the next thread, and end before the sums are
 * taken. Prints four numbers: bytes of arenas, in use, free, mmapped. */
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 16, BLOCKS = 3000, PLACES = 64 };

static void *block[THREADS_MAX][BLOCKS];
static _Atomic(void *) place[THREADS_MAX][PLACES];
static long threads, rounds;
static pthread_barrier_t all_there;

static void *work(void *arg)
{
    long id = (long)arg;
    unsigned long r = (unsigned long)id * 7919 + 1;
    if (threads) {
        block[id][0] = malloc(100);
        pthread_barrier_wait(&all_there);
    }
    for (long i = 0; i < rounds; i++) {
        r = r * 6364136223846793005ul + 1442695040888963407ul;
        unsigned k = (unsigned)(r >> 33) % BLOCKS;
        size_t size = (r >> 45) % 2000 + 1;
        void **p = &block[id][k];
        free(*p);
        *p = (r >> 20) % 11 ? malloc(size) : calloc(2, size);
        if ((r >> 24) % 7 == 0)
            *p = realloc(*p, (r >> 50) % 6000 + 1);
        if ((r >> 28) % 500 == 0) {
            free(*p);
            *p = aligned_alloc(64, 20032);
        }
        if ((r >> 16) % 9 == 0)
            free(atomic_exchange(&place[(id + 1) % THREADS_MAX][k % PLACES], malloc(size / 2 + 1)));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static char line[256];
    pthread_t t[THREADS_MAX];
    setvbuf(stdout, line, _IOFBF, sizeof line);
    threads = argc > 1 ? atol(argv[1]) : 0;
    rounds = argc > 2 ? atol(argv[2]) : 20000;
    if (threads > THREADS_MAX)
        return 1;
    pthread_barrier_init(&all_there, NULL, threads ? (unsigned)threads : 1);
    for (long i = 0; i < threads; i++)
        if (pthread_create(&t[i], NULL, work, (void *)i))
            return 1;
    if (!threads)
        work(NULL);
    for (long i = 0; i < threads; i++)
        pthread_join(t[i], NULL);
    struct mallinfo2 m = mallinfo2();
    printf("%zu %zu %zu %zu\n", m.arena, m.uordblks, m.fordblks, m.hblkhd);
    return 0;
}
