/* Arrays that grow by doubling: every size, rooms of narrow types, more than fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "base/array.h"

static void test_grows(void **state)
{
    uint64_t *numbers = NULL;
    size_t n = 0, room = 0, moved = 0, last = 0;
    (void)state;
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t *new = ARRAY_ADD(numbers, n, room);
        assert_non_null(new);
        assert_int_equal(*new, 0);
        *new = i;
        assert_true(n <= room);
        moved += room != last;
        last = room;
    }
    for (uint64_t i = 0; i < n; i++)
        assert_int_equal(numbers[i], i);
    assert_int_equal(n, 100000);
    assert_true(moved < 20); /* it doubles */
    free(numbers);
}

static void test_room_for_many(void **state)
{
    char *bytes = NULL;
    uint32_t room = 0;
    (void)state;
    assert_true(ARRAY_ROOM(bytes, 0, room)); /* none needed, and there is an array all the same */
    assert_non_null(bytes);
    assert_true(ARRAY_ROOM(bytes, 1000, room));
    assert_true(room >= 1000);
    char *before = bytes;
    const uint32_t had = room;
    assert_true(ARRAY_ROOM(bytes, room, room));
    assert_ptr_equal(bytes, before);
    assert_int_equal(room, had);
    free(bytes);
}

static void test_narrow_rooms(void **state)
{
    char *bytes = NULL;
    uint8_t room = 0, n = 0;
    (void)state;
    for (unsigned i = 0; i < 255; i++)
        assert_non_null(ARRAY_ADD(bytes, n, room));
    assert_int_equal(room, 255);
    assert_false(ARRAY_ROOM(bytes, 256, room)); /* its room could not say so */
    assert_int_equal(room, 255);
    bytes[254] = 1;
    free(bytes);
}

static void test_more_than_fits(void **state)
{
    struct {
        char bytes[4096];
    } *pages = NULL;
    size_t room = 0;
    (void)state;
    assert_true(ARRAY_ROOM(pages, 1, room));
    void *before = pages;
    const size_t had = room;
    assert_false(ARRAY_ROOM(pages, SIZE_MAX / 4096, room));
    assert_false(ARRAY_ROOM(pages, SIZE_MAX / 8, room));
    assert_ptr_equal(pages, before);
    assert_int_equal(room, had);
    free(pages);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows),
        cmocka_unit_test(test_room_for_many),
        cmocka_unit_test(test_narrow_rooms),
        cmocka_unit_test(test_more_than_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
