/* test_spill.c - arrays keep what is in them, in memory and in files, and the bound holds. */
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "heap/spill.h"
#include "trust/place.h"

#define MB ((size_t)1 << 20)

enum { ARRAYS = 12, WORDS = 1 << 20 }; /* 8 MB each */

static unsigned files;

static int open_file(struct error *err)
{
    files++;
    return trust_unnamed(err);
}

static int no_file(struct error *err)
{
    return error_set(err, ERROR_UNSUPPORTED, "there is no disk");
}

static void fill(uint64_t *p, size_t from, size_t to, uint64_t seed)
{
    for (size_t i = from; i < to; i++)
        p[i] = (i + seed) * 0x9e3779b97f4a7c15u;
}

static void check(const uint64_t *p, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (i + seed) * 0x9e3779b97f4a7c15u)
            fail_msg("word %zu of array %lu", i, (unsigned long)seed);
}

static size_t mappings(void)
{
    size_t n = 0;
    char line[4096];
    FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f))
        n++;
    fclose(f);
    return n;
}

static struct spill_use used(void)
{
    struct spill_use use;
    spill_used(&use);
    return use;
}

/* What does not fit lies in files, at the same addresses, and comes back whole. */
static void test_bound(void **state)
{
    (void)state;
    uint64_t *p[ARRAYS], *at[ARRAYS];
    spill_bound(40 * MB, open_file);
    for (size_t i = 0; i < ARRAYS; i++) {
        at[i] = p[i] = spill_zeros(WORDS, sizeof *p[i]);
        assert_non_null(p[i]);
        assert_int_equal(p[i][0] | p[i][WORDS - 1], 0);
        fill(p[i], 0, WORDS, i);
        assert_true(used().memory_bytes <= 40 * MB);
    }
    assert_int_equal(used().memory_bytes + used().file_bytes, ARRAYS * 8 * MB);
    assert_true(files >= ARRAYS - 5);
    for (size_t i = 0; i < ARRAYS; i++) {
        check(p[i], WORDS, i);
        assert_ptr_equal(p[i], at[i]);
    }
    /* They grow, wherever they are, and what is new is zeros. */
    for (size_t i = 0; i < ARRAYS; i++) {
        p[i] = spill_grow(p[i], WORDS * 8, (WORDS + WORDS / 2) * 8);
        assert_non_null(p[i]);
        assert_int_equal(p[i][WORDS], 0);
        assert_int_equal(p[i][WORDS + WORDS / 2 - 1], 0);
        fill(p[i], WORDS, WORDS + WORDS / 2, i);
        assert_true(used().memory_bytes <= 40 * MB);
    }
    for (size_t i = 0; i < ARRAYS; i++) {
        check(p[i], WORDS + WORDS / 2, i);
        p[i] = spill_grow(p[i], (WORDS + WORDS / 2) * 8, WORDS * 8);
        check(p[i], WORDS, i);
    }
    for (size_t i = 0; i < ARRAYS; i++)
        spill_free(p[i]);
    assert_int_equal(used().memory_bytes + used().file_bytes, 0);
    assert_true(used().most_file_bytes >= (ARRAYS * 12 - 40) * MB);
}

/* By doubling from nothing on, through malloc's memory into large arrays. */
static void test_room(void **state)
{
    (void)state;
    uint64_t *p = NULL, *q = NULL;
    uint32_t room = 0, other = 0;
    spill_bound(20 * MB, open_file);
    for (uint32_t i = 0; i < 4u << 20; i++) { /* to 32 MB */
        assert_true(SPILL_ROOM(p, (size_t)i + 1, room));
        p[i] = (i + (uint64_t)1) * 0x9e3779b97f4a7c15u;
        if (i % 8)
            continue;
        assert_true(SPILL_ROOM(q, (size_t)i / 8 + 1, other));
        q[i / 8] = (i / 8 + (uint64_t)2) * 0x9e3779b97f4a7c15u;
    }
    assert_true(used().memory_bytes <= 20 * MB && used().file_bytes >= 32 * MB);
    check(p, 4u << 20, 1);
    check(q, 4u << 17, 2);
    assert_false(SPILL_ROOM(p, (size_t)UINT32_MAX + 1, room)); /* its room could not say so */
    spill_free(p);
    spill_free(q);
}

