/* routes.c - takes each path inside glibc's allocator a known number of times; each step has block
 * sizes of its own, so that a recording shows which step a call belongs to. A step leaves nothing
 * free that the next one could get. Prints how often the program break rose in a malloc, and fell
 * in a free, as the kernel has it.
 *
 *   routes            one thread
 *   routes arena      the same in a second thread, which has an arena of its own
 *   routes mix        eight threads that make and free blocks of many sizes, 8 * 20000 mallocs */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N      50
#define FILLED 16 /* the most that a thread's cache takes of one size */

static void *volatile block[2 * N], *volatile guard[2 * N], *volatile kept[4 * N];
static unsigned rose, fell;

static void *take(size_t n)
{
    char *before = sbrk(0);
    void *p = malloc(n);
    rose += (char *)sbrk(0) > before;
    if (!p)
        exit(1);
    return p;
}

static void give(void *p)
{
    char *before = sbrk(0);
    free(p);
    fell += (char *)sbrk(0) < before;
}

/* With guards, blocks are not merged with each other. */
static void make(size_t size, int n, size_t guards)
{
    for (int i = 0; i < n; i++) {
        block[i] = take(size);
        if (guards)
            guard[i] = take(guards);
    }
}

static void release(int n)
{
    for (int i = 0; i < n; i++)
        give(block[i]);
}

/* 200: from the top into the thread's cache, and from there. */
static void cache(void)
{
    for (int i = 0; i < 2; i++) {
        make(200, 5, 0);
        release(5);
    }
}

/* 5000: free, it is sorted into its large bin by a request for more (60000), and taken from there.
 */
static void large(void)
{
    for (int i = 0; i < N; i++) {
        void *p = take(5000);
        kept[3 * i] = take(56);
        give(p);
        kept[3 * i + 1] = take(60000);
        kept[3 * i + 2] = take(5000);
    }
}

/* 1700 grows where it is, into the top; to 30000 it has to move; what it leaves is taken again. */
static void resize(void)
{
    void *p = realloc(take(1700), 1800);
    kept[3 * N] = take(72);
    p = realloc(p, 30000);
    kept[3 * N + 1] = take(1800);
    give(p);
}

/* 300000: mappings. */
static void mapped(void)
{
    for (int i = 0; i < N; i++)
        give(take(300000));
}

/* 104: what the cache does not take goes into a fast bin, where there are any. */
static void fast(void)
{
    for (int i = 0; i < 2; i++) {
        make(104, N + FILLED, 0);
        release(N + FILLED);
    }
}

/* 408: into the unsorted list, or a small bin. */
static void small(void)
{
    make(408, N + FILLED, 40);
    release(N + FILLED);
    make(408, N + FILLED, 0);
    release(N + FILLED);
}

/* 70000: the top grows, and is trimmed. */
static void grow(void)
{
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 10; k++)
            block[k] = take(70000);
        for (int k = 9; k >= 0; k--)
            give(block[k]);
    }
}

static void *steps(void *arg)
{
    cache();
    large();
    resize();
    mapped();
    fast();
    small();
    grow();
    free(NULL);
    return arg;
}

enum { THREADS = 8, MIXED = 20000, HELD = 200 };

static void *mix(void *seed)
{
    void *held[HELD] = {0};
    unsigned s = (unsigned)(size_t)seed;
    for (int i = 0; i < MIXED; i++) {
        s = s * 1103515245 + 12345;
        void *volatile *at = (void *volatile *)&held[(s >> 8) % HELD];
        free(*at);
        *at = malloc((s >> 16) % (s & 32 ? 40000 : 600));
    }
    for (int i = 0; i < HELD; i++)
        free(held[i]);
    return NULL;
}

static int mix_all(void)
{
    pthread_t t[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, mix, (void *)(i + 1)))
            return 1;
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    return 0;
}

int main(int argc, char **argv)
{
    pthread_t t;
    if (argc > 1 && !strcmp(argv[1], "mix"))
        return mix_all();
    mallopt(M_MMAP_THRESHOLD, 200000);
    mallopt(M_TRIM_THRESHOLD, 100000);
    if (argc > 1 && !strcmp(argv[1], "arena")) {
        if (pthread_create(&t, NULL, steps, NULL) || pthread_join(t, NULL))
            return 1;
    } else {
        steps(NULL);
    }
    dprintf(1, "%u %u\n", rose, fell);
    return 0;
}
