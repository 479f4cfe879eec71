/* What the C library's printf says of the same numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digits.h"

static uint64_t rng = 88172645463325252ull;
static uint64_t draw(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

/* Numbers of every length, those at the borders of lengths among them. */
static uint64_t number(unsigned i)
{
    static const uint64_t borders[] = {0, 9, 10, 99, 100, 99999999, 100000000, 100000001};
    if (i < 8)
        return borders[i];
    if (i < 28) {
        uint64_t ten = 1;
        for (unsigned k = 8; k < i; k++)
            ten *= 10;
        return ten;
    }
    if (i < 48) {
        uint64_t ten = 1;
        for (unsigned k = 28; k < i; k++)
            ten *= 10;
        return ten - 1;
    }
    return i == 48 ? UINT64_MAX : draw() >> draw() % 64;
}

static void same(char *end, char *begin, const char *expected)
{
    assert_true(end - begin <= (ptrdiff_t)DIGITS_ROOM);
    *end = 0;
    assert_string_equal(begin, expected);
}

static void test_numbers(void **state)
{
    (void)state;
    char text[2 * DIGITS_ROOM], expected[64];
    for (unsigned i = 0; i < 2000000; i++) {
        const uint64_t v = number(i);
        snprintf(expected, sizeof expected, "%" PRIu64, v);
        same(digits_put(text, v), text, expected);
        snprintf(expected, sizeof expected, "%" PRIx64, v);
        same(digits_hex(text, v), text, expected);
        snprintf(expected, sizeof expected, "%" PRIx32, (uint32_t)v);
        same(digits_hex_short(text, (uint32_t)v), text, expected);
        const unsigned width = 1 + i % 8;
        snprintf(expected, sizeof expected, "%*" PRIu64, (int)width, v);
        same(digits_wide(text, v, width), text, expected);
        snprintf(expected, sizeof expected, "%09" PRIu64, v % 1000000000u);
        same(digits_nine(text, (uint32_t)(v % 1000000000u)), text, expected);
    }
}

static void test_near(void **state)
{
    (void)state;
    char text[2 * DIGITS_ROOM], expected[64];
    struct digits_near near = {0};
    uint64_t v = 0;
    for (unsigned i = 0; i < 1000000; i++) {
        /* on, mostly by little, and seldom anywhere */
        v = draw() % 1000 ? v + draw() % 100000 : draw() >> draw() % 64;
        snprintf(expected, sizeof expected, "%" PRIu64, v);
        same(digits_put_near(text, &near, v), text, expected);
    }
}

/* They write no further than they say. */
static void test_room(void **state)
{
    (void)state;
    char text[DIGITS_ROOM + 8];
    for (unsigned i = 0; i < 49; i++) {
        struct digits_near near = {0};
        for (unsigned form = 0; form < 4; form++) {
            memset(text, '!', sizeof text);
            if (form == 0)
                digits_put(text, number(i));
            else if (form == 1)
                digits_hex(text, number(i));
            else if (form == 2)
                digits_wide(text, number(i), 8);
            else
                digits_put_near(text, &near, number(i));
            assert_memory_equal(text + DIGITS_ROOM, "!!!!!!!!", 8);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_numbers), cmocka_unit_test(test_near),
                                       cmocka_unit_test(test_room)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
