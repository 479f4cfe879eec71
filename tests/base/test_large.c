/* Arrays that grow into large pages keep what is in them. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/large.h"

static void test_grows(void **state)
{
    (void)state;
    uint32_t *p = NULL;
    size_t n = 0;
    for (size_t more = 1; more <= (size_t)3 << 20; more = more * 2 + 1) { /* up to 12 MB */
        uint32_t *q = large_grow(p, n * sizeof *p, more * sizeof *p);
        assert_non_null(q);
        p = q;
        for (size_t i = 0; i < n; i++)
            assert_int_equal(p[i], i * 2654435761u & UINT32_MAX);
        for (size_t i = n; i < more; i++)
            p[i] = (uint32_t)(i * 2654435761u);
        n = more;
    }
    assert_null(large_grow(p, n * sizeof *p, SIZE_MAX - 4096));
    assert_int_equal(p[n - 1], (n - 1) * 2654435761u & UINT32_MAX);
    free(p);
}

static void test_room(void **state)
{
    (void)state;
    uint64_t *p = NULL;
    uint32_t room = 0;
    for (uint32_t i = 0; i < 1u << 20; i++) { /* to 8 MB, by doubling */
        assert_true(LARGE_ROOM(p, (size_t)i + 1, room));
        assert_true(room > i);
        p[i] = i;
    }
    for (uint32_t i = 0; i < 1u << 20; i++)
        assert_int_equal(p[i], i);
    assert_false(LARGE_ROOM(p, (size_t)UINT32_MAX + 1, room)); /* its room could not say so */
    assert_int_equal(p[room - 1], room - 1);
    free(p);
}

/* What was freed does not make the next ones lie among smaller blocks. */
static void test_apart(void **state)
{
    (void)state;
#ifdef __GLIBC__
    size_t used = mallinfo2().uordblks;
    void *volatile small = malloc(100000);     /* larger than what is kept in a cache */
    bool other = mallinfo2().uordblks == used; /* a sanitizer's malloc, for one */
    free(small);
    if (other)
        skip();
    for (size_t bytes = (size_t)4 << 20; bytes <= (size_t)32 << 20; bytes *= 2)
        free(large_grow(NULL, 0, bytes));
    size_t before = mallinfo2().hblks;
    void *p = large_grow(NULL, 0, (size_t)4 << 20);
    assert_int_equal(mallinfo2().hblks, before + 1);
    free(p);
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_grows), cmocka_unit_test(test_room),
                                       cmocka_unit_test(test_apart)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
