/* hits.c - malloc and free, or page faults, from a known depth; prints the thread's own CPU
 * nanoseconds for each. Built without frame pointers, as distributions build.
 * usage: hits malloc|fault N DEPTH [wait]   with a fourth argument, it waits for a byte of input */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../../tests/victims/apart.h"

static void *volatile sink;
static char *pages;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static APART double run(int what, long n)
{
    double start = now();
    for (long i = 0; i < n; i++) {
        if (what) {
            pages[i * 4096] = 1;
        } else {
            sink = malloc(100);
            free(sink);
        }
    }
    return now() - start;
}

static APART double deep(int what, long n, int depth)
{
    volatile char room[32];
    room[depth & 31] = 1;
    double ns = depth > 1 ? deep(what, n, depth - 1) : run(what, n);
    return ns + (room[0] & 0);
}

int main(int argc, char **argv)
{
    char word;
    if (argc != 4 && argc != 5)
        return 2;
    if (argc == 5 && read(0, &word, 1) != 1)
        return 1;
    int what = !strcmp(argv[1], "fault");
    long n = atol(argv[2]);
    if (what) {
        pages = mmap(NULL, (size_t)n * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                     -1, 0);
        madvise(pages, (size_t)n * 4096, MADV_NOHUGEPAGE);
    }
    printf("%.1f\n", deep(what, n, atoi(argv[3])) / (double)n);
    return 0;
}