/* The oldest one goes first, unless it is said to be needed. */
static void test_renew(void **state)
{
    (void)state;
    uint64_t *p[3];
    spill_bound(24 * MB, open_file);
    for (size_t i = 0; i < 3; i++)
        p[i] = spill_zeros(WORDS, sizeof *p[i]);
    spill_renew(p[0]);
    uint64_t *q = spill_zeros(WORDS, sizeof *q);
    assert_int_equal(used().file_bytes, 8 * MB);
    spill_free(p[0]);
    assert_int_equal(used().file_bytes, 8 * MB); /* it was not that one */
    spill_free(p[1]);
    assert_int_equal(used().file_bytes, 0);
    spill_free(p[2]);
    spill_free(q);
}

/* Without a disk there is no more than the bound, and nothing that there is gets lost. */
static void test_refused(void **state)
{
    (void)state;
    spill_bound(20 * MB, no_file);
    uint64_t *p = spill_zeros(WORDS, sizeof *p);
    fill(p, 0, WORDS, 7);
    assert_null(spill_zeros(2 * WORDS, sizeof *p));
    assert_int_equal(used().refused_bytes, 16 * MB);
    assert_string_equal(used().error.text, "there is no disk");
    assert_null(spill_grow(p, WORDS * 8, 3 * WORDS * 8));
    check(p, WORDS, 7);
    assert_null(spill_zeros(SIZE_MAX / 4, sizeof *p));
    spill_bound(UINT64_MAX, NULL);
    uint64_t *q = spill_zeros(2 * WORDS, sizeof *q);
    assert_non_null(q);
    spill_free(p);
    spill_free(q);
}

/* Memory that is given back is used again, and is zeros then. */
static void test_again(void **state)
{
    (void)state;
    const size_t before = mappings();
    spill_bound(UINT64_MAX, NULL);
    uint64_t *other = spill_zeros(WORDS, sizeof *other), *p = spill_zeros(WORDS, sizeof *p);
    fill(p, 0, WORDS, 3);
    spill_free(p);
    uint64_t *q = spill_zeros(WORDS - 4 * MB / 8, sizeof *q);
    assert_ptr_equal(q, p);
    for (size_t i = 0; i < WORDS - 4 * MB / 8; i++)
        assert_int_equal(q[i], 0);
    assert_int_equal(used().memory_bytes, 12 * MB);
    spill_free(q);
    spill_free(other);
    assert_int_equal(used().memory_bytes, 0);
    assert_int_equal(mappings(), before);
}

struct writing {
    uint64_t *array;
    _Atomic unsigned rounds, stop;
};

static void *write_on(void *arg)
{
    struct writing *w = arg;
    for (uint64_t round = 1; !w->stop; round++) {
        for (size_t i = 0; i < WORDS; i += 512)
            w->array[i] = round;
        w->rounds++;
    }
    return NULL;
}

/* While it is held, an array that another thread writes to goes nowhere. */
static void test_hold(void **state)
{
    (void)state;
    struct writing w = {.array = NULL};
    pthread_t thread;
    spill_bound(20 * MB, open_file);
    w.array = spill_zeros(WORDS, sizeof *w.array);
    spill_hold();
    assert_int_equal(pthread_create(&thread, NULL, write_on, &w), 0);
    uint64_t *p = NULL;
    size_t room = 0;
    for (size_t i = 0; i < 4u << 20; i++) {
        assert_true(SPILL_ROOM(p, i + 1, room));
        p[i] = (i + 9) * 0x9e3779b97f4a7c15u;
    }
    assert_int_equal(used().memory_bytes, 8 * MB); /* what grew went to a file itself */
    while (w.rounds < 2)
        ;
    w.stop = 1;
    pthread_join(thread, NULL);
    spill_release();
    for (size_t i = 0; i < WORDS; i += 512)
        assert_int_equal(w.array[i], w.array[0]);
    check(p, 4u << 20, 9);
    spill_free(p);
    spill_free(w.array);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_bound), cmocka_unit_test(test_room),
                                       cmocka_unit_test(test_renew), cmocka_unit_test(test_refused),
                                       cmocka_unit_test(test_again), cmocka_unit_test(test_hold)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
