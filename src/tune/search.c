/* search.c - see search.h.
 *
 * The start fills the space: a Latin hypercube (M. McKay, R. Beckman and W. Conover, "A comparison
 * of three methods for selecting values of input variables", Technometrics 21 (1979)) in which
 * every dimension keeps its usual level in a fifth of the points. Then each question weighs the
 * objectives anew and takes the point from which a random forest expects most improvement of the
 * augmented Chebyshev norm (J. Knowles, "ParEGO", IEEE Transactions on Evolutionary Computation 10
 * (2006)), looked for near the best points and at random. Of six questions two ask for a neighbor
 * of the front instead and one for any point, so that no mistake of the model lasts. A point that
 * seems to be on the front races: it is measured again until another is as good, or its runs agree,
 * or there are TUNE_REPEATS of them (the idea of O. Maron and A. Moore, "The racing algorithm",
 * Artificial Intelligence Review 11 (1997)). The last part of the budget asks whether the best
 * points need all their changes. */
#include "tune/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune/forest.h"

enum {
    START_PER_DIMENSION = 2,
    NEAR = 8,    /* best points whose neighbors are looked at */
    DRAWN = 400, /* random and mixed candidates a question */
    TURNS = 6,   /* questions: one at random, two neighbors, three by the model */
};

#define AGREE  0.01 /* points that differ by less are alike */
#define STEADY 0.03 /* runs of a point that differ by less are enough */
#define SIMPLE 0.02 /* the least worth of a change, on the scale of an objective */
#define POLISH 0.7  /* the share of the budget from which on simpler points are asked for first */

struct tune_search {
    struct tune_space space;
    uint64_t random;
    unsigned questions, started, start; /* start: points of the hypercube */
    uint8_t (*design)[TUNE_DIMENSIONS]; /* [start] */
    size_t racing;                      /* index of the point that was measured last */
    size_t count;
    struct tune_point *points;        /* [TUNE_POINTS] */
    const struct tune_point **sorted; /* [TUNE_POINTS], the front */
    double *scalar;                   /* [TUNE_POINTS] */
};

/* --- the start --- */

static void fill_front(struct tune_search *s)
{
    const struct tune_space *space = &s->space;
    for (unsigned d = 0; d < space->dimensions; d++) {
        const struct tune_dimension *dimension = &space->dimension[d];
        unsigned keep = s->start / 5, others = dimension->levels - 1;
        for (unsigned i = 0; i < s->start; i++) {
            unsigned v = dimension->usual;
            if (i >= keep) { /* the others, evenly */
                v = (unsigned)(((double)(i - keep) + tune_random_share(&s->random)) * others /
                               (s->start - keep));
                v = v < others ? v : others - 1;
                v += v >= dimension->usual;
            }
            s->design[i][d] = (uint8_t)v;
        }
        for (unsigned i = s->start; i > 1; i--) {
            unsigned with = tune_random_below(&s->random, i);
            uint8_t kept = s->design[i - 1][d];
            s->design[i - 1][d] = s->design[with][d];
            s->design[with][d] = kept;
        }
    }
}

struct tune_search *tune_search_new(const struct tune_space *space, uint64_t seed)
{
    struct tune_search *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->space = *space;
    s->random = seed;
    s->start = START_PER_DIMENSION * space->dimensions;
    s->design = calloc(s->start + 1, sizeof *s->design);
    s->points = calloc(TUNE_POINTS, sizeof *s->points);
    s->sorted = calloc(TUNE_POINTS, sizeof *s->sorted);
    s->scalar = calloc(TUNE_POINTS, sizeof *s->scalar);
    if (!s->design || !s->points || !s->sorted || !s->scalar) {
        tune_search_free(s);
        return NULL;
    }
    fill_front(s);
    struct tune_point *usual = &s->points[s->count++];
    usual->runs = TUNE_REPEATS;
    for (unsigned d = 0; d < space->dimensions; d++)
        usual->level[d] = (uint8_t)space->dimension[d].usual;
    for (unsigned o = 0; o < space->objectives; o++)
        usual->value[o] = 1;
    return s;
}

