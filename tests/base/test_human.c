/* Sizes, durations and counts: what is accepted, what is refused, what is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"

struct parsed {
    const char *text;
    uint64_t value;
};

static void test_sizes(void **state)
{
    (void)state;
    static const struct parsed good[] = {
        {"0", 0},          {"4096", 4096},      {"1K", 1024},
        {"1k", 1024},      {"64KB", 65536},     {"64KiB", 65536},
        {"1.5M", 1572864}, {"2G", 2147483648u}, {"1T", 1ull << 40},
        {"16B", 16},       {"0.001K", 1},       {"18446744073709551615", UINT64_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t n = 12345;
        assert_true(human_parse_size(good[i].text, &n));
        assert_int_equal(n, good[i].value);
    }
    static const char *const bad[] = {"",
                                      "K",
                                      "-1",
                                      "+1",
                                      " 1",
                                      "1 ",
                                      "1.5",
                                      "1.K",
                                      ".5K",
                                      "1KK",
                                      "0x10",
                                      "1X",
                                      "1iB",
                                      "1e3",
                                      "1,0",
                                      "1K K",
                                      "18446744073709551616",
                                      "17179869184G",
                                      "99999999P"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t n = 12345;
        if (human_parse_size(bad[i], &n))
            fail_msg("'%s' was taken for a size", bad[i]);
        assert_int_equal(n, 12345);
    }
}

static void test_durations(void **state)
{
    (void)state;
    static const struct parsed good[] = {{"0", 0},
                                         {"2", 2000000000},
                                         {"10ms", 10000000},
                                         {"1.5s", 1500000000},
                                         {"2m", 120000000000},
                                         {"1h", 3600000000000},
                                         {"250us", 250000},
                                         {"80ns", 80},
                                         {"0.25", 250000000},
                                         {"1.0000000019s", 1000000001}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        uint64_t n = 12345;
        assert_true(human_parse_duration(good[i].text, &n));
        assert_int_equal(n, good[i].value);
    }
    static const char *const bad[] = {"", "ms", "-1s", "1 s", "1S", "1min", "1.s", "10000000000h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint64_t n = 12345;
        if (human_parse_duration(bad[i], &n))
            fail_msg("'%s' was taken for a duration", bad[i]);
    }
}

static void test_counts(void **state)
{
    (void)state;
    uint64_t n = 5;
    assert_true(human_parse_count("20", &n));
    assert_int_equal(n, 20);
    static const char *const bad[] = {"", "x", "1x", "1.5", "-3", "1K", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(human_parse_count(bad[i], &n));
}

static void test_printed(void **state)
{
    (void)state;
    char out[HUMAN_TEXT_BYTES];
    assert_string_equal(human_size(out, 0), "0 B");
    assert_string_equal(human_size(out, 999), "999 B");
    assert_string_equal(human_size(out, 1536), "1.5 KB");
    assert_string_equal(human_size(out, 12u << 20), "12.0 MB");
    assert_string_equal(human_size(out, UINT64_MAX), "16.0 EB");
    assert_string_equal(human_duration(out, 0), "0 ns");
    assert_string_equal(human_duration(out, 12300), "12.3 us");
    assert_string_equal(human_duration(out, 1500000000), "1.50 s");
    assert_string_equal(human_duration(out, 123000000000), "2m03s");
    assert_string_equal(human_duration(out, 3720000000000), "1h02m");
    assert_string_equal(human_count(out, 0), "0");
    assert_string_equal(human_count(out, 999), "999");
    assert_string_equal(human_count(out, 1000), "1,000");
    assert_string_equal(human_count(out, 1234567), "1,234,567");
    assert_string_equal(human_count(out, UINT64_MAX), "18,446,744,073,709,551,615");
}

/* Whatever the number, the text fits, and is never empty. */
static void test_every_magnitude_fits(void **state)
{
    (void)state;
    for (unsigned shift = 0; shift < 64; shift++)
        for (int off = -1; off <= 1; off++) {
            uint64_t n = (1ull << shift) + (uint64_t)(int64_t)off;
            char out[HUMAN_TEXT_BYTES];
            assert_in_range(strlen(human_size(out, n)), 3, HUMAN_TEXT_BYTES - 1);
            assert_in_range(strlen(human_duration(out, n)), 3, HUMAN_TEXT_BYTES - 1);
            assert_in_range(strlen(human_count(out, n)), 1, HUMAN_TEXT_BYTES - 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_counts),
        cmocka_unit_test(test_printed),
        cmocka_unit_test(test_every_magnitude_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
