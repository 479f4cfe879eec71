/* arenas_victim.c - eight threads that make glibc use arenas, grow and shrink heaps, and move its
 * thresholds; then what malloc_info(3) and mallinfo2(3) say of it, while the threads still live.
 * Its output is made with memory of its own, so that asking changes nothing. With an argument it
 * waits for input before it begins, and before it ends. */
#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 8, BLOCKS = 2000 };

static pthread_barrier_t barrier;

static void *thread(void *arg)
{
    size_t number = (size_t)arg;
    static void *block[THREADS][BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        block[number][i] = malloc(100 + (i * 37 + number * 11) % 4000);
        if (i % 3 == 0) {
            free(block[number][i / 2]);
            block[number][i / 2] = NULL;
        }
    }
    /* The end of the heap is given back. */
    for (size_t i = BLOCKS / 2; i < BLOCKS; i++) {
        free(block[number][i]);
        block[number][i] = NULL;
    }
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* which nobody passes */
    return arg;
}

int main(int argc, char **argv)
{
    (void)argv;
    static char text[1 << 18], buffer[1 << 12];
    static const size_t large[] = {300000, 200000, 600000, 1200000};
    pthread_t t[THREADS];
    char word[8];
    bool waits = argc > 1;
    if (waits && read(0, word, sizeof word) <= 0)
        return 1;
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    for (size_t i = 0; i < 4; i++)
        free(malloc(large[i]));
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, thread, (void *)i))
            return 1;
    pthread_barrier_wait(&barrier);
    struct mallinfo2 info = mallinfo2();
    FILE *out = fmemopen(text, sizeof text, "w");
    malloc_info(0, out);
    fflush(out);
    info = mallinfo2();
    printf("%zu\n%s", info.arena, text);
    fflush(stdout);
    if (waits && read(0, word, sizeof word) < 0)
        return 1;
    _Exit(0); /* with all its threads: their ends would give memory back */
}
