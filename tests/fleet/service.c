/* A service of which there are two builds: with LEAK, its cache keeps more, and its code has moved.
 * Usage: service BLOCKS [PAUSE_MS [DEPTH]]: serves all blocks, waits, fills its cache, and keeps a
 * block at each level of a recursion. */
#include <stdlib.h>
#include <time.h>

#include "../victims/apart.h"

static void *volatile keep[4096];
static size_t kept;

#ifdef LEAK
APART static void *added_by_the_new_build(size_t n) { return calloc(1, n); }

#endif
APART static void serve(size_t n) { keep[kept++ % 4096] = malloc(n); }

APART static void cache(size_t n)
{
    keep[kept++ % 4096] = malloc(n);
#ifdef LEAK
    for (int i = 0; i < 10; i++)
        keep[kept++ % 4096] = malloc(n);
    free(added_by_the_new_build(n));
#endif
}

APART static void descend(size_t depth)
{
    keep[kept++ % 4096] = malloc(50);
    if (depth)
        descend(depth - 1);
    __asm__ volatile("" ::: "memory"); /* no jump in place of the call */
}

int main(int argc, char **argv)
{
    const size_t blocks = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    for (size_t i = 0; i < blocks; i++)
        serve(100);
    if (argc > 2) {
        const long ms = strtol(argv[2], NULL, 10);
        nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
    }
    cache(1000);
    if (argc > 3)
        descend(strtoul(argv[3], NULL, 10) - 1);
    return 0;
}
