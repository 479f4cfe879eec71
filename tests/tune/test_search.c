/* The search, on functions whose best points are known. Nothing is measured and everything is drawn
 * from seeds, so that a test that passes once passes always. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tune/forest.h"
#include "tune/search.h"

/* Eight dimensions, like an allocator's; 10^6 points. */
static struct tune_space eight(unsigned objectives)
{
    static const unsigned levels[] = {5, 10, 9, 6, 6, 6, 2, 4}, usual[] = {4, 4, 3, 2, 2, 2, 0, 2};
    struct tune_space s = {.dimensions = 8, .objectives = objectives, .weight = {1, 1, 1}};
    for (unsigned d = 0; d < 8; d++)
        s.dimension[d] = (struct tune_dimension){levels[d], usual[d], d != 6};
    return s;
}

/* Memory falls with few arenas and a threshold below a size that matters, but only where other
 * dimensions go along; time rises with what saves memory, and falls with the fourth. The best peak,
 * 0.7 * 0.85 * 0.8 * 0.75, is that of one point in 112. */
static void like_an_allocator(const uint8_t *x, double *value)
{
    double peak = 1, time = 1;
    peak *= x[0] < 2 ? 0.7 : x[0] < 4 ? 0.85 : 1;
    peak *= x[1] < 3 ? 0.85 : 1;
    peak *= x[1] < 3 && x[2] < 2 ? 0.8 : 1;
    peak *= x[4] < 2 && x[0] < 2 ? 0.75 : 1;
    time *= x[0] == 0 ? 1.3 : 1;
    time *= x[1] < 2 ? 3 : x[1] < 3 ? 1.1 : 1;
    time *= x[3] > 3 ? 0.8 : 1;
    time *= x[5] > 3 && x[3] > 3 ? 0.9 : 1;
    value[0] = peak;
    value[1] = time;
}

static double noise(uint64_t *random) { return exp(0.02 * (tune_random_share(random) - 0.5)); }

static void search(struct tune_search *s, unsigned runs, uint64_t noise_seed)
{
    for (unsigned i = 0; i < runs; i++) {
        uint8_t level[TUNE_DIMENSIONS];
        double value[TUNE_OBJECTIVES];
        if (!tune_search_ask(s, (double)i / runs, level))
            break;
        like_an_allocator(level, value);
        if (noise_seed)
            value[1] *= noise(&noise_seed);
        tune_search_tell(s, level, value);
    }
}

enum { SEEDS = 6 };

static void test_finds_good_ones(void **state)
{
    (void)state;
    struct tune_space space = eight(2);
    unsigned peak = 0, both = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tune_search *s = tune_search_new(&space, seed);
        search(s, 130, seed);
        peak += tune_search_best(s, 0, 0.01)->value[0] < 0.48;
        const struct tune_point *best = tune_search_best(s, TUNE_OBJECTIVES, 0.01);
        both += best->value[0] * best->value[1] < 0.5;
        assert_true(tune_search_changes(s, best) <= 7);
        tune_search_free(s);
    }
    assert_in_range(peak, 5, SEEDS);
    assert_in_range(both, 5, SEEDS);
}

/* The area that a front leaves below 1, 1: the larger the better. */
static double dominated(struct tune_search *s)
{
    const struct tune_point **front;
    size_t n = tune_search_front(s, 0.01, &front);
    double area = 0, ceiling = 1.5;
    for (size_t i = 0; i < n; i++)
        if (front[i]->value[1] < ceiling && front[i]->value[0] < 1.5) {
            area += (1.5 - front[i]->value[0]) * (ceiling - front[i]->value[1]);
            ceiling = front[i]->value[1];
        }
    return area;
}

/* Better than as many points drawn at random. */
static void test_front(void **state)
{
    (void)state;
    struct tune_space space = eight(2);
    double ours = 0, drawn = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct tune_search *s = tune_search_new(&space, seed), *r = tune_search_new(&space, seed);
        search(s, 130, 0);
        uint64_t random = seed;
        for (unsigned i = 0; i < 130; i++) {
            uint8_t level[TUNE_DIMENSIONS];
            double value[TUNE_OBJECTIVES];
            for (unsigned d = 0; d < 8; d++)
                level[d] = (uint8_t)tune_random_below(&random, space.dimension[d].levels);
            like_an_allocator(level, value);
            tune_search_tell(r, level, value);
        }
        ours += dominated(s) / SEEDS;
        drawn += dominated(r) / SEEDS;
        tune_search_free(s);
        tune_search_free(r);
    }
    assert_true(ours > drawn + 0.02);
}

static void test_same_seed_same_questions(void **state)
{
    (void)state;
    struct tune_space space = eight(2);
    struct tune_search *a = tune_search_new(&space, 7), *b = tune_search_new(&space, 7),
                       *c = tune_search_new(&space, 8);
    unsigned other = 0;
    for (unsigned i = 0; i < 50; i++) {
        uint8_t x[TUNE_DIMENSIONS], y[TUNE_DIMENSIONS], z[TUNE_DIMENSIONS];
        double value[TUNE_OBJECTIVES];
        assert_true(tune_search_ask(a, i / 50.0, x) && tune_search_ask(b, i / 50.0, y) &&
                    tune_search_ask(c, i / 50.0, z));
        assert_memory_equal(x, y, space.dimensions);
        other += memcmp(x, z, space.dimensions) != 0;
        like_an_allocator(x, value);
        tune_search_tell(a, x, value);
        tune_search_tell(b, y, value);
        like_an_allocator(z, value);
        tune_search_tell(c, z, value);
    }
    assert_true(other > 25);
    tune_search_free(a);
    tune_search_free(b);
    tune_search_free(c);
}

