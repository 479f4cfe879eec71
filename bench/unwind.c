/* unwind.c - what the stack part alone costs a call, on the workload `churn`.
 *
 * One thread, 2,000 live blocks of 16-272 bytes replaced at random, through a recursion 12-20 deep
 * with 8 leaf call sites, built with -O2 -fomit-frame-pointer. A probe before each malloc passes
 * rsp and rbp, as the recorder's entry does; rounds with a probe that does nothing are interleaved
 * with rounds of each method and subtracted. Prints the minimum and the median over the rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/victims/apart.h"
#include "../tests/unwind/host.h"

#define LIVE       2000
#define ROUNDS     15
#define OPERATIONS 50000

extern uint64_t uw_bench_slow; /* walks: calls that the whole-stack cache did not answer */
extern int uw_bench_mode;      /* 0 all, 1 without the whole-stack cache, 2 without any */

static uint32_t seed = 1;
static uint32_t rnd(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    seed ^= seed << 5;
    return seed;
}

uint64_t bench_nothing(uint64_t sp, uint64_t bp);
uint64_t bench_stack(uint64_t sp, uint64_t bp);
void bench_probe(void);
uint64_t (*volatile bench_hook)(uint64_t sp, uint64_t bp);
static struct unwind_thread *state;

APART uint64_t bench_nothing(uint64_t sp, uint64_t bp) { return sp ^ bp; }
APART uint64_t bench_stack(uint64_t sp, uint64_t bp) { return unwind_stack(state, sp, bp, 0); }

__asm__(".text\n"
        ".globl bench_probe\n"
        ".type bench_probe,@function\n"
        "bench_probe:\n"
        ".cfi_startproc\n"
        "mov %rsp, %rdi\n"
        "mov %rbp, %rsi\n"
        "sub $8, %rsp\n"
        ".cfi_adjust_cfa_offset 8\n"
        "call *bench_hook(%rip)\n"
        "add $8, %rsp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "ret\n"
        ".cfi_endproc\n");

#define LEAF(n)                                                                                    \
    APART static void *leaf##n(size_t bytes)                                                       \
    {                                                                                              \
        bench_probe();                                                                             \
        char *p = malloc(bytes + n);                                                               \
        p[0] = n;                                                                                  \
        return p;                                                                                  \
    }
/* clang-format off */
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)
/* clang-format on */

static volatile unsigned sink;
APART static void *go(unsigned depth, unsigned site, size_t bytes)
{
    void *p;
    if (depth == 0) {
        switch (site) {
        case 0: p = leaf0(bytes); break;
        case 1: p = leaf1(bytes); break;
        case 2: p = leaf2(bytes); break;
        case 3: p = leaf3(bytes); break;
        case 4: p = leaf4(bytes); break;
        case 5: p = leaf5(bytes); break;
        case 6: p = leaf6(bytes); break;
        default: p = leaf7(bytes);
        }
    } else {
        p = go(depth - 1, site, bytes);
    }
    sink += depth;
    return p;
}

static void *live[LIVE];
static double round_ns(void)
{
    struct timespec a, b;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    for (unsigned i = 0; i < OPERATIONS; i++) {
        uint32_t r = rnd();
        void **slot = &live[(uint64_t)r * LIVE >> 32];
        free(*slot);
        r = rnd();
        *slot = go(12 + r % 9, r >> 8 & 7, 16 + (r >> 12 & 255));
    }
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / OPERATIONS;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

int main(void)
{
    static const char *const name[] = {"whole-stack + prefix cache", "prefix cache only",
                                       "tables, every frame"};
    static double took[4][ROUNDS];
    uint64_t walks[4] = {0};
    host_init();
    state = host_thread();
    for (int r = -1; r < ROUNDS; r++) /* the first round warms up */
        for (int m = 0; m < 4; m++) {
            walks[m] -= uw_bench_slow;
            bench_hook = m == 3 ? bench_nothing : bench_stack;
            uw_bench_mode = m;
            double ns = round_ns();
            walks[m] += uw_bench_slow;
            if (r >= 0)
                took[m][r] = ns;
        }
    for (int m = 0; m < 3; m++) {
        double d[ROUNDS];
        for (int r = 0; r < ROUNDS; r++)
            d[r] = took[m][r] - took[3][r];
        qsort(d, ROUNDS, sizeof d[0], by_value);
        printf("%-28s %6.1f min %6.1f median ns a call, %5.1f%% walked\n", name[m], d[0],
               d[ROUNDS / 2], 100.0 * (double)walks[m] / ((ROUNDS + 1.0) * OPERATIONS));
    }
    qsort(took[3], ROUNDS, sizeof took[3][0], by_value);
    printf("%-28s %6.1f min %6.1f median ns an operation\n", "without", took[3][0],
           took[3][ROUNDS / 2]);
    return 0;
}
