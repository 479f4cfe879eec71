/* victim_trim.c - makes a heap with holes of all kinds, and trims it when asked.
 *
 * Usage: victim_trim THREADS. Every thread (0: the first alone) makes 20,000 blocks, writes to most
 * of them, and frees runs of them. Prints "ready"; after a byte of input calls malloc_trim(0) and
 * prints "trimmed"; ends with its input. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 20000, THREADS_MAX = 16 };

static pthread_barrier_t made;
void **kept[THREADS_MAX + 1];

static void *work(void *arg)
{
    uintptr_t number = (uintptr_t)arg;
    uint64_t state = 88172645463325252ULL + number;
    void **block = kept[number] = calloc(BLOCKS, sizeof *block);
    for (size_t i = 0; i < BLOCKS; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        size_t bytes = state % 100 < 90 ? state % 700 : state % 60000;
        block[i] = malloc(bytes + 1);
        if (state % 7)
            memset(block[i], 1, bytes + 1);
    }
    for (size_t i = 0; i < BLOCKS; i++) /* runs of different lengths, then single ones */
        if (i / 37 % 3 == 0 || i % 11 == 0) {
            free(block[i]);
            block[i] = NULL;
        }
    if (number)
        pthread_barrier_wait(&made);
    while (number)
        pause();
    for (size_t i = BLOCKS - 3000; i < BLOCKS; i++) { /* the end of the heap: its top */
        free(block[i]);
        block[i] = NULL;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned threads = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
    pthread_t id;
    char byte;
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    malloc_trim(0);
    pthread_barrier_init(&made, NULL, threads + 1);
    for (uintptr_t i = 1; i <= threads && i <= THREADS_MAX; i++)
        if (pthread_create(&id, NULL, work, (void *)i)) // NOLINT(performance-no-int-to-ptr)
            return 1;
    work(NULL);
    pthread_barrier_wait(&made);
    if (write(1, "ready\n", 6) < 0)
        return 1;
    while (read(0, &byte, 1) > 0) {
        malloc_trim(0);
        if (write(1, "trimmed\n", 8) < 0)
            return 1;
    }
    return 0;
}
