/* wrap_past.c - a wrapper of malloc's functions that stands between the program and libc. */
#include <dlfcn.h>
#include <stddef.h>

void *malloc(size_t n);
void free(void *p);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

static struct {
    __typeof__(&malloc) malloc;
    __typeof__(&free) free;
    __typeof__(&calloc) calloc;
    __typeof__(&realloc) realloc;
} behind;

static void find(void)
{
    behind.free = (__typeof__(&free))dlsym(RTLD_NEXT, "free");
    behind.calloc = (__typeof__(&calloc))dlsym(RTLD_NEXT, "calloc");
    behind.realloc = (__typeof__(&realloc))dlsym(RTLD_NEXT, "realloc");
    behind.malloc = (__typeof__(&malloc))dlsym(RTLD_NEXT, "malloc");
}

void *malloc(size_t n)
{
    if (!behind.malloc)
        find();
    return behind.malloc(n);
}

void *calloc(size_t n, size_t size)
{
    if (!behind.malloc)
        find();
    return behind.calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    if (!behind.malloc)
        find();
    return behind.realloc(p, n);
}

void free(void *p)
{
    if (!behind.malloc)
        find();
    behind.free(p);
}
