/* stats.c - see stats.h.
 *
 * Estimates: J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Annals of
 * Mathematical Statistics 34 (1963): the median of all averages of two differences (paired), of all
 * differences (unpaired), of the logarithms. Intervals: those order statistics of the same numbers
 * at which the test of F. Wilcoxon ("Individual comparisons by ranking methods", Biometrics
 * Bulletin 1 (1945)) would stop rejecting. The distributions are counted exactly up to EXACT
 * measurements and are normal above. */
#include "stats/stats.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { EXACT = 40 };

#define TAIL   ((1 - STATS_CONFIDENCE) / 2)
#define NORMAL 2.5758293035489004 /* its point for TAIL */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of_sorted(const double *sorted, size_t n)
{
    if (!n)
        return 0;
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double stats_median(const double *values, size_t n)
{
    double *sorted = malloc((n ? n : 1) * sizeof *sorted);
    if (!sorted)
        return NAN;
    if (n)
        memcpy(sorted, values, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, compare_doubles);
    double m = median_of_sorted(sorted, n);
    free(sorted);
    return m;
}

/* How many of the smallest values the interval leaves out: the largest c with
 * P(statistic < c) <= TAIL. p: the probability of each value 0, 1, ... */
static size_t left_out(const double *p, size_t values)
{
    double sum = 0;
    size_t c = 0;
    while (c < values && sum + p[c] <= TAIL)
        sum += p[c++];
    return c;
}

static size_t normal_left_out(double mean, double deviation)
{
    double c = floor(mean - NORMAL * deviation);
    return c > 0 ? (size_t)c : 0;
}

/* The number of values that the signed ranks' sum of n differences can have. */
static size_t signed_ranks(size_t n)
{
    double pairs = (double)n * (double)(n + 1);
    if (n > EXACT)
        return normal_left_out(pairs / 4, sqrt(pairs * (double)(2 * n + 1) / 24));
    double p[EXACT * (EXACT + 1) / 2 + 1] = {1};
    size_t most = 0;
    for (size_t rank = 1; rank <= n; rank++) { /* each rank counts or not, with equal chance */
        most += rank;
        for (size_t v = most + 1; v-- > 0;)
            p[v] = (p[v] + (v >= rank ? p[v - rank] : 0)) / 2;
    }
    return left_out(p, most + 1);
}

/* The number of values that the number of pairs (x, y) with x < y can have, for n and m
 * measurements. */
static size_t pair_counts(size_t n, size_t m)
{
    double all = (double)n * (double)m;
    if (n > EXACT || m > EXACT)
        return normal_left_out(all / 2, sqrt(all * (double)(n + m + 1) / 12));
    /* The count's generating function is the Gaussian binomial coefficient: multiply by
     * (1 - q^(m+i)), divide by (1 - q^i); and by i / (m + i), to make it a probability. */
    double p[EXACT * EXACT + 1] = {1};
    size_t most = n * m;
    for (size_t i = 1; i <= n; i++) {
        for (size_t v = most + 1; v-- > m + i;)
            p[v] -= p[v - m - i];
        for (size_t v = i; v <= most; v++)
            p[v] += p[v - i];
        for (size_t v = 0; v <= most; v++)
            p[v] *= (double)i / (double)(m + i);
    }
    return left_out(p, most + 1);
}

/* Two-sided 99% points of Student's distribution. */
static double student(double freedom)
{
    static const double points[] = {63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355,
                                    3.250,  3.169, 3.106, 3.055, 3.012, 2.977, 2.947};
    size_t n = sizeof points / sizeof *points;
    if (!(freedom >= 1))
        return points[0];
    return freedom < (double)(n + 1) ? points[(size_t)freedom - 1] : NORMAL + 5.3 / freedom;
}

static struct stats_ratio make_ratio(double middle, double low, double high,
                                     enum stats_method method)
{
    struct stats_ratio r = {exp(middle), exp(low), exp(high), method, false};
    r.differs = (r.low > 1 || r.high < 1) && fabs(r.ratio - 1) > STATS_MATTERS;
    return r;
}

static void mean_and_variance(const double *x, size_t n, double *mean, double *variance)
{
    double sum = 0, squares = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    *mean = sum / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (x[i] - *mean) * (x[i] - *mean);
    *variance = squares / (double)(n - 1);
}

/* Sorts `all`; c of its ends are left out. */
static struct stats_ratio by_ranks(double *all, size_t count, size_t c)
{
    qsort(all, count, sizeof *all, compare_doubles);
    return make_ratio(median_of_sorted(all, count), all[c - 1], all[count - c], STATS_RANKS);
}

/* The logarithms of n positive numbers; NULL when one is not, or without memory. */
static double *logarithms(const double *x, size_t n)
{
    double *l = malloc(n * sizeof *l);
    for (size_t i = 0; l && i < n; i++) {
        if (!(x[i] > 0) || !isfinite(x[i])) {
            free(l);
            return NULL;
        }
        l[i] = log(x[i]);
    }
    return l;
}

static struct stats_ratio paired(double *d, size_t n)
{
    size_t c = signed_ranks(n), count = 0;
    double *all = c ? malloc(n * (n + 1) / 2 * sizeof *all) : NULL;
    if (all) {
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k <= i; k++)
                all[count++] = (d[i] + d[k]) / 2;
        struct stats_ratio r = by_ranks(all, count, c);
        free(all);
        return r;
    }
    double mean, variance;
    mean_and_variance(d, n, &mean, &variance);
    double reach = student((double)(n - 1)) * sqrt(variance / (double)n);
    return make_ratio(mean, mean - reach, mean + reach, STATS_STUDENT);
}

