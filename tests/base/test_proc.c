/* The parsers of /proc, on this process and on texts that a hostile name makes hard to read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/proc.h"

static void test_a_line_of_maps(void **state)
{
    struct proc_mapping m;
    char file[] =
        "7f00deadb000-7f00deadc000 r-xp 0001a000 fe:01 12345                      /a b/c d\n";
    char heap[] =
        "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]\n";
    char none[] = "7f0000000000-7f0000001000 ---s 00000000 00:00 0 \n";
    (void)state;
    assert_true(proc_mapping_parse(file, &m));
    assert_int_equal(m.start, 0x7f00deadb000);
    assert_int_equal(m.end, 0x7f00deadc000);
    assert_int_equal(m.offset, 0x1a000);
    assert_int_equal(m.device, makedev(0xfe, 1));
    assert_int_equal(m.inode, 12345);
    assert_string_equal(m.mode, "r-xp");
    assert_string_equal(m.path, "/a b/c d");
    assert_true(proc_mapping_parse(heap, &m));
    assert_string_equal(m.path, "[heap]");
    assert_true(proc_mapping_parse(none, &m));
    assert_string_equal(m.path, "");
    assert_string_equal(m.mode, "---s");
}

static void test_what_is_no_line_of_maps(void **state)
{
    static const char *const lines[] = {"",
                                        "-",
                                        "7f00-",
                                        "x-y r-xp 0 0:0 0",
                                        "10-20 r-x 0 0:0 0",
                                        "10-20 r-xp 0 0:0",
                                        "10-20 r-xp 0 0-0 0",
                                        "10-20 r-xp 0 0:0 zz",
                                        "10 20 r-xp 0 0:0 0",
                                        "10-20 r-xp -1 0:0 0"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct proc_mapping m;
        char line[64];
        snprintf(line, sizeof line, "%s", lines[i]);
        assert_false(proc_mapping_parse(line, &m));
    }
}

static void test_own_mappings(void **state)
{
    struct proc_maps maps;
    struct proc_mapping m;
    struct stat st;
    bool code = false, stack = false;
    uint64_t last = 0;
    (void)state;
    assert_int_equal(stat("/proc/self/exe", &st), 0);
    assert_true(proc_maps_open(&maps, 0));
    while (proc_maps_next(&maps, &m)) {
        assert_true(m.start >= last && m.end > m.start);
        last = m.end;
        const uint64_t here = (uint64_t)(uintptr_t)test_own_mappings,
                       there = (uint64_t)(uintptr_t)&m;
        if (here >= m.start && here < m.end)
            code = m.mode[2] == 'x' && m.inode == st.st_ino;
        if (there >= m.start && there < m.end)
            stack = !strcmp(m.path, "[stack]");
    }
    assert_int_equal(errno, 0);
    proc_maps_close(&maps);
    assert_true(code && stack);
    assert_false(proc_maps_open(&maps, 0x7fffffff));
    proc_maps_close(&maps);
}

static void test_stat(void **state)
{
    struct proc_stat s;
    char text[512];
    (void)state;
    /* The name may look like the rest. */
    prctl(PR_SET_NAME, ") Z 1 2 (");
    assert_true(proc_stat(0, &s));
    prctl(PR_SET_NAME, "test_proc");
    assert_int_equal(s.state, 'R');
    assert_int_equal(s.ppid, getppid());
    assert_true(s.start_ticks > 0);
    size_t n = (size_t)snprintf(text, sizeof text,
                                "7 (a) Z 3 4 5 6 7 8 9 10 11 12 101 102 16 17 18 19 20 21 2200");
    for (int field = 23; field < 52; field++)
        n += (size_t)snprintf(text + n, sizeof text - n, " %d", field);
    snprintf(text + n, sizeof text - n, " 139\n");
    assert_true(proc_stat_parse(text, &s));
    assert_int_equal(s.state, 'Z');
    assert_int_equal(s.ppid, 3);
    assert_int_equal(s.user_ticks, 101);
    assert_int_equal(s.system_ticks, 102);
    assert_int_equal(s.start_ticks, 2200);
    assert_int_equal(s.exit_code, 139);
    assert_false(proc_stat_parse("", &s));
    assert_false(proc_stat_parse("7 (a)", &s));
    assert_false(proc_stat_parse("7 (a) R 1 2", &s));
    assert_false(proc_stat(0x7fffffff, &s));
}

static void test_status(void **state)
{
    static const char text[] =
        "Name:\tPid:\nPid:\t12\nUid:\t1\t2\t3\t4\nNSpid:\t12\t1\nVmSwap:\t   20 kB\nEnd:\n";
    unsigned long n[8];
    (void)state;
    assert_int_equal(proc_status_numbers(text, "Uid:", n, 8), 4);
    assert_int_equal(n[3], 4);
    assert_int_equal(proc_status_numbers(text, "Uid:", n, 2), 2);
    assert_int_equal(proc_status_numbers(text, "Pid:", n, 8), 1);
    assert_int_equal(n[0], 12);
    assert_int_equal(proc_status_numbers(text, "NSpid:", n, 8), 2);
    assert_int_equal(proc_status_numbers(text, "VmSwap:", n, 8), 1);
    assert_int_equal(n[0], 20);
    assert_int_equal(proc_status_numbers(text, "End:", n, 8), 0);
    assert_int_equal(proc_status_numbers(text, "Gid:", n, 8), 0);
    assert_null(proc_status_field(text, "Gid:"));
    assert_memory_equal(proc_status_field(text, "Name:"), "Pid:", 4);
}

static void test_environ(void **state)
{
    char value[64], tiny[4];
    extern char **environ;
    (void)state;
    const char *first = environ[0], *equals = first ? strchr(first, '=') : NULL;
    assert_non_null(equals);
    char name[128];
    snprintf(name, sizeof name, "%.*s", (int)(equals - first), first);
    if (strlen(equals + 1) < sizeof value) {
        assert_true(proc_environ(0, name, value, sizeof value));
        assert_string_equal(value, equals + 1);
    }
    if (strlen(equals + 1) >= sizeof tiny)
        assert_false(proc_environ(0, name, tiny, sizeof tiny));
    assert_false(proc_environ(0, "NO_SUCH_VARIABLE_IS_HERE", value, sizeof value));
    assert_false(proc_environ(0x7fffffff, "PATH", value, sizeof value));
}

static void test_reading(void **state)
{
    char text[64], one[2];
    (void)state;
    prctl(PR_SET_NAME, "test_proc");
    assert_int_equal(proc_read(0, "comm", text, sizeof text), 10);
    assert_string_equal(text, "test_proc\n");
    assert_int_equal(proc_read(0, "comm", one, sizeof one), 1);
    assert_string_equal(one, "t");
    assert_int_equal(proc_read(0x7fffffff, "comm", text, sizeof text), -1);
    assert_int_equal(errno, ENOENT);
    assert_string_equal(text, "");
    assert_true(proc_link(0, "exe", text, sizeof text) > 0);
    assert_int_equal(text[0], '/');
    assert_int_equal(proc_link(0, "nothing", text, sizeof text), -1);
    assert_string_equal(text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_line_of_maps), cmocka_unit_test(test_what_is_no_line_of_maps),
        cmocka_unit_test(test_own_mappings),   cmocka_unit_test(test_stat),
        cmocka_unit_test(test_status),         cmocka_unit_test(test_environ),
        cmocka_unit_test(test_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
