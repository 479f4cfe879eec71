/* mapping_victim.c - one block from each of 64 functions, each on a page of code of its own, while
 * another thread does nothing but change the memory map. Waits for a byte before. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../victims/apart.h"

#define FUNCTION(n)                                                                                \
    __attribute__((aligned(4096))) APART static void make_##n(void)                                \
    {                                                                                              \
        void *p = malloc(100);                                                                     \
        __asm__ volatile("" : : "r"(p) : "memory");                                                \
        free(p);                                                                                   \
    }
#define EIGHT(each, n)                                                                             \
    each(n##0) each(n##1) each(n##2) each(n##3) each(n##4) each(n##5) each(n##6) each(n##7)
#define ALL(each)                                                                                  \
    EIGHT(each, 1)                                                                                 \
    EIGHT(each, 2)                                                                                 \
    EIGHT(each, 3)                                                                                 \
    EIGHT(each, 4) EIGHT(each, 5) EIGHT(each, 6) EIGHT(each, 7) EIGHT(each, 8)
#define CALL(n) make_##n();

ALL(FUNCTION)

static atomic_int over;

static void *map(void *arg)
{
    const size_t bytes = 64 << 20;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE,
                   -1, 0);
    for (int i = 0; p != MAP_FAILED && !over; i++)
        if (mprotect(p, bytes, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ))
            exit(1);
    return arg;
}

int main(void)
{
    pthread_t t;
    char c;
    if (pthread_create(&t, NULL, map, NULL) || read(STDIN_FILENO, &c, 1) != 1)
        return 1;
    ALL(CALL)
    over = 1;
    return pthread_join(t, NULL) != 0;
}
