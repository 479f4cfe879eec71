/* arenas_family.c - every function that makes or takes blocks, in the main arena and in a thread's,
 * which gets a second heap and loses it again. Prints the bytes of all heaps and those of sbrk.
 * With "twice", it frees a block twice instead. */
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void family(size_t bytes)
{
    void *p[9] = {malloc(bytes),
                  calloc(bytes, 2),
                  realloc(NULL, bytes),
                  memalign(64, bytes),
                  valloc(bytes),
                  pvalloc(bytes),
                  aligned_alloc(32, bytes),
                  NULL,
                  reallocarray(NULL, bytes, 3)};
    if (posix_memalign(&p[7], 128, bytes))
        _Exit(1);
    p[0] = realloc(p[0], bytes * 4);
    p[1] = reallocarray(p[1], bytes, 5);
    for (int i = 0; i < 9; i++)
        free(p[i]);
}

enum { BLOCKS = 100, BLOCK = 1000000 };

static void *thread(void *arg)
{
    static void *block[BLOCKS];
    family(100);
    family(20000);
    for (int i = 0; i < BLOCKS; i++)
        block[i] = malloc(BLOCK);
    for (int i = BLOCKS; i-- > 0;)
        free(block[i]);
    family(50);
    return arg;
}

/* The system bytes of all arenas but the first, and of the first. */
static void tell(void)
{
    static char text[1 << 16];
    static const char mark[] = "<system type=\"current\" size=\"";
    FILE *f = fmemopen(text, sizeof text, "w");
    malloc_info(0, f);
    fflush(f);
    const char *first = strstr(text, mark), *last = first, *p = first;
    while (p && (p = strstr(p + 1, mark)))
        last = p;
    unsigned long main_bytes = strtoul(first + sizeof mark - 1, NULL, 10),
                  all = strtoul(last + sizeof mark - 1, NULL, 10);
    char out[64];
    int n = snprintf(out, sizeof out, "%lu %lu\n", all - main_bytes, main_bytes);
    _Exit(write(1, out, (size_t)n) != n);
}

/* A block freed twice, which the thread's cache notices; a large one between. */
static void twice(void)
{
    void *volatile p = malloc(64), *volatile again = p, *volatile large = malloc(100000);
    memset(large, 1, 100000);
    free(large);
    free(p);
    free(again);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "twice"))
        twice();
    pthread_t t;
    static void *large[200];
    mallopt(M_MMAP_THRESHOLD, 1 << 20);
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
    for (int i = 0; i < 200; i++)
        large[i] = malloc(50000);
    for (int i = 200; i-- > 0;)
        free(large[i]);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&t, NULL, thread, NULL) || pthread_join(t, NULL))
            return 1;
    family(1000);
    tell();
}
