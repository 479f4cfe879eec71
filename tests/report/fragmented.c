/* fragmented.c - a heap that is mostly free at the peak, and an mmap threshold that frees raise.
 *
 * fragmented [mallopt]: many small blocks of which one in 64 stays, in the main heap and in another
 * thread's arena; then more memory than ever in large blocks, and time to be looked at. */
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../victims/apart.h"

enum { SMALL = 8192, KEPT_OF = 64, LARGE = 6 };

static char *kept[2][SMALL / KEPT_OF];

APART static char *keep(void) { return malloc(1000); }
APART static char *drop(void) { return malloc(1000); }

static void fragment(char **into)
{
    char **dropped = calloc(SMALL, sizeof *dropped);
    for (int i = 0; i < SMALL; i++) {
        char *p = i % KEPT_OF ? drop() : keep();
        memset(p, 1, 1000);
        if (i % KEPT_OF)
            dropped[i] = p;
        else
            into[i / KEPT_OF] = p;
    }
    for (int i = 0; i < SMALL; i++)
        free(dropped[i]);
    free(dropped);
}

static void *in_a_thread(void *unused)
{
    fragment(kept[1]);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc > 1 && !strcmp(argv[1], "mallopt"))
        mallopt(M_MMAP_THRESHOLD, 65536);
    char *first = malloc(120000), *second = malloc(120000); /* only one fits into a fresh heap */
    free(first);
    free(second);
    free(malloc(200000)); /* each of these raises the threshold */
    free(malloc(1000000));
    fragment(kept[0]);
    if (pthread_create(&t, NULL, in_a_thread, NULL) || pthread_join(t, NULL))
        return 1;
    char *large[LARGE];
    for (int i = 0; i < LARGE; i++) {
        large[i] = malloc(4000000);
        memset(large[i], 1, 4000000);
        usleep(60000);
    }
    for (int i = 0; i < LARGE; i++)
        free(large[i]);
    return 0;
}
