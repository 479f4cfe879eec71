/* paths.c - a program with very many call stacks: blocks for each way through a tree of calls, from
 * call sites of their own through a wrapper. Usage: paths DEPTH: 2^DEPTH ways; a thread with a name
 * that HTML must not misread. */
#include <pthread.h>
#include <stdlib.h>

#include "../victims/apart.h"

static void *volatile keep[1u << 16];
static unsigned kept;

APART static void walk(unsigned depth, unsigned path);

/* Its caller is the call site. */
APART static void *xmalloc(size_t bytes)
{
    void *p = malloc(bytes);
    if (!p)
        abort();
    return p;
}

/* A call site: alike in all paths, so that none of its stacks weighs much by itself. */
#define SITE(name, bytes)                                                                          \
    APART static void *name(unsigned path)                                                         \
    {                                                                                              \
        void *p = xmalloc((bytes) + path % 10);                                                    \
        __asm__ volatile(""); /* not a tail call */                                                \
        return p;                                                                                  \
    }
SITE(tiny, 1)
SITE(small, 50)
SITE(middle, 300)
SITE(large, 700)
static void *(*const sites[])(unsigned) = {tiny, small, middle, large, small, small, large, tiny};

APART static void left(unsigned depth, unsigned path)
{
    walk(depth - 1, path << 1);
    __asm__ volatile(""); /* not a tail call */
}

APART static void right(unsigned depth, unsigned path)
{
    walk(depth - 1, path << 1 | 1);
    __asm__ volatile("");
}

static void walk(unsigned depth, unsigned path)
{
    if (depth == 0) {
        keep[kept++ & 0xffff] = sites[path * 2654435761u >> 29](path);
        free(malloc(10));
        return;
    }
    left(depth, path);
    right(depth, path);
    __asm__ volatile("");
}

static void *run(void *depth)
{
    pthread_setname_np(pthread_self(), "</script><b>&");
    walk(*(const unsigned *)depth, 0);
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned depth = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
    pthread_t thread;
    if (depth > 16 || pthread_create(&thread, NULL, run, &depth))
        return 1;
    pthread_join(thread, NULL);
    for (unsigned i = 0; i < kept && i < 0x8000; i += 2)
        free(keep[i]);
    return 0;
}
