/* Parts are emptied in the order in which they were given, each once, and the last before the end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/drain.h"

#define PARTS 3u

struct work {
    uint64_t taken; /* the thread's */
    bool wrong;
    uint64_t part[PARTS][64];
};

static void take(void *arg, unsigned part)
{
    struct work *w = arg;
    for (unsigned i = 0; i < 64; i++) {
        w->wrong |= w->part[part][i] != w->taken * 64 + i;
        w->part[part][i] = UINT64_MAX;
    }
    w->taken++;
}

static void give_so_many(uint64_t n)
{
    struct work *w = calloc(1, sizeof *w);
    assert_non_null(w);
    struct drain *d = drain_open(PARTS, take, w);
    assert_non_null(d);
    for (uint64_t k = 0; k < n; k++) {
        const unsigned part = drain_next(d);
        assert_int_equal(part, k % PARTS);
        for (unsigned i = 0; i < 64; i++)
            w->part[part][i] = k * 64 + i;
    }
    drain_close(d);
    assert_int_equal(w->taken, n);
    assert_false(w->wrong);
    free(w);
}

static void test_all(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        for (uint64_t n = 0; n < 4 * PARTS; n++)
            give_so_many(n);
    give_so_many(50000);
    drain_close(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
