/* Ratios and their intervals, on made-up measurements: everything is drawn from a seeded generator,
 * so a test that passes once passes always. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "stats/stats.h"

static uint64_t state_of_draw = 1;

static double uniform(void) /* between 0 and 1, neither of them */
{
    state_of_draw += 0x9e3779b97f4a7c15u; /* splitmix64 */
    uint64_t z = state_of_draw;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 12) + 0.5) / (double)(1ull << 52);
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

/* A time of about 100: half a percent of noise, and one in eight is disturbed, up to doubled. */
static double noisy(double factor)
{
    double t = 100 * factor * exp(0.005 * normal());
    return uniform() < 0.125 ? t * (1 + uniform()) : t;
}

static void test_median(void **state)
{
    (void)state;
    double x[] = {3, 1, 2, 10};
    assert_true(stats_median(x, 0) == 0);
    assert_true(stats_median(x, 1) == 3);
    assert_true(stats_median(x, 3) == 2);
    assert_true(stats_median(x, 4) == 2.5);
    assert_true(x[0] == 3 && x[3] == 10);
}

/* The known critical values of the signed ranks at 1%, two-sided: a set of n differences that are
 * all positive but for the ranks summing to T is still significant when T is at most the critical
 * value. */
static void test_critical_values(void **state)
{
    (void)state;
    static const struct {
        size_t n, critical;
    } table[] = {{8, 0}, {9, 1}, {10, 3}, {12, 7}, {15, 15}, {20, 37}, {25, 68}, {30, 109}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        for (size_t over = 0; over < 2; over++) {
            size_t n = table[i].n, left = table[i].critical + over;
            double x[64], y[64];
            for (size_t k = n; k >= 1; k--) {
                bool negative = left >= k;
                left -= negative ? k : 0;
                x[k - 1] = exp((negative ? -1 : 1) * (0.1 + 0.01 * (double)k));
                y[k - 1] = 1;
            }
            struct stats_ratio r = stats_paired(x, y, n);
            assert_int_equal(r.method, STATS_RANKS);
            assert_int_equal(r.low > 1, over == 0);
        }
}

/* Two samples of which the first is larger but for `wrong` pairs. */
static bool sure_of(size_t n, size_t m, size_t wrong)
{
    double x[64], y[64];
    for (size_t k = 0; k < m; k++)
        y[k] = exp(1 + 0.001 * (double)k);
    for (size_t i = 0; i < n; i++) {
        size_t below = wrong < m ? wrong : m; /* this x has so many y above it */
        wrong -= below;
        x[i] = exp(1 + 0.001 * ((double)(m - below) - 0.5) + 0.00001 * (double)i);
    }
    struct stats_ratio r = stats_unpaired(x, n, y, m);
    assert_int_equal(r.method, STATS_RANKS);
    return r.low > 1;
}

static void test_critical_values_unpaired(void **state)
{
    (void)state;
    assert_true(sure_of(5, 5, 0) && !sure_of(5, 5, 1));
    assert_true(sure_of(10, 10, 16) && !sure_of(10, 10, 17));
    assert_true(sure_of(8, 12, 15) && !sure_of(8, 12, 16));
    assert_true(sure_of(20, 20, 105) && !sure_of(20, 20, 106));
}

/* Against figures worked out by hand: 3.707 is Student's 99% point of 6 degrees of freedom. */
static void test_difference(void **state)
{
    (void)state;
    const double x[] = {1, 2, 3, 4}, y[] = {11, 12, 13, 14}, same[] = {0, 0}, other[] = {5, 5};
    struct stats_difference d = stats_difference(x, 4, y, 4);
    assert_true(d.known && d.differs && d.difference == 10);
    assert_true(fabs(d.high - 10 - 3.707 * sqrt(5.0 / 6)) < 1e-9);
    assert_true(fabs(10 - d.low - 3.707 * sqrt(5.0 / 6)) < 1e-9);
    d = stats_difference(x, 4, x, 4);
    assert_true(d.known && !d.differs && d.difference == 0);
    d = stats_difference(other, 2, same, 2);
    assert_true(d.differs && d.low == -5 && d.high == -5);
    d = stats_difference_of(&(struct stats_moments){4, 2.5, 5.0 / 3},
                            &(struct stats_moments){4, 12.5, 5.0 / 3});
    assert_true(fabs(d.high - 10 - 3.707 * sqrt(5.0 / 6)) < 1e-9);
    d = stats_difference(x, 4, y, 1);
    assert_true(!d.known && !d.differs && d.difference == 8.5);
}

/* Of 1,000 comparisons of a thing with itself about 1% have an interval that excludes 1. */
static void test_level(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 12, 24, 45};
    for (size_t s = 0; s < 4; s++) {
        unsigned paired = 0, unpaired = 0;
        for (unsigned trial = 0; trial < 1000; trial++) {
            double x[64], y[64];
            for (size_t i = 0; i < sizes[s]; i++) {
                double weather = exp(0.2 * normal()); /* of both of a pair */
                x[i] = noisy(weather);
                y[i] = noisy(weather);
            }
            struct stats_ratio r = stats_paired(x, y, sizes[s]);
            assert_true(r.low <= r.ratio && r.ratio <= r.high);
            paired += r.low > 1 || r.high < 1;
            for (size_t i = 0; i < sizes[s]; i++) {
                x[i] = noisy(exp(0.2 * normal()));
                y[i] = noisy(exp(0.2 * normal()));
            }
            r = stats_unpaired(x, sizes[s], y, sizes[s]);
            unpaired += r.low > 1 || r.high < 1;
        }
        assert_in_range(paired, 2, 22);
        assert_in_range(unpaired, 2, 22);
    }
}

