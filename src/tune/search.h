/* search.h - looks for the best points of a space by asking for one measurement after the other.
 *
 * Owns: which point is worth the next run, and which points nothing beats. Knows nothing of
 * processes or allocators: a point is a level in each dimension, a measurement a positive number
 * for each objective, smaller is better, relative to the usual point, whose numbers are all 1.
 * The same seed and the same answers give the same questions. One thread. */
#ifndef MALLOW_TUNE_SEARCH_H
#define MALLOW_TUNE_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TUNE_DIMENSIONS = 12,
    TUNE_LEVELS = 16,
    TUNE_OBJECTIVES = 3,
    TUNE_POINTS = 2048,
    TUNE_REPEATS = 3 /* the most runs that a point gets */
};

struct tune_dimension {
    unsigned levels; /* 2 .. TUNE_LEVELS */
    unsigned usual;  /* the level that is there when nothing is set */
    bool ordered;    /* neighboring levels are alike */
};

struct tune_space {
    struct tune_dimension dimension[TUNE_DIMENSIONS];
    unsigned dimensions, objectives;
    double weight[TUNE_OBJECTIVES]; /* how much an objective counts; not all 0 */
};

struct tune_point {
    uint8_t level[TUNE_DIMENSIONS];
    uint8_t runs, failed;          /* failed: of the runs; a point that failed once is no good */
    double value[TUNE_OBJECTIVES]; /* medians of the runs that did not fail */
    double run[TUNE_REPEATS][TUNE_OBJECTIVES];
};

struct tune_search;

/* NULL without memory. */
struct tune_search *tune_search_new(const struct tune_space *space, uint64_t seed);
void tune_search_free(struct tune_search *s);

/* The next point to measure, into level[dimensions]. `spent`: the share of the budget that is used
 * up, 0 to 1. False when every point of the space has been measured, or TUNE_POINTS. */
bool tune_search_ask(struct tune_search *s, double spent, uint8_t *level);

/* The measurement there: value[objectives], all positive and finite; NULL when it failed. */
void tune_search_tell(struct tune_search *s, const uint8_t *level, const double *value);

/* The points that no other beats in all objectives, in the order of the first objective; points
 * within `close` (0.01: one percent) of each other count as equal, and of equals the one that
 * changes the least is taken. Point 0, the usual one, may be among them. The array is the
 * search's, until the next call. */
size_t tune_search_front(struct tune_search *s, double close, const struct tune_point ***front);

/* The best point for one objective; TUNE_OBJECTIVES: for the weighted product of all. Of those
 * within `close` of the best the one that changes the least. May be the usual point. */
const struct tune_point *tune_search_best(struct tune_search *s, unsigned objective, double close);

/* The usual point, and how many points have been measured, it included. */
const struct tune_point *tune_search_usual(const struct tune_search *s);
size_t tune_search_points(const struct tune_search *s);
/* Number i of them, in the order of their first runs; number 0 is the usual one. */
const struct tune_point *tune_search_point(const struct tune_search *s, size_t i);

/* How many of its levels are not the usual ones. */
unsigned tune_search_changes(const struct tune_search *s, const struct tune_point *p);

#endif
