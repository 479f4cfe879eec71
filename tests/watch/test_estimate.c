/* The estimator against simulated truth: unbiased, as spread as theory says, and with intervals
 * that hold the truth as often as they claim, for ten mixes of sizes; and the choice of an age. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "watch/age.h"
#include "watch/estimate.h"

enum { SEEDS = 1000 };

static uint64_t rng;

static double uniform(void) /* in (0, 1] */
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return ((double)(rng >> 11) + 1) / 9007199254740992.0;
}

struct mix {
    const char *name;
    uint64_t period;
    unsigned blocks;
    uint64_t sizes[4]; /* used in turn, 0: no more; one alone with spread: log-uniform up to it */
    bool spread;
    bool hidden; /* most blocks are of a size of which often none is sampled: no interval of a count
                    can know of them */
};

static const struct mix mixes[] = {
    {"one size, far below the period", 524288, 60000, {100}, false},
    {"16 bytes", 65536, 80000, {16}, false},
    {"at the period", 65536, 400, {65536}, false},
    {"above the period", 65536, 400, {262144}, false},
    {"far above: all are seen", 4096, 200, {1048576}, false},
    {"small and large", 65536, 20000, {64, 64, 64, 40000}, false},
    {"very uneven", 524288, 20000, {32, 4096, 300, 2000000}, false, true},
    {"pages", 524288, 8000, {4096}, false},
    {"log-uniform to 64 KiB", 131072, 20000, {65536}, true, true},
    {"log-uniform to 16 MiB", 524288, 2000, {16777216}, true, true},
};

static uint64_t size_of(const struct mix *m, unsigned i, unsigned count)
{
    if (m->spread)
        return (uint64_t)exp(log(16) + uniform() * (log((double)m->sizes[0]) - log(16)));
    return m->sizes[i % count];
}

/* Samples are drawn as the library does it: exponential gaps between bytes. */
static void simulate(const struct mix *m, unsigned count, struct estimate *e, double *blocks,
                     double *bytes, double *variance)
{
    double gap = -log(uniform()) * (double)m->period;
    *blocks = *bytes = *variance = 0;
    for (unsigned i = 0; i < m->blocks; i++) {
        uint64_t size = size_of(m, i, count);
        double s = (double)size, p = 1 - exp(-s / (double)m->period);
        *blocks += 1;
        *bytes += s;
        *variance += s * s * (1 - p) / p;
        gap -= s;
        if (gap > 0)
            continue;
        estimate_add(e, size, (uint64_t)(s / p + 0.5));
        gap = -log(uniform()) * (double)m->period;
    }
}

static void test_against_truth(void **state)
{
    (void)state;
    rng = 0x9e3779b97f4a7c15u;
    for (size_t k = 0; k < sizeof mixes / sizeof *mixes; k++) {
        const struct mix *m = &mixes[k];
        unsigned count = 0, held = 0, held_blocks = 0;
        while (count < 4 && m->sizes[count])
            count++;
        double off[2] = {0}, square[2] = {0}, theory = 0;
        for (unsigned seed = 0; seed < SEEDS; seed++) {
            struct estimate e = {0};
            double blocks, bytes, variance;
            simulate(m, count, &e, &blocks, &bytes, &variance);
            double d[2] = {e.blocks - blocks, e.bytes - bytes};
            for (int i = 0; i < 2; i++) {
                off[i] += d[i] / SEEDS;
                square[i] += d[i] * d[i] / SEEDS;
            }
            theory += variance / SEEDS;
            struct estimate_interval in = estimate_bytes_interval(&e);
            held += in.low <= bytes * 1.0000001 && bytes <= in.high * 1.0000001;
            in = estimate_blocks_interval(&e);
            held_blocks += in.low <= blocks * 1.0000001 && blocks <= in.high * 1.0000001;
        }
        printf("%-32s bytes off by %+.2f standard errors, spread %.3f of theory, held %u/%u "
               "(blocks %u)\n",
               m->name, square[1] > 0 ? off[1] / sqrt(square[1] / SEEDS) : 0.0,
               theory > 1 ? sqrt(square[1] / theory) : 1.0, held, SEEDS, held_blocks);
        for (int i = 0; i < 2; i++)
            assert_true(fabs(off[i]) <= 3 * sqrt(square[i] / SEEDS) + 1e-6);
        if (theory > 1) {
            /* the standard error of a standard deviation, generously */
            assert_true(fabs(sqrt(square[1] / theory) - 1) < 0.15);
        }
        assert_true(held >= SEEDS * 93 / 100);
        assert_true(m->hidden || held_blocks >= SEEDS * 93 / 100);
    }
}

static void test_edges(void **state)
{
    (void)state;
    struct estimate e = {0};
    assert_true(estimate_bytes_interval(&e).high == 0);
    estimate_add(&e, 1ull << 50, 1ull << 50); /* certain to be seen: no doubt about it */
    assert_true(estimate_bytes_interval(&e).low == estimate_bytes_interval(&e).high);
    struct estimate one = {0}, sum = {0};
    estimate_add(&one, 100, 524338);
    struct estimate_interval i = estimate_bytes_interval(&one);
    assert_true(i.low >= 100 && i.low < one.bytes / 10 && i.high > 4 * one.bytes);
    estimate_merge(&sum, &one);
    estimate_merge(&sum, &one);
    assert_int_equal(sum.samples, 2);
    assert_true(fabs(sum.bytes - 2 * one.bytes) < 1e-6);
    assert_true(estimate_whole(-1) == 0 && estimate_whole(NAN) == 0 && estimate_whole(1.5) == 2);
    assert_true(estimate_whole(1e30) == UINT64_MAX);
}

static void test_age(void **state)
{
    (void)state;
    struct lifetimes l = {0};
    assert_int_equal(age_choose(&l).age_ns, AGE_DEFAULT_NS);
    for (unsigned i = 0; i + 1 < AGE_LEAST_SEEN; i++)
        lifetimes_add(&l, 1000000);
    assert_int_equal(age_choose(&l).age_ns, AGE_DEFAULT_NS);
    assert_int_equal(age_choose(&l).most_ns, 0);
    lifetimes_add(&l, 1000000);
    assert_int_equal(age_choose(&l).age_ns, AGE_LEAST_NS); /* never below */
    assert_true(age_choose(&l).most_ns >= 1000000 && age_choose(&l).most_ns < 1200000);
    /* Two in a hundred live for twenty seconds. */
    memset(&l, 0, sizeof l);
    for (unsigned i = 0; i < 10000; i++)
        lifetimes_add(&l, i % 50 ? 5000 : 20000000000u);
    struct age_choice c = age_choose(&l);
    assert_true(c.most_ns >= 20000000000u && c.most_ns <= 22500000000u);
    assert_int_equal(c.age_ns, 2 * c.most_ns);
    assert_int_equal(c.lifetimes, 10000);
    /* Less than one in a hundred: not asked. */
    for (unsigned i = 0; i < 20000; i++)
        lifetimes_add(&l, 5000);
    assert_true(age_choose(&l).age_ns == AGE_LEAST_NS);
    /* Anything has a bin. */
    for (unsigned bit = 0; bit < 64; bit++) {
        lifetimes_add(&l, 1ull << bit);
        lifetimes_add(&l, (1ull << bit) - 1);
    }
    lifetimes_add(&l, UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_truth),
                                       cmocka_unit_test(test_edges), cmocka_unit_test(test_age)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
