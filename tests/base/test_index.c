/* test_index.c - an index finds what was added, whatever the hashes are, against a plain search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/index.h"

enum { COUNT = 20000 };

static uint32_t find(const struct index *x, const uint64_t *key, uint64_t hash, uint64_t wanted)
{
    uint32_t n;
    for (size_t at = INDEX_START; (n = index_next(x, hash, &at)) != INDEX_NONE;)
        if (key[n] == wanted)
            return n;
    return INDEX_NONE;
}

/* The same keys under hashes with `values` values: 1 makes a list of the index. */
static void finds(uint64_t values, uint32_t count)
{
    struct index x = {0};
    uint64_t *key = calloc(count, sizeof *key);
    assert_non_null(key);
    assert_int_equal(find(&x, key, 0, 0), INDEX_NONE); /* nothing was added */
    for (uint32_t i = 0; i < count; i++) {
        key[i] = (uint64_t)i * 7 + 3;
        assert_true(index_add(&x, key[i] % values << 32, i));
    }
    assert_int_equal(x.count, count);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(find(&x, key, key[i] % values << 32, key[i]), i);
        assert_int_equal(find(&x, key, (key[i] + 1) % values << 32, key[i] + 1), INDEX_NONE);
    }
    index_release(&x);
    assert_int_equal(x.room, 0);
    free(key);
}

/* Wherever the good bits of a hash are, they choose among the places of a small index, too. */
static void any_bits_choose(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift <= 56; shift++) {
        uint8_t seen[256] = {0};
        unsigned distinct = 0;
        for (uint64_t i = 0; i < 256; i++)
            distinct += !seen[index_fold(i << shift) & 255]++;
        assert_in_range(distinct, 100, 256); /* by chance: 162 */
    }
}

static void all_differ(void **state)
{
    (void)state;
    finds(UINT64_MAX >> 32, COUNT);
}

static void some_are_equal(void **state)
{
    (void)state;
    finds(97, COUNT / 8);
}

static void all_are_equal(void **state)
{
    (void)state;
    finds(1, 500);
}

/* Equal hashes come one after another, each once. */
static void each_once(void **state)
{
    (void)state;
    struct index x = {0};
    bool seen[100] = {0};
    for (uint32_t i = 0; i < 100; i++)
        assert_true(index_add(&x, i % 2, i));
    uint32_t n, count = 0;
    for (size_t at = INDEX_START; (n = index_next(&x, 1, &at)) != INDEX_NONE; count++) {
        assert_true(n % 2 == 1 && !seen[n]);
        seen[n] = true;
    }
    assert_int_equal(count, 50);
    assert_false(index_add(&x, 0, INDEX_NONE)); /* no number */
    index_release(&x);
}

/* Without memory it stays as it was. */
static void no_memory(void **state)
{
    (void)state;
    struct index x = {.room = SIZE_MAX / 2 + 1, .count = SIZE_MAX / 4 + 1};
    assert_false(index_add(&x, 1, 1));
    assert_int_equal(x.count, SIZE_MAX / 4 + 1);
    assert_null(x.entries);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_bits_choose), cmocka_unit_test(all_differ),
        cmocka_unit_test(some_are_equal),  cmocka_unit_test(all_are_equal),
        cmocka_unit_test(each_once),       cmocka_unit_test(no_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
