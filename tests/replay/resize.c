/* resize.c - reallocs that fail and leave their blocks where they are: of absurd sizes, by an
 * overflow, and for an address space that is used up. Each block is then written, grown and
 * released, by its own thread or by another one; every fourth one lives to the end. Prints
 * how many calls of realloc and reallocarray failed, and the bytes and blocks live at the end. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { BLOCKS = 64, SMALL = 3000, GROWN = 9000 };

static unsigned char *block[BLOCKS];
static unsigned long failed;

/* Fails with one function or the other; the block must be what it was. */
static void fail(size_t i, size_t n, size_t size)
{
    void *p = n == 1 ? realloc(block[i], size) : reallocarray(block[i], n, size);
    if (p || block[i][SMALL / 2] != (unsigned char)i)
        exit(2);
    failed++;
}

/* The address space ends 64 MB behind what there is, which is room enough for the recorder. */
static void fail_for_want_of_room(size_t i)
{
    struct rlimit old, now;
    unsigned long pages;
    char line[128]; /* no stdio: its own memory would be among the blocks */
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || setvbuf(f, line, _IOFBF, sizeof line) || fscanf(f, "%lu", &pages) != 1 ||
        getrlimit(RLIMIT_AS, &old))
        exit(3);
    fclose(f);
    now = old;
    now.rlim_cur = pages * 4096 + ((rlim_t)64 << 20);
    if (setrlimit(RLIMIT_AS, &now))
        exit(4);
    fail(i, 1, (size_t)1 << 30);
    fail(i, 4, (size_t)1 << 28);
    if (setrlimit(RLIMIT_AS, &old))
        exit(5);
}

/* Of every second block: the failures of a block that another thread made, and its end. */
static void *other_thread(void *arg)
{
    for (size_t i = 1; i < BLOCKS; i += 2) {
        fail(i, 1, PTRDIFF_MAX);
        block[i] = realloc(block[i], GROWN + i);
        fail(i, SIZE_MAX / 2, 16);
        if (i % 4 == 1)
            free(block[i]);
    }
    return arg;
}

int main(void)
{
    static char line[256];
    setvbuf(stdout, line, _IOFBF, sizeof line);
    for (size_t i = 0; i < BLOCKS; i++) {
        block[i] = malloc(SMALL + i);
        memset(block[i], (int)i, SMALL);
        fail(i, 1, (size_t)PTRDIFF_MAX - i);
        fail(i, SIZE_MAX / 4, 16 + i);
    }
    fail_for_want_of_room(0);
    for (size_t i = 0; i < BLOCKS; i += 2) {
        block[i] = realloc(block[i], GROWN + i);
        free(block[i]);
    }
    pthread_t t;
    if (pthread_create(&t, NULL, other_thread, NULL) || pthread_join(t, NULL))
        return 1;
    unsigned long bytes = 0, blocks = 0;
    for (size_t i = 3; i < BLOCKS; i += 4, blocks++)
        bytes += GROWN + i;
    printf("%lu %lu %lu\n", failed, bytes, blocks);
    return 0;
}
