/* A library that is loaded when it is wanted: its second name, what it lacks, and none at all. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <string.h>

#include "base/library.h"

struct functions {
    double (*floor)(double), (*none)(double);
};

static struct functions table;

static const struct library_symbol both[] = {{"floor", offsetof(struct functions, floor)},
                                             {"mallow_none", offsetof(struct functions, none)}};

static void test_second_name(void **state)
{
    static const char *const names[] = {"libmallow-none.so.1", "libm.so.6", NULL};
    struct library l = {
        .title = "libm", .names = names, .symbols = both, .symbol_count = 1, .table = &table};
    (void)state;
    assert_null(library_load(&l));
    assert_true(table.floor(2.5) == 2);
    assert_null(library_load(&l));
    assert_non_null(library_symbol(&l, "ceil"));
    assert_null(library_symbol(&l, "mallow_none"));
    assert_string_equal(l.why, "libm has no mallow_none");
}

static void test_lacks_a_function(void **state)
{
    static const char *const names[] = {"libm.so.6", NULL};
    struct library l = {.title = "libm",
                        .hint = "; version 9 is needed",
                        .names = names,
                        .symbols = both,
                        .symbol_count = 2,
                        .table = &table};
    (void)state;
    assert_string_equal(library_load(&l), "libm has no mallow_none; version 9 is needed");
    assert_string_equal(library_load(&l), "libm has no mallow_none; version 9 is needed");
}

static void test_is_not_there(void **state)
{
    static const char *const names[] = {"libmallow-none.so.1", "libmallow-none.so.0", NULL};
    struct library l = {.title = "libnone", .names = names};
    (void)state;
    assert_non_null(library_load(&l));
    assert_non_null(strstr(l.why, "libmallow-none.so.1:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_second_name),
                                       cmocka_unit_test(test_lacks_a_function),
                                       cmocka_unit_test(test_is_not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
