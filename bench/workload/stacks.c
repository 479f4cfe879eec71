/* stacks.c - one thread, a table of live blocks replaced at random, through call stacks of which
 * there are as many as asked for: a stack is a number, each of its digits a function.
 * argv: STACKS OPERATIONS. An operation is a free and a malloc of 16 to 1,015 bytes: 2 events. */
#include <stdint.h>
#include <stdlib.h>

#include "../../tests/victims/apart.h"

#define LIVE   4096u
#define DIGITS 5u

static void *live[LIVE];
static uint64_t random_state = 88172645463325252u;

static inline uint64_t next(void)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

APART static void replace(void)
{
    const uint64_t r = next();
    void **at = &live[r % LIVE];
    free(*at);
    *at = malloc(16 + (r >> 20) % 1000);
    __asm__ volatile("" ::: "memory");
}

static void down(uint64_t stack, unsigned digits);

/* The empty statements keep each call a call: no tail calls, no merging. */
#define DIGIT(n)                                                                                   \
    APART static void digit##n(uint64_t stack, unsigned digits)                                    \
    {                                                                                              \
        down(stack, digits);                                                                       \
        __asm__ volatile("nop" : : "i"(n));                                                        \
    }
DIGIT(0)
DIGIT(1)
DIGIT(2)
DIGIT(3)
DIGIT(4)
DIGIT(5)
DIGIT(6)
DIGIT(7)
DIGIT(8)
DIGIT(9)

APART static void down(uint64_t stack, unsigned digits)
{
    static void (*const to[10])(uint64_t, unsigned) = {digit0, digit1, digit2, digit3, digit4,
                                                       digit5, digit6, digit7, digit8, digit9};
    if (digits)
        to[stack % 10](stack / 10, digits - 1);
    else
        replace();
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    const uint64_t stacks = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000;
    const uint64_t operations = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    for (uint64_t i = 0; i < operations; i++)
        down((i < stacks ? i : next()) % stacks, DIGITS);
    return 0;
}
