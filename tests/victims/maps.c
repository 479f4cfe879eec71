/* maps.c - maps memory by itself: a known number of bytes at each of three places. */
#include <string.h>
#include <sys/mman.h>

#define MB       ((size_t)1 << 20)
#define NOINLINE __attribute__((noinline, noclone))

static void *map(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

NOINLINE static void *make_pool(void)
{
    char *p = map(64 * MB);
    memset(p, 1, MB);
    return p;
}

NOINLINE static void *make_buffer(void)
{
    char *p = map(10000); /* three pages */
    *p = 1;
    return p;
}

NOINLINE static void *enlarge(void *p)
{
    char *q = mremap(p, 10000, 2 * MB, MREMAP_MAYMOVE);
    *q = 1;
    return q;
}

int main(void)
{
    char *pool = make_pool(), *buffer = make_buffer(); /* the peak */
    munmap(pool + 60 * MB, 4 * MB);                    /* the end of it */
    buffer = enlarge(buffer); /* may well lie there: nothing below touches that again */
    munmap(buffer + MB, MB);
    munmap(pool + 16 * MB, MB);    /* a hole */
    munmap(pool + 8 * MB, 9 * MB); /* over the hole */
    return pool == NULL;
}
