/* Parts come in the order in which they were filled, never one that is being filled, and the thread
 * ends wherever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/ring.h"

#define PARTS 5u

struct work {
    uint64_t filled, last; /* the thread's: how many, and how many there are */
    uint64_t part[PARTS][64];
};

static int fill(void *arg, unsigned part)
{
    struct work *w = arg;
    for (unsigned i = 0; i < 64; i++)
        w->part[part][i] = w->filled * 64 + i;
    return ++w->filled < w->last;
}

static void read_so_many(uint64_t parts, uint64_t last)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->last = last;
    struct ring *r = ring_open(PARTS, fill, NULL, w);
    assert_non_null(r);
    for (uint64_t k = 0; k < parts; k++) {
        const unsigned part = ring_next(r);
        assert_in_range(part, 0, PARTS - 1);
        for (unsigned i = 0; i < 64; i++) {
            assert_int_equal(w->part[part][i], k * 64 + i);
            w->part[part][i] = UINT64_MAX; /* it is the caller's, to write as well */
        }
    }
    ring_close(r);
    assert_in_range(w->filled, parts, parts + PARTS);
    free(w);
}

static void test_all(void **state)
{
    (void)state;
    for (uint64_t n = 1; n < 4 * PARTS; n++)
        read_so_many(n, n);
    read_so_many(20000, 20000);
}

static void test_closed_early(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 4 * PARTS; n++)
        for (int i = 0; i < 20; i++)
            read_so_many(n, UINT64_MAX);
    ring_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all),
                                       cmocka_unit_test(test_closed_early)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