struct stats_ratio stats_paired(const double *x, const double *y, size_t n)
{
    struct stats_ratio r = {0};
    if (n < 2)
        return r;
    double *d = logarithms(x, n), *l = logarithms(y, n);
    if (d && l) {
        for (size_t i = 0; i < n; i++)
            d[i] -= l[i];
        r = paired(d, n);
    }
    free(d);
    free(l);
    return r;
}

/* How far from the difference of two means their interval reaches. */
static double welch_reach(double u, size_t n, double v, size_t m)
{
    const double sum = u + v;
    const double freedom =
        sum > 0 ? sum * sum / (u * u / (double)(n - 1) + v * v / (double)(m - 1)) : 1e9;
    return student(floor(freedom)) * sqrt(sum);
}

struct stats_difference stats_difference_of(const struct stats_moments *x,
                                            const struct stats_moments *y)
{
    struct stats_difference d = {.difference = y->mean - x->mean,
                                 .known = x->count > 1 && y->count > 1};
    if (!d.known)
        return d;
    const double reach = welch_reach(x->variance / (double)x->count, x->count,
                                     y->variance / (double)y->count, y->count);
    d.low = d.difference - reach;
    d.high = d.difference + reach;
    d.differs = d.low > 0 || d.high < 0;
    return d;
}

struct stats_difference stats_difference(const double *x, size_t n, const double *y, size_t m)
{
    struct stats_moments of_x = {.count = n}, of_y = {.count = m};
    mean_and_variance(x, n, &of_x.mean, &of_x.variance);
    mean_and_variance(y, m, &of_y.mean, &of_y.variance);
    return stats_difference_of(&of_x, &of_y);
}

static struct stats_ratio unpaired(const double *a, size_t n, const double *b, size_t m)
{
    size_t c = pair_counts(n, m), count = 0;
    double *all = c ? malloc(n * m * sizeof *all) : NULL;
    if (all) {
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < m; k++)
                all[count++] = a[i] - b[k];
        struct stats_ratio r = by_ranks(all, count, c);
        free(all);
        return r;
    }
    double mean_a, mean_b, var_a, var_b;
    mean_and_variance(a, n, &mean_a, &var_a);
    mean_and_variance(b, m, &mean_b, &var_b);
    double mean = mean_a - mean_b, reach = welch_reach(var_a / (double)n, n, var_b / (double)m, m);
    return make_ratio(mean, mean - reach, mean + reach, STATS_STUDENT);
}

struct stats_ratio stats_unpaired(const double *x, size_t n, const double *y, size_t m)
{
    struct stats_ratio r = {0};
    if (n < 2 || m < 2)
        return r;
    double *a = logarithms(x, n), *b = logarithms(y, m);
    if (a && b)
        r = unpaired(a, n, b, m);
    free(a);
    free(b);
    return r;
}

double stats_reach(const struct stats_ratio *r)
{
    return r->method == STATS_NONE ? INFINITY : (r->high - r->low) / 2 / r->ratio;
}