/* Three percent are found with a disturbed machine, and told right. */
static void test_power(void **state)
{
    (void)state;
    unsigned found = 0, covered = 0;
    for (unsigned trial = 0; trial < 500; trial++) {
        double x[40], y[40];
        for (size_t i = 0; i < 40; i++) {
            double weather = exp(0.2 * normal());
            x[i] = noisy(1.03 * weather);
            y[i] = noisy(weather);
        }
        struct stats_ratio r = stats_paired(x, y, 40);
        found += r.differs && r.ratio > 1;
        covered += r.low <= 1.03 && 1.03 <= r.high;
    }
    assert_in_range(found, 400, 500);
    assert_in_range(covered, 485, 500);
}

/* A mean would be thrown by one measurement; this is not. */
static void test_one_far_off(void **state)
{
    (void)state;
    double x[16], y[16];
    for (size_t i = 0; i < 16; i++) {
        x[i] = 105 + 0.1 * (double)i;
        y[i] = 100 + 0.1 * (double)(15 - i);
    }
    y[4] = 1e6;
    struct stats_ratio r = stats_paired(x, y, 16);
    assert_true(r.ratio > 1.03 && r.ratio < 1.06);
    assert_true(r.differs);
}

static void test_equal(void **state)
{
    (void)state;
    double x[20];
    for (size_t i = 0; i < 20; i++)
        x[i] = 4096;
    struct stats_ratio r = stats_paired(x, x, 20);
    assert_true(r.ratio == 1 && r.low == 1 && r.high == 1 && !r.differs);
    assert_true(stats_reach(&r) == 0);
    r = stats_unpaired(x, 20, x, 20);
    assert_true(r.ratio == 1 && !r.differs);
}

/* Sure, but too small to matter. */
static void test_small(void **state)
{
    (void)state;
    double x[12], y[12];
    for (size_t i = 0; i < 12; i++) {
        y[i] = 1000 + (double)i;
        x[i] = y[i] * 1.005;
    }
    struct stats_ratio r = stats_paired(x, y, 12);
    assert_true(r.low > 1);
    assert_false(r.differs);
}

static void test_few(void **state)
{
    (void)state;
    double x[] = {1.1, 1.2, 1.15}, y[] = {1, 1, 1};
    struct stats_ratio r = stats_paired(x, y, 3);
    assert_int_equal(r.method, STATS_STUDENT);
    assert_false(r.differs); /* 9.925 standard errors are wide */
    r = stats_unpaired(x, 3, y, 3);
    assert_int_equal(r.method, STATS_STUDENT);
    assert_int_equal(stats_paired(x, y, 1).method, STATS_NONE);
    assert_int_equal(stats_unpaired(x, 3, y, 1).method, STATS_NONE);
    assert_false(isfinite(stats_reach(&(struct stats_ratio){0})));
}

static void test_not_positive(void **state)
{
    (void)state;
    double x[8] = {1, 1, 1, 1, 0, 1, 1, 1}, y[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    assert_int_equal(stats_paired(x, y, 8).method, STATS_NONE);
    x[4] = NAN;
    assert_int_equal(stats_paired(y, x, 8).method, STATS_NONE);
    x[4] = INFINITY;
    assert_int_equal(stats_unpaired(y, 8, x, 8).method, STATS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_critical_values),
        cmocka_unit_test(test_critical_values_unpaired),
        cmocka_unit_test(test_difference),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_power),
        cmocka_unit_test(test_one_far_off),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_small),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_not_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
