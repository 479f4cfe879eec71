/* churn.c - one thread, a table of live blocks replaced at random, through a recursion 12 to 20
 * deep with 8 leaf call sites. argv: OPERATIONS LIVE. An operation is a free and a malloc of 16 to
 * 272 bytes: 2 events. Build with -O2 -fomit-frame-pointer, as distributions do. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../tests/victims/apart.h"

static uint64_t random_state = 88172645463325252u;
static inline uint64_t next(void)
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

int main(int argc, char **argv)
{
    uint64_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    uint64_t live = argc > 2 ? strtoull(argv[2], NULL, 10) : 2000;
    void **block = calloc(live, sizeof *block);
    if (!block)
        return 1;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t x = next();
        void **slot = &block[(x >> 32) % live];
        free(*slot);
        *slot = down(12 + (unsigned)(x & 7) + (x >> 3 & 1), (unsigned)(x >> 4 & 7),
                     16 + (size_t)((x >> 8 & 0xffff) * 257 >> 16));
    }
    for (uint64_t i = 0; i < live; i++)
        free(block[i]);
    free(block);
    return 0;
}
