/* forest.c - Grows a random forest of regression trees (Breiman 2001) and predicts a mean and a
 * variance for a point. The trees draw dimensions and splits at random, so that they disagree
 * where no sample decides. */
#include "tune/forest.h"

#include <stdlib.h>
#include <string.h>

enum { LEAF = 3 }; /* samples that are not divided further */

struct node { /* a leaf when low is 0 */
    double mean, variance;
    uint32_t low, high; /* nodes below */
    uint8_t dimension, level;
    bool equal; /* low: level == ; else low: level <= */
};

struct tree {
    struct node *nodes;
    uint32_t count;
};

struct forest {
    const struct tune_space *space;
    struct tree trees[FOREST_TREES];
};

uint64_t tune_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

unsigned tune_random_below(uint64_t *state, unsigned n)
{
    return (unsigned)((tune_random(state) >> 32) * n >> 32);
}

double tune_random_share(uint64_t *state)
{
    return (double)(tune_random(state) >> 11) / (double)(1ull << 53);
}

static bool goes_low(const struct node *split, const uint8_t *level)
{
    uint8_t v = level[split->dimension];
    return split->equal ? v == split->level : v <= split->level;
}

struct sums {
    double n, sum, squares;
};

static double spread(const struct sums *s)
{
    return s->n > 0 ? s->squares - s->sum * s->sum / s->n : 0;
}

/* How much a split lowers the sum of squares; 0 when a side is empty. */
static double gain(const struct node *split, const struct forest_sample *x, size_t n)
{
    struct sums all = {0}, low = {0};
    for (size_t i = 0; i < n; i++) {
        double v = x[i].value;
        all = (struct sums){all.n + 1, all.sum + v, all.squares + v * v};
        if (goes_low(split, x[i].level))
            low = (struct sums){low.n + 1, low.sum + v, low.squares + v * v};
    }
    struct sums high = {all.n - low.n, all.sum - low.sum, all.squares - low.squares};
    if (!(low.n > 0) || !(high.n > 0))
        return 0;
    return spread(&all) - spread(&low) - spread(&high);
}

/* The best split over five in six of the dimensions, drawn. Of splits that divide the samples alike
 * one is drawn, so that the trees disagree about levels that no sample has. False when none helps.
 */
static bool choose_split(const struct tune_space *space, const struct forest_sample *x, size_t n,
                         uint64_t *random, struct node *best)
{
    double most = 1e-12;
    unsigned ties = 1;
    for (unsigned d = 0; d < space->dimensions; d++) {
        if (tune_random_below(random, 6) == 0)
            continue;
        for (unsigned v = 0; v < space->dimension[d].levels; v++)
            for (unsigned equal = 0; equal < 2; equal++) {
                if (!equal && !space->dimension[d].ordered)
                    continue;
                struct node split = {
                    .dimension = (uint8_t)d, .level = (uint8_t)v, .equal = equal != 0};
                double g = gain(&split, x, n);
                if (g < most * (1 - 1e-9))
                    continue;
                ties = g > most * (1 + 1e-9) ? 1 : ties + 1;
                if (ties == 1 || !tune_random_below(random, ties))
                    *best = split;
                most = g > most ? g : most;
            }
    }
    return most > 1e-12;
}

/* Grows the node `at` from n samples, which it reorders. */
static void grow_tree(const struct tune_space *space, struct tree *t, uint32_t at,
                      struct forest_sample *x, size_t n, uint64_t *random)
{
    struct sums s = {0};
    for (size_t i = 0; i < n; i++)
        s = (struct sums){s.n + 1, s.sum + x[i].value, s.squares + x[i].value * x[i].value};
    struct node node = {0};
    if (n <= LEAF || !choose_split(space, x, n, random, &node)) {
        double v = spread(&s) / s.n;
        t->nodes[at] = (struct node){.mean = s.sum / s.n, .variance = v > 0 ? v : 0};
        return;
    }
    size_t low = 0;
    for (size_t i = 0; i < n; i++)
        if (goes_low(&node, x[i].level)) {
            struct forest_sample kept = x[low];
            x[low++] = x[i];
            x[i] = kept;
        }
    node.low = t->count++;
    node.high = t->count++;
    t->nodes[at] = node;
    grow_tree(space, t, node.low, x, low, random);
    grow_tree(space, t, node.high, x + low, n - low, random);
}

struct forest *forest_new(const struct tune_space *space, const struct forest_sample *samples,
                          size_t n, uint64_t *random)
{
    struct forest *f = calloc(1, sizeof *f);
    struct forest_sample *drawn = malloc(n * sizeof *drawn);
    bool whole = f && drawn;
    if (f)
        f->space = space;
    for (unsigned t = 0; whole && t < FOREST_TREES; t++) {
        f->trees[t].nodes = malloc(2 * n * sizeof(struct node));
        whole = f->trees[t].nodes != NULL;
        if (!whole)
            break;
        for (size_t i = 0; i < n; i++)
            drawn[i] = samples[tune_random_below(random, (unsigned)n)];
        f->trees[t].count = 1;
        grow_tree(space, &f->trees[t], 0, drawn, n, random);
    }
    free(drawn);
    if (!whole) {
        forest_free(f);
        return NULL;
    }
    return f;
}

void forest_free(struct forest *f)
{
    for (unsigned t = 0; f && t < FOREST_TREES; t++)
        free(f->trees[t].nodes);
    free(f);
}

void forest_predict(const struct forest *f, const uint8_t *level, double *mean, double *variance)
{
    double sum = 0, squares = 0, inside = 0;
    for (unsigned t = 0; t < FOREST_TREES; t++) {
        const struct node *node = f->trees[t].nodes;
        while (node->low)
            node = &f->trees[t].nodes[goes_low(node, level) ? node->low : node->high];
        sum += node->mean;
        squares += node->mean * node->mean;
        inside += node->variance;
    }
    *mean = sum / FOREST_TREES;
    double between = squares / FOREST_TREES - *mean * *mean;
    *variance = (between > 0 ? between : 0) + inside / FOREST_TREES;
}
