/* A variable without a name is found by how it begins, when there is one such place and no more;
 * and so are glibc's parameters, where its debug symbols say that it is true. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <string.h>

#include "glibc/versions.h"
#include "symbol/functions.h"

uint64_t single[3] = {0x7261766573656e6full, 7, 0};
uint64_t twins[6] = {0x7477696e7477696eull, 9, 1, 0x7477696e7477696eull, 9, 2};

static uint64_t named(const char *path, const char *name)
{
    struct functions f = {0};
    struct error err;
    assert_int_equal(functions_read(path, FUNCTIONS_LOCAL | FUNCTIONS_DATA, &f, &err), 0);
    const struct function *at = functions_find(&f, name);
    const uint64_t address = at ? at->address : 0;
    functions_release(&f);
    return address;
}

static void test_of_this_program(void **state)
{
    (void)state;
    static const char self[] = "/proc/self/exe";
    const uint64_t one[2] = {single[0], 7}, two[2] = {twins[0], 9}, third[3] = {twins[0], 9, 2},
                   none[2] = {single[0], 8};
    assert_int_not_equal(named(self, "single"), 0);
    assert_int_equal(functions_variable(self, one, sizeof one), named(self, "single"));
    assert_int_equal(functions_variable(self, two, sizeof two), 0);
    assert_int_equal(functions_variable(self, third, sizeof third), named(self, "twins") + 24);
    assert_int_equal(functions_variable(self, none, sizeof none), 0);
    assert_int_equal(functions_variable("/dev/null", one, sizeof one), 0);
}

static void test_of_glibc(void **state)
{
    (void)state;
    static const uint64_t usual[] = GLIBC_PARAMETERS;
    Dl_info libc;
    assert_true(dladdr(dlsym(RTLD_DEFAULT, "gnu_get_libc_version"), &libc));
    const uint64_t found = functions_variable(libc.dli_fname, usual, sizeof usual);
    const uint64_t truth = named(libc.dli_fname, "mp_");
    assert_int_not_equal(found, 0);
    if (!truth)
        skip(); /* no libc6-dbg */
    assert_int_equal(found, truth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_this_program),
                                       cmocka_unit_test(test_of_glibc)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
