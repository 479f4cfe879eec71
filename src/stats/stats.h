/* stats.h - is one set of measurements larger than another, by how much, and how sure is that?
 *
 * Owns: the statistics of every comparison. Measurements are positive and are compared as ratios;
 * the numbers are those of a machine on which other things run too, so nothing is assumed of their
 * distribution and a third of them may be far off. The interval is of 99% (STATS_CONFIDENCE).
 * Pure functions, any thread. */
#ifndef MALLOW_STATS_STATS_H
#define MALLOW_STATS_STATS_H

#include <stdbool.h>
#include <stddef.h>

#define STATS_CONFIDENCE 0.99

/* A difference smaller than this is not called one, however sure. */
#define STATS_MATTERS 0.01

enum stats_method {
    STATS_NONE,   /* nothing known: fewer than two measurements, or one that is not positive */
    STATS_RANKS,  /* Hodges-Lehmann estimate, interval from the exact distribution of ranks */
    STATS_STUDENT /* too few for ranks to reach 99%: mean and Student's or Welch's interval */
};

struct stats_ratio {
    double ratio, low, high; /* 1: equal; all 0 with STATS_NONE */
    enum stats_method method;
    bool differs; /* the interval excludes 1, and ratio is more than STATS_MATTERS away from it */
};

/* The ratio of x to y, which were measured in pairs: x[i] and y[i] under the same conditions. */
struct stats_ratio stats_paired(const double *x, const double *y, size_t n);

/* The ratio of x to y, measured apart. */
struct stats_ratio stats_unpaired(const double *x, size_t n, const double *y, size_t m);

struct stats_difference {
    double difference, low, high; /* the difference of the means; low and high only when known */
    bool known;                   /* both sides have two measurements or more */
    bool differs;                 /* the interval excludes 0 */
};
/* The mean of y less that of x, which may hold any numbers; neither is empty. Welch's interval. */
struct stats_difference stats_difference(const double *x, size_t n, const double *y, size_t m);

struct stats_moments { /* moments of count measurements; variance: its estimate, 0 for one */
    size_t count;
    double mean, variance;
};
/* The same of measurements that were added up already. */
struct stats_difference stats_difference_of(const struct stats_moments *x,
                                            const struct stats_moments *y);

/* Half the interval's width as a share of the ratio; infinite when nothing is known. */
double stats_reach(const struct stats_ratio *r);

/* The median of n numbers; 0 of none. Leaves them as they are. */
double stats_median(const double *values, size_t n);

#endif
