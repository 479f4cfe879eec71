/* Names of programs and command lines as people read them: titles, empty arguments, links. */
#include "base/cmdline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct row {
    const char *exe, *text;
    size_t bytes;
    const char *name, *whole, *brief;
};
#define TEXT(t) t, sizeof t - 1

static const struct row rows[] = {
    {"/usr/bin/redis-check-rdb", TEXT("/usr/bin/redis-server\0--save\0\0"), "redis-server",
     "/usr/bin/redis-server --save ''", "redis-server --save ''"},
    {"/bin/p", TEXT("p\0\0x\0"), "p", "p '' x", "p '' x"},
    {"/bin/p", TEXT("p\0\0"), "p", "p ''", "p ''"},
    {"/usr/lib/postgresql/15/bin/postgres", TEXT("postgres: 15/ux: user db [local] SELECT\0"),
     "postgres", "postgres: 15/ux: user db [local] SELECT",
     "postgres: 15/ux: user db [local] SELECT"},
    {"/usr/sbin/sshd", TEXT("sshd: /usr/sbin/sshd -D [listener]\0\0\0\0"), "sshd",
     "sshd: /usr/sbin/sshd -D [listener]", "sshd: /usr/sbin/sshd -D [listener]"},
    {"/usr/lib/chromium/chromium", TEXT("/usr/lib/chromium/chromium --type=gpu --dir=/a/b\0\0\0"),
     "chromium", "/usr/lib/chromium/chromium --type=gpu --dir=/a/b",
     "chromium --type=gpu --dir=/a/b"},
    {"/opt/my app/prog", TEXT("/opt/my app/prog\0"), "prog", "/opt/my app/prog", "prog"},
    {"/opt/my app/prog", TEXT("/opt/my app/prog --x=/y\0\0"), "prog", "/opt/my app/prog --x=/y",
     "prog --x=/y"},
    {"/opt/my app/prog", TEXT("/opt/my app/prog\0y\0"), "prog", "/opt/my app/prog y", "prog y"},
    {"/bin/p", TEXT("worker\0\0\0\0\0"), "p", "worker", "worker"},
    {"/bin/p", TEXT("p\0a\0\0\0\0"), "p", "p a", "p a"},
    {"/bin/p", TEXT(""), "p", "", ""},
    {NULL, TEXT(""), "?", "", ""},
    {"", TEXT("a/b"), "b", "a/b", "b"},
};

static void test_same(void **state)
{
    static const struct {
        const char *now;
        size_t now_bytes;
        const char *command;
        size_t command_bytes;
        bool same;
    } all[] = {
        {TEXT("a\0b\0"), TEXT("a\0b\0"), true},     {TEXT("a\0b\0"), TEXT("a\0c\0"), false},
        {TEXT("a\0b"), TEXT("a\0bcd\0e\0"), true},  {TEXT("a\0\0"), TEXT("a\0\0"), true},
        {TEXT("a b\0\0"), TEXT("a\0b\0"), false},   {TEXT("a\0b\0c\0"), TEXT("a\0b\0"), false},
        {TEXT("ab\0b\0"), TEXT("abc\0b\0"), false}, {TEXT("a: idle\0"), TEXT("a\0"), false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char **now = cmdline_split(all[i].now, all[i].now_bytes);
        const char **command = cmdline_split(all[i].command, all[i].command_bytes);
        assert_int_equal(cmdline_is_same(now, command), all[i].same);
        free(now);
        free(command);
    }
}

static void test_rows(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct row *r = &rows[i];
        const char **command = cmdline_split(r->text, r->bytes);
        struct buffer whole = {0}, brief = {0};
        assert_non_null(command);
        cmdline_append(&whole, r->exe, command, false);
        cmdline_append(&brief, r->exe, command, true);
        assert_string_equal(cmdline_name(r->exe, command), r->name);
        assert_string_equal(buffer_text(&whole), r->whole);
        assert_string_equal(buffer_text(&brief), r->brief);
        buffer_release(&whole);
        buffer_release(&brief);
        free(command);
    }
}

static void test_renamed(void **state)
{
    (void)state;
    static const char *const script[] = {"/usr/bin/python3", "./app.py", NULL};
    static const char *const title[] = {"postgres: checkpointer", NULL};
    assert_false(cmdline_is_renamed("python3.11", "/usr/bin/python3.11", script));
    assert_false(cmdline_is_renamed("python3", "/usr/bin/python3.11", script));
    assert_false(cmdline_is_renamed("app.py", "/usr/bin/python3.11", script));
    assert_true(cmdline_is_renamed("worker", "/usr/bin/python3.11", script));
    assert_false(cmdline_is_renamed("a-program-of-lo", "/bin/a-program-of-long-name", NULL));
    assert_false(cmdline_is_renamed("", "/bin/p", NULL));
    assert_false(cmdline_is_renamed(NULL, "/bin/p", NULL));
    struct buffer b = {0};
    cmdline_append_now(&b, "/usr/bin/postgres", script, title, "writer", true);
    assert_string_equal(buffer_text(&b), "postgres: checkpointer (writer)");
    buffer_clear(&b);
    cmdline_append_now(&b, "/usr/bin/python3.11", script, NULL, "app.py", true);
    assert_string_equal(buffer_text(&b), "python3 ./app.py");
    buffer_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_same),
                                       cmocka_unit_test(test_renamed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
