/* asked.c - allocates when it is asked to, and says what that took of its thread's processor time:
 * for a tool that comes while the program runs. It reads lines: "pairs N", malloc and free of 100
 * bytes, N times; "churn N", a free and a malloc of 16 to 272 bytes in a table of 2,000, from a
 * recursion 12 to 20 deep with eight call sites at its end, N times. It prints nanoseconds for one.
 * Its end is the end of its input. Built as distributions build programs: no frame pointers. */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../../tests/victims/apart.h"

enum { LIVE = 2000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t random_state = 88172645463325252u;
static uint64_t next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* The empty statements keep each call a call: no tail calls, no merging of the leaves. */
#define LEAF(n)                                                                                    \
    APART static void *leaf##n(size_t size)                                                        \
    {                                                                                              \
        void *p = malloc(size);                                                                    \
        __asm__ volatile("nop" : "+r"(p) : "i"(n));                                                \
        return p;                                                                                  \
    }
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)

static void *(*const leaves[8])(size_t) = {leaf0, leaf1, leaf2, leaf3, leaf4, leaf5, leaf6, leaf7};

APART static void *down(unsigned depth, unsigned leaf, size_t size)
{
    void *p = depth ? down(depth - 1, leaf, size) : leaves[leaf](size);
    __asm__ volatile("" : "+r"(p));
    return p;
}

APART static void pairs(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        void *p = malloc(100);
        __asm__ volatile("" : "+r"(p) : : "memory");
        free(p);
    }
}

static void *block[LIVE];

APART static void churn(uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t x = next();
        void **slot = &block[(x >> 32) % LIVE];
        free(*slot);
        *slot = down(12 + (unsigned)(x & 7) + (x >> 3 & 1), (unsigned)(x >> 4 & 7),
                     16 + (size_t)((x >> 8 & 0xffff) * 257 >> 16));
    }
}

int main(void)
{
    char what[16], line[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    while (fgets(line, sizeof line, stdin)) {
        uint64_t n;
        if (sscanf(line, "%15s %" SCNu64, what, &n) != 2 || !n)
            return 2;
        const double start = now();
        if (*what == 'p')
            pairs(n);
        else
            churn(n);
        printf("%.3f\n", (now() - start) / (double)n);
    }
    return 0;
}
