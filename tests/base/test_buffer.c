/* The growing buffer: what goes in comes out, and running out of memory is sticky and harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "base/buffer.h"

static void test_empty(void **state)
{
    (void)state;
    struct buffer b = {0};
    assert_string_equal(buffer_text(&b), "");
    buffer_append(&b, NULL, 0);
    assert_string_equal(buffer_text(&b), "");
    assert_int_equal(b.size_bytes, 0);
    buffer_release(&b);
}

static void test_pieces(void **state)
{
    (void)state;
    struct buffer b = {0};
    for (int i = 0; i < 1000; i++) {
        buffer_printf(&b, "%04d", i);
        buffer_append_char(&b, ',');
    }
    assert_int_equal(b.size_bytes, 5000);
    assert_int_equal(strlen(buffer_text(&b)), 5000);
    assert_memory_equal(buffer_text(&b) + 5 * 999, "0999,", 6);
    buffer_clear(&b);
    buffer_append_text(&b, "again");
    assert_string_equal(buffer_text(&b), "again");
    buffer_append(&b, "\0x", 2);
    assert_int_equal(b.size_bytes, 7);
    buffer_release(&b);
    assert_null(b.data);
}

static void test_failure_is_sticky(void **state)
{
    (void)state;
    struct buffer b = {0};
    buffer_append_text(&b, "kept");
    buffer_append(&b, "x", SIZE_MAX / 2);
    assert_true(buffer_failed(&b));
    buffer_append_text(&b, "dropped");
    assert_string_equal(buffer_text(&b), "");
    buffer_clear(&b);
    assert_false(buffer_failed(&b));
    buffer_append_text(&b, "usable");
    assert_string_equal(buffer_text(&b), "usable");
    buffer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_failure_is_sticky),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
