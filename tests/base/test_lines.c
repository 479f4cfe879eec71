/* What is written is what was put, whoever writes it, and a failure is seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/lines.h"

enum { LINES = 400000 };

/* More than all buffers hold, in pieces of every size. */
static void put_all(struct lines *l)
{
    static char long_text[3 * LINES_BYTES + 5];
    memset(long_text, 'x', sizeof long_text);
    for (uint64_t i = 0; i < LINES; i++) {
        lines_number(l, i, i % 20);
        lines_char(l, ' ');
        lines_hex(l, i * i);
        lines_put(l, " of ");
        char *p = lines_room(l, 100);
        memset(p, '-', i % 100);
        lines_end(l, p + i % 100);
        lines_digits(l, i);
        lines_char(l, '\n');
        if (i % 100000 == 77)
            lines_bytes(l, long_text, sizeof long_text - i % 7);
    }
}

static char *expected(size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    assert_non_null(f);
    for (uint64_t i = 0; i < LINES; i++) {
        fprintf(f, "%*" PRIu64 " 0x%" PRIx64 " of ", (int)(i % 20), i, i * i);
        for (uint64_t k = 0; k < i % 100; k++)
            fputc('-', f);
        fprintf(f, "%" PRIx64 "\n", i);
        if (i % 100000 == 77)
            for (uint64_t k = 0; k < 3 * LINES_BYTES + 5 - i % 7; k++)
                fputc('x', f);
    }
    fclose(f);
    return text;
}

static void test_same(void **state)
{
    (void)state;
    size_t n, want_bytes;
    char *want = expected(&want_bytes);
    for (unsigned threads = 0; threads < 5; threads++) {
        char *text = NULL;
        FILE *f = open_memstream(&text, &n);
        struct lines l;
        assert_int_equal(lines_open(&l, f, threads), 0);
        put_all(&l);
        assert_false(lines_failed(&l));
        lines_close(&l);
        assert_false(lines_failed(&l));
        lines_close(&l);
        fclose(f);
        assert_int_equal(n, want_bytes);
        assert_memory_equal(text, want, n);
        free(text);
    }
    free(want);
}

static void test_little(void **state)
{
    (void)state;
    for (unsigned threads = 0; threads < 4; threads++) {
        char *text = NULL;
        size_t n;
        FILE *f = open_memstream(&text, &n);
        struct lines l;
        assert_int_equal(lines_open(&l, f, threads), 0);
        lines_put(&l, "little");
        lines_close(&l);
        fclose(f);
        assert_int_equal(n, 6);
        assert_memory_equal(text, "little", 6);
        free(text);
    }
    struct lines never = {0};
    lines_close(&never);
}

static void test_full_disk(void **state)
{
    (void)state;
    for (unsigned threads = 1; threads < 4; threads += 2) {
        FILE *f = fopen("/dev/full", "w");
        assert_non_null(f);
        struct lines l;
        assert_int_equal(lines_open(&l, f, threads), 0);
        put_all(&l);
        lines_close(&l);
        assert_true(lines_failed(&l));
        assert_int_equal(errno, ENOSPC);
        fclose(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same), cmocka_unit_test(test_little),
                                       cmocka_unit_test(test_full_disk)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
