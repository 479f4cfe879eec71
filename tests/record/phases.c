/* phases.c - does to its heap what it is ordered to, a line on stdin each, and says "done" after
 * each:
 *
 *   small N SIZE   N more blocks of SIZE bytes, written to
 *   thin K         frees all but every K-th of them
 *   threads N M    N threads that stay: each has M blocks of 1000 bytes, and frees all but the last
 *   large N        one more block of N bytes, which is not written to
 *   touch N        writes to the first N bytes of the latest of them
 *   lazy N         gives the first N bytes of the latest of them back by MADV_FREE
 *   own N          takes N bytes from the program break for itself, and writes to them
 *   mark NAME      mallow_mark(NAME)
 *   drop           frees the large blocks
 *   trim           malloc_trim(0)
 *   squeeze N      what is mapped next lies right below the arena of the latest of threads; then N
 *                  threads that stay: each has a block, and frees it
 *   hoard N        N threads that stay: each has seven blocks of each size up to 1032, and frees
 *                  them
 *   swap N         N threads that stay: each has a large block, and small ones, which another
 *                  thread frees and has again from its cache
 *   wall           maps a page 1 MiB above the program break
 *   fork N M       N children that write to the first M bytes of the latest large block, and stay
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../victims/apart.h"
#include "mallow.h"

enum { MOST_SMALL = 1 << 21, MOST_LARGE = 64, MOST_SQUEEZED = 64, SQUEEZED_STACK = 128 << 10 };

static char *small[MOST_SMALL], *large[MOST_LARGE];
static size_t smalls, larges;
static pthread_barrier_t working, squeezed;
static char *volatile kept; /* the last block of the latest of threads */

APART static char *survivor(size_t size) { return malloc(size); }
APART static char *passing(size_t size) { return malloc(size); }

static void more_small(size_t n, size_t size, size_t every)
{
    for (size_t i = 0; i < n && smalls < MOST_SMALL; i++) {
        char *p = i % every ? passing(size) : survivor(size);
        memset(p, 1, size);
        small[smalls++] = p;
    }
}

static void thin(size_t every)
{
    for (size_t i = 0; i < smalls; i++)
        if (i % every) {
            free(small[i]);
            small[i] = NULL;
        }
}

static void *work(void *arg)
{
    const size_t n = *(size_t *)arg;
    char **mine = malloc(n * sizeof *mine);
    pthread_barrier_wait(&working); /* nobody uses an arena twice who could have one of his own */
    for (size_t i = 0; i < n; i++)
        memset(mine[i] = malloc(1000), 1, 1000);
    pthread_barrier_wait(&working);
    for (size_t i = 0; i + 1 < n; i++)
        free(mine[i]);
    kept = mine[n - 1];
    free(mine);
    pthread_barrier_wait(&working);
    for (;;)
        pthread_barrier_wait(&working);
    return NULL;
}

static void *hoard(void *arg)
{
    enum { KINDS = 64, EACH = 7 };
    static __thread char *mine[KINDS * EACH];
    pthread_barrier_wait(&working);
    for (size_t i = 0; i < KINDS * EACH; i++)
        memset(mine[i] = malloc(24 + i / EACH * 16), 1, 24);
    pthread_barrier_wait(&working);
    for (size_t i = 0; i < KINDS * EACH; i++)
        free(mine[i]);
    pthread_barrier_wait(&working);
    for (;;)
        pthread_barrier_wait(&working);
    return arg;
}

static void *swap(void *arg)
{
    enum { FEW = 5, SMALL = 200, THREADS_MOST = 64 };
    static char *blocks[THREADS_MOST][FEW];
    static unsigned numbers, all;
    const unsigned number = __sync_fetch_and_add(&numbers, 1) % THREADS_MOST;
    pthread_barrier_wait(&working);
    all = numbers;
    memset(malloc(2000), 1, 2000);
    for (int i = 0; i < FEW; i++)
        memset(blocks[number][i] = malloc(SMALL), 1, SMALL);
    pthread_barrier_wait(&working);
    for (int i = 0; i < FEW; i++)
        free(blocks[(number + 1) % all][i]);
    for (int i = 0; i < FEW; i++)
        memset(malloc(SMALL), 1, SMALL);
    pthread_barrier_wait(&working);
    for (;;)
        pthread_barrier_wait(&working);
    return arg;
}

static void make_wall(void)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    at = ((uintptr_t)sbrk(0) + page - 1) & ~(page - 1);
    if (mmap((void *)(at + (1 << 20)), page, PROT_READ,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == MAP_FAILED)
        exit(1);
}

