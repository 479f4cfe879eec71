/* test_draw.c - gaps and weights (src/preload/watch/draw.c) against the C library's, and the
 * estimator that they make: for ten mixes of sizes, over 1,000 seeds, the estimates of bytes and of
 * blocks have the true mean within three standard errors, and the spread that theory says. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "preload/watch/watcher.h"

TLS struct watch_thread watch_thread;

static void weights_are_exact(void **state)
{
    (void)state;
    static const uint64_t periods[] = {1, 7, 4096, 512 << 10, 32 << 20, 1ull << 40};
    for (unsigned p = 0; p < sizeof periods / sizeof *periods; p++)
        for (uint64_t size = 1; size < 1ull << 46; size += size / 3 + 1) {
            double period = (double)periods[p], s = (double)size, want = s / -expm1(-s / period);
            double got = (double)draw_weight(size, periods[p]);
            assert_true(fabs(got - want) <= 1 + want * 1e-7);
            assert_true(got >= s);
        }
}

static void gaps_are_exponential(void **state)
{
    (void)state;
    /* at single points */
    for (unsigned i = 0; i < 64; i++) {
        uint64_t r = (1ull << i) | (i ? 0x123456789abcdefull >> (64 - i) : 0);
        double want = -log((double)(r | 1) / 18446744073709551616.0) * 1e9;
        assert_true(fabs((double)draw_gap(r, 1000000000) - want) < 2 + want * 1e-8);
    }
    assert_int_equal(draw_gap(~0ull, 1 << 20), 0);
    /* as a distribution: Kolmogorov and Smirnov's distance over 1,000,000 draws, in 1,000 bins */
    static unsigned bins[1001];
    uint64_t random = 12345;
    unsigned n = 1000000, seen = 0;
    double distance = 0;
    for (unsigned i = 0; i < n; i++) {
        double u = -expm1(-((double)draw_gap(draw_random(&random), 1 << 30) + .5) / (1 << 30));
        bins[(unsigned)(u * 1000)]++;
    }
    for (unsigned i = 0; i < 1000; i++) {
        seen += bins[i];
        double d = fabs((double)seen / n - (i + 1) / 1000.0);
        distance = d > distance ? d : distance;
    }
    assert_true(distance < 1.95 / sqrt(n)); /* one in a thousand, for a fixed seed */
}

/* ---- the estimator ---- */

#define SEEDS  1000
#define BLOCKS 4000
#define PERIOD (512u << 10)

static uint64_t size_of(unsigned mix, unsigned i, uint64_t r)
{
    switch (mix) {
    case 0: return 16;
    case 1: return 100;
    case 2: return 4096;
    case 3: return PERIOD;
    case 4: return 1 + r % 1000;
    case 5: return 1ull << (4 + r % 18);                    /* log-uniform */
    case 6: return i % 100 ? 32 : 1 << 20;                  /* many small, a few large */
    case 7: return 1 + (PERIOD * 2 * (uint64_t)i) / BLOCKS; /* growing */
    case 8: return i & 1 ? 24 : 200000;
    default: return i % 1000 == 0 ? 64u << 20 : 48;
    }
}

struct sum {
    double mean, square;
};

static void add(struct sum *s, double v)
{
    s->mean += v / SEEDS;
    s->square += v * v / SEEDS;
}

/* Second and fourth cumulant of a sum of values that are there, times their weight, with
 * probability p. */
struct theory {
    double variance, fourth;
};

static void expect(struct theory *t, double value, double p)
{
    double w = value / p;
    t->variance += w * w * p * (1 - p);
    t->fourth += w * w * w * w * p * (1 - p) * (1 - 6 * p * (1 - p));
}

static void near_truth(const struct sum *s, double truth, const struct theory *t, unsigned mix,
                       const char *what)
{
    double variance = t->variance, seen = s->square - s->mean * s->mean;
    double error = sqrt(variance / SEEDS);
    double error_of_variance = sqrt((t->fourth + 2 * variance * variance) / SEEDS);
    if (fabs(s->mean - truth) > 3 * error + truth * 1e-6 ||
        fabs(seen - variance) > 4 * error_of_variance + truth * 1e-6)
        fail_msg("mix %u, %s: mean %g, truth %g, standard error %g; variance %g, in theory %g", mix,
                 what, s->mean, truth, error, seen, variance);
}