void tune_search_free(struct tune_search *s)
{
    if (!s)
        return;
    free(s->design);
    free(s->points);
    free(s->sorted);
    free(s->scalar);
    free(s);
}

/* --- points --- */

static struct tune_point *find_point(const struct tune_search *s, const uint8_t *level)
{
    for (size_t i = 0; i < s->count; i++)
        if (!memcmp(s->points[i].level, level, s->space.dimensions))
            return &s->points[i];
    return NULL;
}

/* True if some other point is as good as p in every objective that counts, or nearly so. */
static bool matched(const struct tune_search *s, const struct tune_point *p)
{
    for (size_t i = 0; i < s->count; i++) {
        const struct tune_point *q = &s->points[i];
        bool worse = q == p || q->failed;
        for (unsigned o = 0; o < s->space.objectives && !worse; o++)
            worse = s->space.weight[o] > 0 && q->value[o] > p->value[o] * (1 + AGREE);
        if (!worse)
            return true;
    }
    return false;
}

unsigned tune_search_changes(const struct tune_search *s, const struct tune_point *p)
{
    unsigned n = 0;
    for (unsigned d = 0; d < s->space.dimensions; d++)
        n += p->level[d] != s->space.dimension[d].usual;
    return n;
}

static double median_of(double *v, unsigned n)
{
    for (unsigned i = 1; i < n; i++)
        for (unsigned k = i; k && v[k - 1] > v[k]; k--) {
            double kept = v[k];
            v[k] = v[k - 1];
            v[k - 1] = kept;
        }
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

void tune_search_tell(struct tune_search *s, const uint8_t *level, const double *value)
{
    struct tune_point *p = find_point(s, level);
    if (!p) {
        if (s->count == TUNE_POINTS)
            return;
        p = &s->points[s->count++];
        memcpy(p->level, level, s->space.dimensions);
    }
    s->racing = (size_t)(p - s->points);
    if (!s->racing || p->runs == TUNE_REPEATS)
        return;
    p->runs++;
    if (!value) {
        p->failed++;
        return;
    }
    unsigned good = p->runs - p->failed;
    memcpy(p->run[good - 1], value, s->space.objectives * sizeof *value);
    for (unsigned o = 0; o < s->space.objectives; o++) {
        double v[TUNE_REPEATS];
        for (unsigned i = 0; i < good; i++)
            v[i] = p->run[i][o];
        p->value[o] = median_of(v, good);
    }
}

/* True if the point that was measured last must show once more what it is worth. */
static bool races(const struct tune_search *s, const struct tune_point *p)
{
    if (p->failed || p->runs >= TUNE_REPEATS || matched(s, p))
        return false;
    if (p->runs < 2)
        return true;
    for (unsigned o = 0; o < s->space.objectives; o++)
        for (unsigned i = 1; i < p->runs && s->space.weight[o] > 0; i++)
            if (fabs(p->run[i][o] / p->run[0][o] - 1) > STEADY)
                return true;
    return false;
}

/* --- what to ask --- */

static int compare_costs(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The points as one number each, smaller is better, with weights drawn for this question. Values
 * count on a scale from the objective's best to its third quartile, and what lies far beyond
 * counts as little more than that, so that one absurd setting does not make all others look alike.
 */
static void scalarise(struct tune_search *s)
{
    unsigned n = s->space.objectives;
    double weight[TUNE_OBJECTIVES], sum = 0, *sorted = s->scalar, best[TUNE_OBJECTIVES],
                                    scale[TUNE_OBJECTIVES];
    for (unsigned o = 0; o < n; o++) {
        weight[o] = -log(1 - tune_random_share(&s->random)) * s->space.weight[o];
        sum += weight[o];
        size_t good = 0;
        for (size_t i = 0; i < s->count; i++)
            if (!s->points[i].failed)
                sorted[good++] = log(s->points[i].value[o]);
        qsort(sorted, good, sizeof *sorted, compare_costs);
        best[o] = sorted[0];
        scale[o] = fmax(sorted[good * 3 / 4] - sorted[0], 0.02);
    }
    for (size_t i = 0; i < s->count; i++) {
        double worst = 0, all = 0;
        for (unsigned o = 0; o < n; o++) {
            double v = s->points[i].failed ? 4 : (log(s->points[i].value[o]) - best[o]) / scale[o];
            v = (v > 1 ? 1 + log(v) : v) * (sum > 0 ? weight[o] / sum : 1);
            worst = fmax(worst, v);
            all += v;
        }
        s->scalar[i] = worst + 0.05 * all + SIMPLE * tune_search_changes(s, &s->points[i]);
    }
}

/* The margin by which a point is expected to beat the best. */
static double improvement(const struct forest *f, const uint8_t *level, double best)
{
    double mean, variance;
    forest_predict(f, level, &mean, &variance);
    double sigma = sqrt(variance + 1e-8), z = (best - mean) / sigma;
    return (best - mean) * 0.5 * erfc(-z / 1.4142135623730951) +
           sigma * 0.3989422804014327 * exp(-z * z / 2);
}

static void draw_levels(struct tune_search *s, uint8_t *level)
{
    for (unsigned d = 0; d < s->space.dimensions; d++) {
        const struct tune_dimension *dimension = &s->space.dimension[d];
        level[d] = tune_random_below(&s->random, 4) == 0
                       ? (uint8_t)dimension->usual
                       : (uint8_t)tune_random_below(&s->random, dimension->levels);
    }
}

struct hunt {
    const struct forest *forest;
    double best, most; /* scalar of the best point; improvement of the result */
    uint8_t *found;
    bool any;
};

static void consider(const struct tune_search *s, struct hunt *h, const uint8_t *level)
{
    double v = improvement(h->forest, level, h->best);
    if ((h->any && !(v > h->most)) || find_point(s, level))
        return;
    memcpy(h->found, level, s->space.dimensions);
    h->most = v;
    h->any = true;
}

static void consider_neighbors(const struct tune_search *s, struct hunt *h, const uint8_t *at)
{
    uint8_t level[TUNE_DIMENSIONS];
    memcpy(level, at, sizeof level);
    for (unsigned d = 0; d < s->space.dimensions; d++) {
        for (unsigned v = 0; v < s->space.dimension[d].levels; v++) {
            level[d] = (uint8_t)v;
            consider(s, h, level);
        }
        level[d] = at[d];
    }
}

static bool ask_model(struct tune_search *s, uint8_t *level)
{
    scalarise(s);
    struct forest_sample *samples = malloc(s->count * sizeof *samples);
    if (!samples)
        return false;
    for (size_t i = 0; i < s->count; i++)
        samples[i] = (struct forest_sample){s->points[i].level, s->scalar[i]};
    struct forest *forest = forest_new(&s->space, samples, s->count, &s->random);
    free(samples);
    if (!forest)
        return false;
    size_t near[NEAR] = {0}, nears = 0; /* the best points, best first */
    for (size_t i = 0; i < s->count; i++) {
        size_t k = nears < NEAR ? nears++ : NEAR;
        while (k && s->scalar[i] < s->scalar[near[k - 1]]) {
            if (k < NEAR)
                near[k] = near[k - 1];
            k--;
        }
        if (k < NEAR)
            near[k] = i;
    }
    struct hunt h = {.forest = forest, .best = s->scalar[near[0]], .found = level};
    for (size_t i = 0; i < nears; i++)
        consider_neighbors(s, &h, s->points[near[i]].level);
    for (unsigned i = 0; i < DRAWN; i++) {
        uint8_t mixed[TUNE_DIMENSIONS] = {0};
        draw_levels(s, mixed);
        if (i % 2) { /* a child of two good ones, with a little of chance */
            const uint8_t *a =
                s->points[near[tune_random_below(&s->random, (unsigned)nears)]].level;
            const uint8_t *b =
                s->points[near[tune_random_below(&s->random, (unsigned)nears)]].level;
            for (unsigned d = 0; d < s->space.dimensions; d++)
                if (tune_random_below(&s->random, 8))
                    mixed[d] = tune_random_below(&s->random, 2) ? a[d] : b[d];
        }
        consider(s, &h, mixed);
    }
    forest_free(forest);
    return h.any;
}

/* A best point with half of its changes taken back, a quarter, ..., one, the first that has not
 * been measured (as A. Zeller and R. Hildebrandt simplify input in "Simplifying and isolating
 * failure-inducing input", IEEE Transactions on Software Engineering 28 (2002)). */
static bool ask_simpler(struct tune_search *s, uint8_t *level)
{
    for (unsigned o = 0; o <= s->space.objectives; o++) {
        if (o < s->space.objectives && s->space.weight[o] < 1)
            continue;
        const struct tune_point *p =
            tune_search_best(s, o < s->space.objectives ? o : TUNE_OBJECTIVES, STEADY);
        unsigned changed[TUNE_DIMENSIONS], n = 0;
        for (unsigned d = 0; d < s->space.dimensions; d++)
            if (p->level[d] != s->space.dimension[d].usual)
                changed[n++] = d;
        for (unsigned part = n / 2; part; part /= 2)
            for (unsigned from = 0; from < n; from += part) {
                memcpy(level, p->level, s->space.dimensions);
                for (unsigned i = from; i < from + part && i < n; i++)
                    level[changed[i]] = (uint8_t)s->space.dimension[changed[i]].usual;
                if (!find_point(s, level))
                    return true;
            }
    }
    return false;
}

/* A neighbor of a point of the front, drawn: one level up or down, or the usual one (a step of
 * the local search of L. Paquete, M. Chiarandini and T. Stützle, "Pareto local optimum sets in the
 * biobjective traveling salesman problem" (2004)). False when the one drawn is known. */
static bool ask_neighbor(struct tune_search *s, uint8_t *level)
{
    const struct tune_point **front;
    size_t n = tune_search_front(s, AGREE, &front);
    for (unsigned i = 0; i < 4 * s->space.dimensions; i++) {
        memcpy(level, front[tune_random_below(&s->random, (unsigned)n)]->level,
               s->space.dimensions);
        unsigned d = tune_random_below(&s->random, s->space.dimensions);
        const struct tune_dimension *dimension = &s->space.dimension[d];
        unsigned v = level[d], which = tune_random_below(&s->random, 3);
        if (which == 0)
            v = dimension->usual;
        else if (!dimension->ordered)
            v = tune_random_below(&s->random, dimension->levels);
        else if (which == 1)
            v += v + 1 < dimension->levels;
        else
            v -= v > 0;
        level[d] = (uint8_t)v;
        if (!find_point(s, level))
            return true;
    }
    return false;
}

/* Any point that has not been measured, from a random one on. */
static bool ask_any(struct tune_search *s, uint8_t *level)
{
    for (unsigned i = 0; i < DRAWN; i++) {
        draw_levels(s, level);
        if (!find_point(s, level))
            return true;
    }
    double all = 1;
    for (unsigned d = 0; d < s->space.dimensions; d++)
        all *= s->space.dimension[d].levels;
    if (all <= (double)s->count)
        return false;
    for (;;) { /* there is one: count upwards */
        for (unsigned d = 0; d < s->space.dimensions; d++) {
            if (++level[d] < s->space.dimension[d].levels)
                break;
            level[d] = 0;
        }
        if (!find_point(s, level))
            return true;
    }
}

bool tune_search_ask(struct tune_search *s, double spent, uint8_t *level)
{
    if (s->racing && races(s, &s->points[s->racing])) {
        memcpy(level, s->points[s->racing].level, s->space.dimensions);
        return true;
    }
    if (s->count == TUNE_POINTS)
        return false;
    while (s->started < s->start && spent < 0.5) {
        memcpy(level, s->design[s->started++], s->space.dimensions);
        if (!find_point(s, level))
            return true;
    }
    s->questions++;
    if (spent >= POLISH && ask_simpler(s, level))
        return true;
    unsigned turn = s->questions % TURNS;
    if (turn % 3 == 1 && ask_neighbor(s, level))
        return true;
    if (turn && ask_model(s, level))
        return true;
    return ask_any(s, level);
}

/* --- results --- */

/* The number of a value's box: values in one box count as equal; 1 is in the middle of box 0. */
static double box(double value, double close) { return floor(log(value) / close + 0.5); }

/* True if a is to be shown instead of b. */
static bool point_replaces(const struct tune_search *s, const struct tune_point *a,
                           const struct tune_point *b, double close)
{
    bool better = false;
    for (unsigned o = 0; o < s->space.objectives; o++) {
        double x = box(a->value[o], close), y = box(b->value[o], close);
        if (x > y)
            return false;
        better |= x < y;
    }
    if (better)
        return true;
    unsigned x = tune_search_changes(s, a), y = tune_search_changes(s, b);
    return x != y ? x < y : a < b;
}

static int compare_first_costs(const void *a, const void *b)
{
    const struct tune_point *x = *(const struct tune_point *const *)a,
                            *y = *(const struct tune_point *const *)b;
    for (unsigned o = 0; o < TUNE_OBJECTIVES; o++)
        if (x->value[o] != y->value[o])
            return x->value[o] < y->value[o] ? -1 : 1;
    return (x > y) - (x < y);
}

size_t tune_search_front(struct tune_search *s, double close, const struct tune_point ***front)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct tune_point *p = &s->points[i];
        bool stays = !p->failed && p->runs;
        for (size_t k = 0; k < s->count && stays; k++)
            stays = k == i || s->points[k].failed || !point_replaces(s, &s->points[k], p, close);
        if (stays)
            s->sorted[n++] = p;
    }
    qsort(s->sorted, n, sizeof *s->sorted, compare_first_costs);
    *front = s->sorted;
    return n;
}