/* Takes all address space that the kernel would give before that right below `arena`. */
static void fill_down_to(const char *arena)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t bytes = (size_t)1 << 30; bytes >= page; bytes /= 2)
        for (;;) {
            char *p = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (p == MAP_FAILED)
                exit(1);
            if (p + bytes <= arena) {
                munmap(p, bytes);
                if (p + bytes != arena)
                    exit(1);
                break;
            }
        }
}

static void *one_block(void *arg)
{
    volatile char *p = malloc(100);
    *p = 1;
    free((char *)p);
    pthread_barrier_wait(&squeezed);
    for (;;)
        pause();
    return arg;
}

/* The threads get stacks and arenas that are there already. */
static void squeeze(unsigned n)
{
    static char stacks[MOST_SQUEEZED][SQUEEZED_STACK] __attribute__((aligned(4096)));
    pthread_attr_t attributes;
    pthread_t t;
    mallopt(M_ARENA_MAX, 1);
    fill_down_to((char *)((uintptr_t)kept & ~(uintptr_t)((64 << 20) - 1)));
    pthread_attr_init(&attributes);
    pthread_barrier_init(&squeezed, NULL, 2);
    for (unsigned i = 0; i < n && i < MOST_SQUEEZED; i++) {
        pthread_attr_setstack(&attributes, stacks[i], SQUEEZED_STACK);
        if (pthread_create(&t, &attributes, one_block, NULL))
            exit(1);
        pthread_barrier_wait(&squeezed);
    }
}

static void threads(unsigned n, void *(*work_of)(void *), size_t blocks)
{
    static size_t each;
    pthread_t t;
    each = blocks;
    pthread_barrier_init(&working, NULL, n + 1);
    for (unsigned i = 0; i < n; i++)
        if (pthread_create(&t, NULL, work_of, &each))
            exit(1);
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&working);
}

static void give_back(const char *p, size_t n)
{
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE),
                    from = ((uintptr_t)p + page - 1) & ~(page - 1);
    if (madvise((void *)from, ((uintptr_t)p + n - from) & ~(page - 1), MADV_FREE))
        exit(1);
}

/* They end with us. */
static void children(size_t n, size_t bytes)
{
    int ready[2], over[2];
    char c;
    if (pipe(ready) || pipe(over))
        exit(1);
    for (size_t i = 0; i < n; i++)
        switch (fork()) {
        case -1: exit(1);
        case 0:
            close(over[1]);
            memset(large[larges - 1], 2, bytes);
            free(malloc(1000)); /* by which the recorder knows the child */
            if (write(ready[1], "", 1) != 1 || read(over[0], &c, 1))
                _exit(1);
            _exit(0);
        default: break;
        }
    for (size_t i = 0; i < n; i++)
        if (read(ready[0], &c, 1) != 1)
            exit(1);
}

int main(void)
{
    char line[256], name[128];
    size_t a, b;
    setvbuf(stdout, NULL, _IONBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        if (sscanf(line, "small %zu %zu", &a, &b) == 2)
            more_small(a, b, 37);
        else if (sscanf(line, "thin %zu", &a) == 1)
            thin(a);
        else if (sscanf(line, "threads %zu %zu", &a, &b) == 2)
            threads((unsigned)a, work, b);
        else if (sscanf(line, "hoard %zu", &a) == 1)
            threads((unsigned)a, hoard, 0);
        else if (sscanf(line, "swap %zu", &a) == 1)
            threads((unsigned)a, swap, 0);
        else if (sscanf(line, "fork %zu %zu", &a, &b) == 2 && larges)
            children(a, b);
        else if (!strcmp(line, "wall\n"))
            make_wall();
        else if (sscanf(line, "squeeze %zu", &a) == 1 && kept)
            squeeze((unsigned)a);
        else if (sscanf(line, "large %zu", &a) == 1 && larges < MOST_LARGE)
            large[larges++] = malloc(a);
        else if (sscanf(line, "touch %zu", &a) == 1 && larges)
            memset(large[larges - 1], 1, a);
        else if (sscanf(line, "lazy %zu", &a) == 1 && larges)
            give_back(large[larges - 1], a);
        else if (sscanf(line, "own %zu", &a) == 1)
            memset(sbrk((intptr_t)a), 1, a);
        else if (sscanf(line, "mark %127s", name) == 1)
            mallow_mark(name);
        else if (!strcmp(line, "drop\n"))
            while (larges)
                free(large[--larges]);
        else if (!strcmp(line, "trim\n"))
            malloc_trim(0);
        else
            return 2;
        puts("done");
    }
    return 0;
}
