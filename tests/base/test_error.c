/* Errors carry their cause, fit their room, and leave errno alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "base/error.h"

static void test_system(void **state)
{
    (void)state;
    struct error e;
    errno = ENOENT;
    assert_int_equal(error_system(&e, "cannot open %s", "x"), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(e.number, ENOENT);
    assert_string_equal(e.text, "cannot open x: No such file or directory");
    error_prefix(&e, "reading %d", 7);
    assert_string_equal(e.text, "reading 7: cannot open x: No such file or directory");
    assert_int_equal(e.kind, ERROR_SYSTEM);
}

static void test_memory(void **state)
{
    (void)state;
    struct error e = {.number = 7};
    assert_int_equal(error_memory(&e), -1);
    assert_int_equal(e.kind, ERROR_MEMORY);
    assert_int_equal(e.number, 0);
    assert_string_equal(e.text, "out of memory");
    assert_int_equal(error_memory_for(&e, "%d threads of %s", 3, "x"), -1);
    assert_string_equal(e.text, "out of memory: 3 threads of x");
}

static void test_long_texts_are_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    struct error e;
    error_set(&e, ERROR_FORMAT, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    error_prefix(&e, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
    errno = EIO;
    error_system(&e, "%s", text);
    assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_system),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_long_texts_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
