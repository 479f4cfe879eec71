/* killed.c - counts its own events in a file mapped shared, so that whoever kills it at a random
 * moment knows how many had happened. argv: FILE THREADS. Each thread makes and frees blocks; after
 * each call has returned it stores its count. The last word of the file is its process id. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic uint64_t *counts; /* [thread * 8]: mallocs done; [thread * 8 + 1]: frees done */

static void *work(void *arg)
{
    uintptr_t me = (uintptr_t)arg;
    void *volatile p[32] = {0};
    uint64_t made = 0, freed = 0;
    for (unsigned i = 0;; i++) {
        unsigned k = i * 7 % 32;
        if (p[k]) {
            free(p[k]);
            atomic_store_explicit(&counts[me * 8 + 1], ++freed, memory_order_release);
        }
        p[k] = malloc(1000 + me);
        atomic_store_explicit(&counts[me * 8], ++made, memory_order_release);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    int fd = open(argv[1], O_RDWR), n = atoi(argv[2]);
    counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counts == MAP_FAILED)
        return 3;
    atomic_store(&counts[511], (uint64_t)getpid());
    for (uintptr_t i = 1; i < (uintptr_t)n; i++) {
        pthread_t t;
        if (pthread_create(&t, NULL, work, (void *)i))
            return 4;
    }
    work((void *)0);
    return 0;
}
