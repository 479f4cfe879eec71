/* loop.c - as many events as asked for: argv[1] millions of malloc+free, in a churn of 1,000 blocks
 * through eight call sites, so that live blocks and stacks are few and only the length grows. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "apart.h"

static void *live[1000];

#define LEAF(n)                                                                                    \
    APART static void *leaf##n(size_t size)                                                        \
    {                                                                                              \
        void *p = malloc(size + n);                                                                \
        __asm__ volatile("" : "+r"(p));                                                            \
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

int main(int argc, char **argv)
{
    static void *(*const leaf[8])(size_t) = {leaf0, leaf1, leaf2, leaf3,
                                             leaf4, leaf5, leaf6, leaf7};
    uint64_t pairs = (argc > 1 ? strtoull(argv[1], NULL, 10) : 1) * 500000, x = 88172645463325252u;
    for (uint64_t i = 0; i < pairs; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        void **slot = &live[(x >> 20) % 1000];
        free(*slot);
        *slot = leaf[x & 7](16 + (x >> 40) % 256);
    }
    for (int i = 0; i < 1000; i++)
        free(live[i]);
    printf("%llu\n", (unsigned long long)pairs);
    return 0;
}