/* Nothing on the front is beaten; the usual point is there when nothing beats it. */
static void test_front_is_a_front(void **state)
{
    (void)state;
    struct tune_space space = {.dimensions = 2,
                               .objectives = 2,
                               .weight = {1, 1},
                               .dimension = {{4, 0, true}, {4, 0, true}}};
    struct tune_search *s = tune_search_new(&space, 1);
    const struct tune_point **front;
    assert_int_equal(tune_search_front(s, 0.01, &front), 1);
    assert_ptr_equal(front[0], tune_search_usual(s));
    static const struct {
        uint8_t level[2];
        double value[2];
    } told[] = {{{1, 0}, {0.5, 1.5}}, {{2, 0}, {0.6, 1.4}},     {{3, 0}, {0.55, 1.6}},
                {{0, 1}, {1.2, 1.2}}, {{1, 1}, {0.501, 1.501}}, {{2, 1}, {1.001, 0.999}}};
    for (unsigned i = 0; i < 6; i++)
        tune_search_tell(s, told[i].level, told[i].value);
    assert_int_equal(tune_search_front(s, 0.01, &front), 3);
    assert_memory_equal(front[0]->level, told[0].level,
                        2); /* not {1, 1}: equal, with more changes */
    assert_memory_equal(front[1]->level, told[1].level, 2);
    assert_ptr_equal(front[2], tune_search_usual(s)); /* not {2, 1}: equal */
    tune_search_free(s);
}

/* What fails is asked for once and is never an answer. */
static void test_failures(void **state)
{
    (void)state;
    struct tune_space space = eight(1);
    struct tune_search *s = tune_search_new(&space, 3);
    unsigned failures = 0;
    for (unsigned i = 0; i < 80; i++) {
        uint8_t level[TUNE_DIMENSIONS];
        assert_true(tune_search_ask(s, i / 80.0, level));
        double value = level[0] < 2 ? 0.1 : 1 - 0.01 * level[1];
        failures += level[0] < 2;
        tune_search_tell(s, level, level[0] < 2 ? NULL : &value);
    }
    assert_in_range(failures, 1, 40);
    const struct tune_point **front;
    size_t n = tune_search_front(s, 0.01, &front);
    for (size_t i = 0; i < n; i++)
        assert_true(front[i]->level[0] >= 2);
    assert_true(tune_search_best(s, 0, 0.001)->value[0] < 0.95);
    tune_search_free(s);
}

/* A small space is measured to the end, each point, and then there is nothing to ask. */
static void test_exhausts(void **state)
{
    (void)state;
    struct tune_space space = {.dimensions = 2,
                               .objectives = 1,
                               .weight = {1},
                               .dimension = {{3, 1, true}, {4, 0, false}}};
    struct tune_search *s = tune_search_new(&space, 1);
    bool seen[3][4] = {{false}};
    unsigned asked = 0;
    uint8_t level[TUNE_DIMENSIONS];
    while (tune_search_ask(s, 0.5, level)) {
        assert_true(++asked < 100);
        double value = 1 + level[0] + level[1];
        seen[level[0]][level[1]] = true;
        tune_search_tell(s, level, &value);
    }
    assert_int_equal(tune_search_points(s), 12);
    for (unsigned i = 0; i < 12; i++)
        assert_true(seen[i / 4][i % 4] == (i != 4)); /* 4 is the usual point */
    tune_search_free(s);
}

/* One lucky run does not make a winner: it must show it again. */
static void test_races(void **state)
{
    (void)state;
    struct tune_space space = eight(1);
    struct tune_search *s = tune_search_new(&space, 5);
    uint8_t first[TUNE_DIMENSIONS], level[TUNE_DIMENSIONS];
    assert_true(tune_search_ask(s, 0, first));
    tune_search_tell(s, first, &(double){0.5});
    for (unsigned i = 0; i < 2; i++) {
        assert_true(tune_search_ask(s, 0, level));
        assert_memory_equal(level, first, space.dimensions);
        tune_search_tell(s, level, &(double){1.1});
    }
    assert_true(tune_search_ask(s, 0, level));
    assert_memory_not_equal(level, first, space.dimensions);
    assert_ptr_equal(tune_search_best(s, 0, 0.01), tune_search_usual(s));
    tune_search_free(s);
}

static void test_forest(void **state)
{
    (void)state;
    struct tune_space space = eight(1);
    uint64_t random = 1;
    static uint8_t level[200][TUNE_DIMENSIONS];
    struct forest_sample x[200];
    for (unsigned i = 0; i < 200; i++) {
        for (unsigned d = 0; d < 8; d++)
            level[i][d] = (uint8_t)tune_random_below(&random, space.dimension[d].levels);
        x[i] =
            (struct forest_sample){level[i], (level[i][1] < 4 ? 1 : 3) + (level[i][6] ? 0.5 : 0)};
    }
    struct forest *f = forest_new(&space, x, 200, &random);
    assert_non_null(f);
    for (unsigned v = 0; v < 10; v++)
        for (unsigned k = 0; k < 2; k++) {
            double mean, variance;
            uint8_t at[TUNE_DIMENSIONS] = {2, (uint8_t)v, 5, 1, 1, 1, (uint8_t)k, 0};
            forest_predict(f, at, &mean, &variance);
            assert_true(fabs(mean - ((v < 4 ? 1 : 3) + (k ? 0.5 : 0))) < 0.1);
            assert_true(variance >= 0 && variance < 0.1);
        }
    forest_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds_good_ones),
        cmocka_unit_test(test_front),
        cmocka_unit_test(test_same_seed_same_questions),
        cmocka_unit_test(test_front_is_a_front),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_exhausts),
        cmocka_unit_test(test_races),
        cmocka_unit_test(test_forest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
