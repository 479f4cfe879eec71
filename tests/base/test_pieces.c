/* Pieces come in order whatever thread did them, none is done twice or in a place that is in use,
 * and the threads end wherever they are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/pieces.h"

#define PLACES 4u

struct work {
    uint64_t done;           /* atomic: pieces */
    uint64_t in_use[PLACES]; /* atomic: somebody works there */
    uint64_t clashes;        /* atomic */
    uint64_t part[PLACES][64];
};

static void work(void *arg, uint64_t number, unsigned place)
{
    struct work *w = arg;
    if (__atomic_exchange_n(&w->in_use[place], 1, __ATOMIC_ACQ_REL))
        __atomic_add_fetch(&w->clashes, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < 64; i++)
        w->part[place][i] = number * 64 + i;
    __atomic_add_fetch(&w->done, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&w->in_use[place], 0, __ATOMIC_RELEASE);
}

static void read_so_many(uint64_t pieces, uint64_t count, unsigned places, unsigned helpers)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    struct pieces *p = pieces_open(places, helpers, count, work, w);
    assert_non_null(p);
    for (uint64_t k = 0; k < pieces; k++) {
        const unsigned place = pieces_next(p);
        assert_in_range(place, 0, places - 1);
        for (unsigned i = 0; i < 64; i++) {
            assert_int_equal(w->part[place][i], k * 64 + i);
            w->part[place][i] = UINT64_MAX; /* it is the caller's, to write as well */
        }
        if (k % 3 == 0)
            pieces_help(p);
    }
    pieces_close(p);
    assert_in_range(w->done, pieces, pieces + places);
    assert_int_equal(w->clashes, 0);
    free(w);
}

static void test_all(void **state)
{
    (void)state;
    for (unsigned helpers = 0; helpers < 4; helpers++) {
        for (uint64_t n = 1; n < 4 * PLACES; n++)
            for (unsigned places = 1; places <= PLACES; places++)
                read_so_many(n, n, places, helpers);
        read_so_many(5000, 5000, PLACES, helpers);
    }
}

static void test_closed_early(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 4 * PLACES; n++)
        for (unsigned helpers = 0; helpers < 4; helpers++)
            read_so_many(n, UINT64_MAX, PLACES, helpers);
    pieces_close(NULL);
}

/* Nothing is left to help with when all places hold what nobody has taken, or all is done. */
static void test_help(void **state)
{
    (void)state;
    struct work w = {0};
    struct pieces *p = pieces_open(2, 0, 3, work, &w);
    assert_non_null(p);
    assert_true(pieces_help(p));
    assert_true(pieces_help(p));
    assert_false(pieces_help(p));
    assert_int_equal(pieces_next(p), 0);
    assert_false(pieces_help(p)); /* that place is still the caller's */
    assert_int_equal(pieces_next(p), 1);
    assert_true(pieces_help(p));
    assert_false(pieces_help(p));
    assert_int_equal(pieces_next(p), 0);
    assert_int_equal(w.done, 3);
    pieces_close(p);
}

static void *help_all(void *arg)
{
    while (pieces_help(arg))
        ;
    return NULL;
}

/* Another thread than the taker's helps while pieces are taken. */
static void test_helped(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 50; round++) {
        struct work w = {0};
        pthread_t other;
        struct pieces *p = pieces_open(PLACES, 0, 100, work, &w);
        assert_non_null(p);
        assert_int_equal(pthread_create(&other, NULL, help_all, p), 0);
        for (uint64_t k = 0; k < 100; k++)
            assert_int_equal(w.part[pieces_next(p)][63], k * 64 + 63);
        pthread_join(other, NULL);
        pieces_close(p);
        assert_int_equal(w.done, 100);
        assert_int_equal(w.clashes, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
                                       cmocka_unit_test(test_closed_early),
                                       cmocka_unit_test(test_help), cmocka_unit_test(test_helped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
