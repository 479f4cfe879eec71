/* What the spool does with a file that it cannot read: for now, or ever. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "push/spool.h"

static char directory[] = "spool-XXXXXX";

static void add(struct spool *s, const char *text)
{
    struct error err = {0};
    assert_int_equal(spool_add(s, strdup(text), strlen(text), &err), 0);
}

static void check_first(struct spool *s, const char *wanted)
{
    struct error err = {0};
    char *letter;
    uint64_t number;
    size_t size;
    assert_int_equal(spool_first(s, &letter, &number, &size, &err), 0);
    assert_non_null(letter);
    assert_int_equal(size, strlen(wanted));
    assert_memory_equal(letter, wanted, size);
    free(letter);
    spool_remove(s, number);
}

static void open_spool(struct spool *s)
{
    struct error err = {0};
    assert_int_equal(spool_open(s, directory, "test", 1 << 20, &err), 0);
}

static void test_no_descriptor(void **state)
{
    (void)state;
    struct spool s;
    struct error err = {0};
    struct rlimit all, none;
    char *letter;
    uint64_t number;
    size_t size;
    open_spool(&s);
    add(&s, "one");
    add(&s, "two");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &all), 0);
    none = (struct rlimit){0, all.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int status = spool_first(&s, &letter, &number, &size, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &all), 0);
    assert_int_equal(status, -1);
    assert_null(letter);
    assert_int_equal(err.number, EMFILE);
    assert_int_equal(s.damaged, 0);
    assert_int_equal(spool_stored(&s), 2);
    check_first(&s, "one");
    check_first(&s, "two");
    spool_close(&s);
}

static void test_gone(void **state)
{
    (void)state;
    struct spool s;
    char name[64];
    open_spool(&s);
    add(&s, "one");
    add(&s, "two");
    snprintf(name, sizeof name, "%s/%020d.test", directory, 1);
    assert_int_equal(unlink(name), 0);
    check_first(&s, "two");
    assert_int_equal(s.damaged, 1);
    spool_close(&s);
}

/* Permissions count for root, too. */
static void drop_capabilities(void)
{
    struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct none[2] = {{0}};
    assert_int_equal(syscall(SYS_capset, &head, none), 0);
}

static void test_not_permitted(void **state)
{
    (void)state;
    struct spool s;
    struct error err = {0};
    char name[64], *letter;
    uint64_t number;
    size_t size;
    open_spool(&s);
    add(&s, "one");
    add(&s, "two");
    add(&s, "three");
    snprintf(name, sizeof name, "%s/%020d.test", directory, 1);
    assert_int_equal(chmod(name, 0), 0);
    /* the others go first, and the reason is given each time */
    check_first(&s, "two");
    assert_int_equal(spool_first(&s, &letter, &number, &size, &err), 0);
    assert_int_equal(err.number, EACCES);
    assert_memory_equal(letter, "three", size);
    free(letter);
    spool_remove(&s, number);
    assert_int_equal(spool_first(&s, &letter, &number, &size, &err), -1);
    assert_null(letter);
    assert_int_equal(err.number, EACCES);
    assert_int_equal(s.damaged + s.dropped, 0);
    assert_int_equal(chmod(name, 0600), 0);
    check_first(&s, "one");
    assert_int_equal(spool_first(&s, &letter, &number, &size, &err), 0);
    assert_null(letter);
    assert_int_equal(err.kind, ERROR_NONE);
    spool_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor),
        cmocka_unit_test(test_gone),
        cmocka_unit_test(test_not_permitted),
    };
    if (!mkdtemp(directory))
        return 1;
    drop_capabilities();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    return rmdir(directory) ? 1 : failed;
}
