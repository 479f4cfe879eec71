/* Something of everything: two threads, reallocs, temporary blocks, leaks, aligned and failed
 * calls, mmap; with the argument "fork" also a child, with "callers" also many callers of one
 * function. Truth is what `mallow report --json` says of it. */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"
#include "mallow.h"

static void *volatile keep[4096];
static volatile size_t kept;

static inline __attribute__((always_inline)) void *inlined_leaf(size_t n) { return malloc(n); }

APART static void leak(size_t n) { keep[kept++] = inlined_leaf(n); }

APART static void momentary(size_t n)
{
    char *volatile p = malloc(n);
    free(p);
}

APART static void grow(void)
{
    char *p = NULL;
    for (size_t n = 16; n <= 65536; n *= 2) {
        p = realloc(p, n);
        momentary(n / 3);
    }
    keep[kept++] = realloc(p, 100);
}

APART static void recurse(int depth)
{
    if (depth)
        recurse(depth - 1);
    else
        leak(77);
    __asm__ volatile("");
}

/* Three hundred functions that call one: more names on one level than there is room for at first.
 */
#define CALLER(n)                                                                                  \
    APART static void caller_##n(void)                                                             \
    {                                                                                              \
        leak(n);                                                                                   \
        __asm__ volatile("");                                                                      \
    }
#define CALL(n)   caller_##n();
#define TEN(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7) X(n##8) X(n##9)
#define HUNDRED(X, n)                                                                              \
    TEN(X, n##0)                                                                                   \
    TEN(X, n##1)                                                                                   \
    TEN(X, n##2)                                                                                   \
    TEN(X, n##3) TEN(X, n##4) TEN(X, n##5) TEN(X, n##6) TEN(X, n##7) TEN(X, n##8) TEN(X, n##9)

HUNDRED(CALLER, 1)
HUNDRED(CALLER, 2)
HUNDRED(CALLER, 3)

static void *worker(void *arg)
{
    void *blocks[500];
    for (size_t i = 0; i < 500; i++)
        blocks[i] = calloc(i + 1, 8);
    for (size_t i = 0; i < 499; i++)
        free(blocks[i]);
    free(arg); /* of the other thread */
    return blocks[499];
}

int main(int argc, char **argv)
{
    pthread_t t;
    void *aligned = NULL, *result = NULL;
    char *big = malloc(3 << 20);
    volatile size_t huge = PTRDIFF_MAX;
    for (int i = 0; i < 200; i++)
        leak((size_t)i * 3 + 1);
    mallow_mark("leaked");
    grow();
    recurse(40);
    if (argc > 1 && !strcmp(argv[1], "callers")) {
        HUNDRED(CALL, 1)
        HUNDRED(CALL, 2)
        HUNDRED(CALL, 3)
    }
    if (posix_memalign(&aligned, 256, 1000))
        return 1;
    keep[kept++] = aligned;
    keep[kept++] = memalign(64, 200);
    free(NULL);
    free(malloc(huge)); /* fails */
    void *m = mmap(NULL, 1 << 16, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(m, 1 << 16);
    if (pthread_create(&t, NULL, worker, malloc(1234)) || pthread_join(t, &result))
        return 1;
    free(result);
    if (argc > 1 && !strcmp(argv[1], "fork")) {
        pid_t child = fork();
        if (child == 0) {
            leak(5000);
            free(big);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
    free(big);
    return 0;
}