static double merit(const struct tune_search *s, const struct tune_point *p, unsigned objective)
{
    if (objective < TUNE_OBJECTIVES)
        return log(p->value[objective]);
    double sum = 0, weights = 0;
    for (unsigned o = 0; o < s->space.objectives; o++) {
        sum += s->space.weight[o] * log(p->value[o]);
        weights += s->space.weight[o];
    }
    return sum / weights;
}

const struct tune_point *tune_search_best(struct tune_search *s, unsigned objective, double close)
{
    double least = 0;
    for (size_t i = 1; i < s->count; i++)
        if (!s->points[i].failed)
            least = fmin(least, merit(s, &s->points[i], objective));
    const struct tune_point *best = NULL;
    for (size_t i = 0; i < s->count; i++) {
        const struct tune_point *p = &s->points[i];
        if (p->failed || merit(s, p, objective) > least + close)
            continue;
        unsigned x = tune_search_changes(s, p), y = best ? tune_search_changes(s, best) : UINT8_MAX;
        if (x < y || (x == y && merit(s, p, TUNE_OBJECTIVES) < merit(s, best, TUNE_OBJECTIVES)))
            best = p;
    }
    return best;
}

const struct tune_point *tune_search_usual(const struct tune_search *s) { return &s->points[0]; }

size_t tune_search_points(const struct tune_search *s) { return s->count; }

const struct tune_point *tune_search_point(const struct tune_search *s, size_t i)
{
    return &s->points[i];
}
