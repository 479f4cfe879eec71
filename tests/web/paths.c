/* paths.c - a program with very many call stacks: a block for each way through a tree of calls.
 * Usage: paths DEPTH: 2^DEPTH stacks; a thread with a name that HTML must not misread. */
#include <pthread.h>
#include <stdlib.h>

static void *volatile keep[1u << 16];
static unsigned kept;

__attribute__((noinline)) static void walk(unsigned depth, unsigned path);

__attribute__((noinline)) static void left(unsigned depth, unsigned path)
{
    walk(depth - 1, path << 1);
    __asm__ volatile(""); /* not a tail call */
}

__attribute__((noinline)) static void right(unsigned depth, unsigned path)
{
    walk(depth - 1, path << 1 | 1);
    __asm__ volatile("");
}

static void walk(unsigned depth, unsigned path)
{
    if (depth == 0) {
        keep[kept++ & 0xffff] = malloc(16 + path % 1000);
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