static void estimates_are_unbiased(void **state)
{
    (void)state;
    for (unsigned mix = 0; mix < 10; mix++) {
        struct sum bytes = {0, 0}, blocks = {0, 0};
        double true_bytes = 0;
        struct theory of_bytes = {0, 0}, of_blocks = {0, 0};
        static uint64_t sizes[BLOCKS * 8];
        /* small blocks need more of them, for a few samples a run */
        unsigned n = mix < 2 || mix == 4 ? BLOCKS * 8 : BLOCKS;
        uint64_t r = mix + 1;
        for (unsigned i = 0; i < n; i++) {
            sizes[i] = size_of(mix, i, draw_random(&r));
            double s = (double)sizes[i], p = -expm1(-s / PERIOD);
            true_bytes += s;
            expect(&of_bytes, s, p);
            expect(&of_blocks, 1, p);
        }
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
            uint64_t s = seed;
            struct watch_thread t = {.random = draw_random(&s)};
            double b = 0, k = 0;
            uint64_t all = 0;
            for (unsigned i = 0; i < n; i++) {
                uint64_t gap, with, drawn;
                if (!__builtin_sub_overflow(t.left, sizes[i], &t.left))
                    continue;
                bool hit = draw_hit(&t, sizes[i], 1, PERIOD, &gap, &with, &drawn);
                all += drawn;
                if (!hit)
                    continue;
                double w = (double)draw_weight(sizes[i], PERIOD);
                b += w;
                k += w / (double)sizes[i];
            }
            all += t.issued - t.left;
            assert_true((double)all == true_bytes); /* every byte is drawn past, once */
            add(&bytes, b);
            add(&blocks, k);
        }
        near_truth(&bytes, true_bytes, &of_bytes, mix, "bytes");
        near_truth(&blocks, n, &of_blocks, mix, "blocks");
    }
}

/* A change of the period, and back, in the midst of gaps: still unbiased. */
static void a_change_of_period_is_unbiased(void **state)
{
    (void)state;
    struct sum bytes = {0, 0};
    const unsigned n = 40000, size = 1000;
    struct theory of_bytes = {0, 0};
    for (unsigned i = 0; i < n; i++) {
        /* the first block after a change has its chance from before */
        unsigned of = i % 1000 || !i ? i : i - 1;
        double period = of / 1000 % 2 ? 1 << 20 : 64 << 10, p = -expm1(-(double)size / period);
        expect(&of_bytes, size, p);
    }
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t s = seed;
        struct watch_thread t = {.random = draw_random(&s)};
        double b = 0;
        for (unsigned i = 0; i < n; i++) {
            uint32_t epoch = 1 + i / 1000;
            uint64_t gap, with, drawn, period = i / 1000 % 2 ? 1 << 20 : 64 << 10;
            bool borrow = __builtin_sub_overflow(t.left, size, &t.left);
            if (i % 1000 == 0 && !borrow) { /* every thread looks when it is told to here */
                t.left += size;
                t.rest += t.left, t.issued -= t.left, t.left = 0;
                borrow = __builtin_sub_overflow(t.left, size, &t.left);
            }
            if (borrow && draw_hit(&t, size, epoch, period, &gap, &with, &drawn))
                b += (double)draw_weight(size, with);
        }
        add(&bytes, b);
    }
    near_truth(&bytes, (double)n * size, &of_bytes, 0, "bytes with changes");
}

/* The period follows what is live, as it does when the table of samples fills, and blocks are freed
 * again: what is live is estimated without bias throughout. */
static void a_period_that_follows_what_is_live_is_unbiased(void **state)
{
    (void)state;
    enum { N = 20000, SIZE = 2000, FREED = 5000, SLOTS = 64 };
    static double weight[N];
    struct sum bytes = {0, 0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t s = seed;
        struct watch_thread t = {.random = draw_random(&s)};
        unsigned live = 0;
        double b = 0;
        for (unsigned i = 0; i < N; i++) {
            uint64_t gap, with, drawn, period = 64 << 10;
            period <<= live * 16 / SLOTS;
            weight[i] = 0;
            if (__builtin_sub_overflow(t.left, SIZE, &t.left) &&
                draw_hit(&t, SIZE, 1, period, &gap, &with, &drawn))
                weight[i] = (double)draw_weight(SIZE, with);
            live += weight[i] > 0;
            if (i % 4 == 3 && i / 4 < FREED) { /* a quarter goes, the oldest first */
                live -= weight[i / 4] > 0;
                weight[i / 4] = 0;
            }
        }
        for (unsigned i = 0; i < N; i++)
            b += weight[i];
        add(&bytes, b);
        assert_true(live < SLOTS);
    }
    double truth = (double)(N - FREED) * SIZE, variance = bytes.square - bytes.mean * bytes.mean;
    if (fabs(bytes.mean - truth) > 4 * sqrt(variance / SEEDS))
        fail_msg("mean %g, truth %g, standard error %g", bytes.mean, truth, sqrt(variance / SEEDS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_exact),
        cmocka_unit_test(gaps_are_exponential),
        cmocka_unit_test(estimates_are_unbiased),
        cmocka_unit_test(a_change_of_period_is_unbiased),
        cmocka_unit_test(a_period_that_follows_what_is_live_is_unbiased),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
