/* fray.c - a heap that fills and frays: survivors between blocks that are freed, a thread with an
 * arena of its own, blocks with a mapping of their own. Usage: fray BLOCKS BYTES */
#include <pthread.h>
#include <stdlib.h>

#include "../victims/apart.h"

static void *kept[1u << 16];

#define SITE(name)                                                                                 \
    APART static void *name(size_t bytes)                                                          \
    {                                                                                              \
        void *p = malloc(bytes);                                                                   \
        __asm__ volatile("" : : "r"(p) : "memory"); /* not a tail call */                          \
        return p;                                                                                  \
    }
SITE(survivor)
SITE(passing)
SITE(threaded)
SITE(mapped)

static void *run(void *arg)
{
    void *block[400];
    for (unsigned i = 0; i < 400; i++)
        block[i] = threaded(900);
    for (unsigned i = 0; i < 400; i++)
        if (i % 10)
            free(block[i]);
    return arg;
}

int main(int argc, char **argv)
{
    const unsigned blocks = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    const size_t bytes = argc > 2 ? (size_t)atol(argv[2]) : 1000;
    pthread_t thread;
    if (blocks > 1u << 16 || pthread_create(&thread, NULL, run, NULL))
        return 1;
    pthread_join(thread, NULL);
    void *own = mapped(1 << 20);
    for (unsigned i = 0; i < blocks; i++)
        kept[i] = i % 8 ? passing(bytes) : survivor(bytes);
    for (unsigned i = 0; i < blocks; i++)
        if (i % 8)
            free(kept[i]);
    free(own);
    return 0;
}
