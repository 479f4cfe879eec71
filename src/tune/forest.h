/* forest.h - predicts a number from levels, and says how little it knows.
 *
 * A random forest of regression trees (L. Breiman, "Random forests", Machine Learning 45 (2001)),
 * used as F. Hutter, H. Hoos and K. Leyton-Brown do for configurations of programs ("Sequential
 * model-based optimization for general algorithm configuration", LION 5 (2011)): the trees'
 * disagreement is the uncertainty. Trees and not a smooth model, because settings act in steps: a
 * threshold matters where it crosses a size that the program asks for. */
#ifndef MALLOW_TUNE_FOREST_H
#define MALLOW_TUNE_FOREST_H

#include "tune/search.h"

enum { FOREST_TREES = 24 };

struct forest_sample {
    const uint8_t *level; /* [dimensions] */
    double value;
};

struct forest;

/* Learns from n samples, n >= 1; `random` is the state of the generator. NULL without memory. */
struct forest *forest_new(const struct tune_space *space, const struct forest_sample *samples,
                          size_t n, uint64_t *random);
void forest_free(struct forest *f);

void forest_predict(const struct forest *f, const uint8_t *level, double *mean, double *variance);

/* splitmix64: the next number of a generator, and one below n (n > 0). */
uint64_t tune_random(uint64_t *state);
unsigned tune_random_below(uint64_t *state, unsigned n);
double tune_random_share(uint64_t *state); /* 0 <= . < 1 */

#endif
