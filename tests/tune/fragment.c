/* Made to fragment: each of THREADS threads has its turn, fills BYTES with small blocks, and frees
 * all of them but the last, which keeps the allocator from giving anything back. The threads stay,
 * so with an arena for each nothing is used again; with one arena the next thread takes what the
 * last one left. Turns are handed on with a block that the next
 * thread frees, and each waits for a last block to free: the order is part of the workload.
 *     fragment [THREADS [MEGABYTES]] */
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 64, BLOCK = 1000 };

static unsigned threads = 12;
static size_t bytes = 4u << 20;
static sem_t turn[THREADS_MAX + 1], ended;
static void *volatile token, *volatile farewell[THREADS_MAX];

static void *work(void *arg)
{
    unsigned me = (unsigned)(size_t)arg;
    sem_wait(&turn[me]);
    free(token);
    size_t n = bytes / BLOCK;
    void **blocks = malloc(n * sizeof *blocks);
    for (size_t i = 0; i < n; i++) {
        blocks[i] = malloc(BLOCK);
        memset(blocks[i], 1, BLOCK);
    }
    void *last = malloc(BLOCK);
    for (size_t i = 0; i < n; i++)
        free(blocks[i]);
    free(blocks);
    token = malloc(16);
    sem_post(&turn[me + 1]);
    sem_wait(&ended);
    free(farewell[me]);
    free(last);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        threads = (unsigned)atoi(argv[1]);
    if (argc > 2)
        bytes = (size_t)atoi(argv[2]) << 20;
    if (threads < 1 || threads > THREADS_MAX)
        return 2;
    pthread_t id[THREADS_MAX];
    sem_init(&ended, 0, 0);
    for (unsigned i = 0; i <= threads; i++)
        sem_init(&turn[i], 0, 0);
    token = malloc(16);
    for (unsigned i = 0; i < threads; i++)
        if (pthread_create(&id[i], NULL, work, (void *)(size_t)i))
            return 1;
    sem_post(&turn[0]);
    sem_wait(&turn[threads]);
    free(token);
    for (unsigned i = 0; i < threads; i++)
        farewell[i] = malloc(16);
    for (unsigned i = 0; i < threads; i++)
        sem_post(&ended);
    for (unsigned i = 0; i < threads; i++)
        pthread_join(id[i], NULL);
    return 0;
}
