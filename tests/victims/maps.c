/* maps.c - maps memory by itself: a known number of bytes at each of three places. `maps syscall`:
 * all of it by syscall(2). */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "apart.h"

#define MB     ((size_t)1 << 20)
#define MEMORY PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1

static int raw;

static void *map(size_t bytes)
{
    return raw ? (void *)syscall(SYS_mmap, NULL, bytes, MEMORY, 0L) : mmap(NULL, bytes, MEMORY, 0);
}

static void *remap(void *p, size_t old, size_t bytes)
{
    return raw ? (void *)syscall(SYS_mremap, p, old, bytes, MREMAP_MAYMOVE)
               : mremap(p, old, bytes, MREMAP_MAYMOVE);
}

static void unmap(void *p, size_t bytes)
{
    if (raw)
        syscall(SYS_munmap, p, bytes);
    else
        munmap(p, bytes);
}

APART static void *make_pool(void)
{
    char *p = map(64 * MB);
    memset(p, 1, MB);
    return p;
}

APART static void *make_buffer(void)
{
    char *p = map(10000); /* three pages */
    *p = 1;
    return p;
}

APART static void *enlarge(void *p)
{
    char *q = remap(p, 10000, 2 * MB);
    *q = 1;
    return q;
}

int main(int argc, char **argv)
{
    raw = argc > 1 && !strcmp(argv[1], "syscall");
    char *pool = make_pool(), *buffer = make_buffer(); /* the peak */
    unmap(pool + 60 * MB, 4 * MB);                     /* the end of it */
    buffer = enlarge(buffer); /* may well lie there: nothing below touches that again */
    unmap(buffer + MB, MB);
    unmap(pool + 16 * MB, MB);    /* a hole */
    unmap(pool + 8 * MB, 9 * MB); /* over the hole */
    return pool == NULL;
}
