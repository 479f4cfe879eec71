/* own_malloc.c - a program that brings its own malloc inside its executable. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char memory[16 << 20] __attribute__((aligned(16)));
static size_t used;

void *malloc(size_t n);
void free(void *p);
void *calloc(size_t n, size_t size);
void *realloc(void *p, size_t n);

void *malloc(size_t n)
{
    size_t at = used;
    n = (n + 31) & ~(size_t)15;
    if (used + n > sizeof memory)
        return NULL;
    used += n;
    *(size_t *)(void *)(memory + at) = n - 16;
    return memory + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
void *realloc(void *p, size_t n)
{
    char *q = malloc(n);
    if (q && p)
        memcpy(q, p, n < ((size_t *)p)[-2] ? n : ((size_t *)p)[-2]);
    return q;
}

int main(void)
{
    char *p = malloc(100);
    strcpy(p, "own\n");
    p = realloc(p, 1000);
    if (!p)
        return 1;
    return write(1, p, 4) == 4 && p > memory && p < memory + sizeof memory ? 19 : 1;
}
