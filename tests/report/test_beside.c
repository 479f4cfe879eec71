/* test_beside.c - reports are the same, byte for byte, whatever the number of threads that work at
 * them, also where one becomes free while a recording is read. For ThreadSanitizer as well.
 *   test_beside FILE... */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "page/page.h"
#include "report/report.h"

typedef int write_report(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                         const struct report_options *options, struct error *err);

struct document {
    char *text;
    size_t bytes;
};

static const char *const *files;

static struct document made(const char *path, write_report *report, unsigned threads)
{
    const struct trace_open_options how = {
        .no_seal_in_place = true, .index = TRACE_INDEX_NONE, .threads = threads};
    const struct symbol_options names = {.no_debuginfod = true};
    const struct report_options options = {.columns = 100, .select.pid = 0};
    struct document d = {NULL, 0};
    struct error err;
    struct trace *t = trace_open(path, &how, &err);
    struct symbols *symbols = symbols_new(&names, &err);
    FILE *out = open_memstream(&d.text, &d.bytes);
    assert_non_null(t);
    assert_non_null(symbols);
    assert_non_null(out);
    assert_int_equal(report(out, path, t, symbols, &options, &err), 0);
    assert_int_equal(fclose(out), 0);
    symbols_free(symbols);
    trace_close(t);
    return d;
}

static void check(write_report *report, size_t least_bytes)
{
    /* 2 again: a thread may be late elsewhere; 0: as many as the recording is worth */
    static const unsigned threads[] = {2, 3, 8, 2, 0};
    for (size_t i = 0; files[i]; i++) {
        struct document one = made(files[i], report, 1);
        assert_true(one.bytes > least_bytes);
        for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
            struct document many = made(files[i], report, threads[k]);
            assert_int_equal(many.bytes, one.bytes);
            assert_memory_equal(many.text, one.text, one.bytes);
            free(many.text);
        }
        free(one.text);
    }
}

static void test_text(void **state)
{
    (void)state;
    check(report_text, 500);
}

static void test_json(void **state)
{
    (void)state;
    check(report_json, 2000);
}

static void test_page(void **state)
{
    (void)state;
    check(report_html, 50000);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_text), cmocka_unit_test(test_json),
                                       cmocka_unit_test(test_page)};
    if (argc < 2)
        return 2;
    files = (const char *const *)argv + 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
