/* estimate.h - from sampled blocks to what the program really holds.
 *
 * Bytes are sampled with equal probability, one in `period` in the mean, without memory: a block of
 * size s is among the samples with probability p = 1 - exp(-s / period), so each sampled block
 * stands for 1/p blocks and s/p bytes. Sums of these are unbiased for any mix of sizes. The
 * intervals take the samples for independent draws: their variance is the sum of (1 - p) / p^2
 * (times s^2 for bytes), and a gamma distribution with that mean and variance gives the ends, so
 * that they hold for a handful of samples as well. Pure functions, any thread. */
#ifndef MALLOW_WATCH_ESTIMATE_H
#define MALLOW_WATCH_ESTIMATE_H

#include <stdint.h>

struct estimate {
    uint64_t samples;
    uint64_t sampled_bytes; /* the exact sizes of the samples: the true sum is not below this */
    double blocks, bytes;   /* the estimates */
    double blocks_variance, bytes_variance;
    double blocks_largest, bytes_largest; /* the most that one more sample would have added */
};

struct estimate_interval {
    double low, high;
};

/* Adds a sampled block. weight_bytes: the bytes that it stands for, size / p; a weight below the
 * size counts as the size. Blocks sampled with different periods may be added. */
void estimate_add(struct estimate *e, uint64_t size_bytes, uint64_t weight_bytes);
void estimate_merge(struct estimate *sum, const struct estimate *other);

/* Returns the interval that holds the true value with a probability of 95 %. {0, 0} without
 * samples. */
struct estimate_interval estimate_blocks_interval(const struct estimate *e);
struct estimate_interval estimate_bytes_interval(const struct estimate *e);

/* Rounds to whole bytes or blocks; a larger value than fits becomes UINT64_MAX. */
uint64_t estimate_whole(double value);

#endif
