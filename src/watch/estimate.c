/* estimate.c - Estimates blocks and bytes from samples, with intervals from gamma distributions.
 * The quantiles use the cube-root approximation of the chi-squared distribution (Wilson and
 * Hilferty). */
#include "watch/estimate.h"

#include <math.h>
#include <stdbool.h>

#define NORMAL_975 1.959963984540054 /* a quantile of the standard normal distribution */

static double largest(double a, double b) { return a > b ? a : b; }

void estimate_add(struct estimate *e, uint64_t size_bytes, uint64_t weight_bytes)
{
    bool sampled = size_bytes && weight_bytes > size_bytes;
    double size = (double)size_bytes, weight = sampled ? (double)weight_bytes / size : 1;
    double variance = weight * (weight - 1); /* (1 - p) / p^2 */
    double spread = sqrt(variance);
    e->samples++;
    e->sampled_bytes += size_bytes;
    e->blocks += weight;
    e->bytes += size * weight;
    e->blocks_variance += variance;
    e->bytes_variance += size * size * variance;
    e->blocks_largest = largest(e->blocks_largest, spread);
    e->bytes_largest = largest(e->bytes_largest, size * spread);
}

void estimate_merge(struct estimate *sum, const struct estimate *other)
{
    sum->samples += other->samples;
    sum->sampled_bytes += other->sampled_bytes;
    sum->blocks += other->blocks;
    sum->bytes += other->bytes;
    sum->blocks_variance += other->blocks_variance;
    sum->bytes_variance += other->bytes_variance;
    sum->blocks_largest = largest(sum->blocks_largest, other->blocks_largest);
    sum->bytes_largest = largest(sum->bytes_largest, other->bytes_largest);
}

/* A quantile of the chi-squared distribution, by the cube root that is nearly normal. */
static double chi_squared(double degrees, double normal)
{
    double a = 2 / (9 * degrees), root = 1 - a + normal * sqrt(a);
    return root > 0 ? degrees * root * root * root : 0;
}

/* The interval of a sum of weighted counts: gamma distributions matched to its mean and variance,
 * for the upper end with one more count of the largest weight. */
static struct estimate_interval interval(double sum, double variance, double most, double least)
{
    struct estimate_interval i = {sum, sum};
    if (sum <= 0)
        return (struct estimate_interval){0, 0};
    if (variance > 0)
        i.low = variance / (2 * sum) * chi_squared(2 * sum * sum / variance, -NORMAL_975);
    double above = variance + most * most, mean = sum + most;
    if (above > 0)
        i.high = above / (2 * mean) * chi_squared(2 * mean * mean / above, NORMAL_975);
    i.low = largest(i.low, least);
    i.high = largest(i.high, sum);
    return i;
}

struct estimate_interval estimate_blocks_interval(const struct estimate *e)
{
    return interval(e->blocks, e->blocks_variance, e->blocks_largest, (double)e->samples);
}

struct estimate_interval estimate_bytes_interval(const struct estimate *e)
{
    return interval(e->bytes, e->bytes_variance, e->bytes_largest, (double)e->sampled_bytes);
}

uint64_t estimate_whole(double value)
{
    if (!(value > 0))
        return 0;
    return value >= 18446744073709549568.0 ? UINT64_MAX : (uint64_t)(value + 0.5);
}
