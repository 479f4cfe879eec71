/* The last part of a path. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/path.h"

static void test_base_name(void **state)
{
    static const char *const known[][2] = {{"/usr/bin/perl", "perl"},
                                           {"perl", "perl"},
                                           {"a/b", "b"},
                                           {"a/", "a/"},
                                           {"/", "/"},
                                           {"", ""}};
    (void)state;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_string_equal(path_base_name(known[i][0]), known[i][1]);
    assert_null(path_base_name(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_base_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
