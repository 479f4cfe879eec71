/* Whatever the bytes, what is shown holds nothing that a terminal obeys, and is the same when it is
 * shown again. The judge is another decoder than the one under test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/error.h"
#include "base/text.h"

static uint64_t rng = 88172645463325252ull;
static uint64_t draw(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    return rng ^= rng << 17;
}

/* By the C library's decoder, which knows nothing of ours. */
static void check_harmless(const char *text, bool lines)
{
    mbstate_t state = {0};
    const char *s = text;
    while (*s) {
        wchar_t c;
        const size_t n = mbrtowc(&c, s, MB_CUR_MAX, &state);
        assert_true(n != (size_t)-1 && n != (size_t)-2 && n != 0);
        const uint32_t code = (uint32_t)c;
        assert_false(code < 0x20 && !(lines && code == '\n'));
        assert_false(code >= 0x7f && code < 0xa0);
        assert_false(code == 0x61c || code == 0x200e || code == 0x200f);
        assert_false((code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069));
        s += n;
    }
}

/* Random bytes, and pieces of what does harm, cut anywhere. */
static void make(char *to, size_t room)
{
    static const char *const pieces[] = {"\033[2J",
                                         ("\302\233"
                                          "31m"),
                                         "\342\200\256",
                                         "\342\201\246",
                                         "\342\200\250",
                                         "\r\n",
                                         "\303\251",
                                         "\360\237\230\200",
                                         "\355\240\200",
                                         "\300\200",
                                         "\364\220\200\200",
                                         "\330\234"};
    size_t at = 0, n = draw() % room;
    while (at < n) {
        const char *piece = pieces[draw() % (sizeof pieces / sizeof *pieces)];
        const size_t length = draw() % 2 ? strlen(piece) : draw() % strlen(piece);
        if (draw() % 3 && at + length < n) {
            memcpy(to + at, piece, length);
            at += length;
        } else {
            to[at++] = (char)(1 + draw() % 255);
        }
    }
    to[at] = 0;
}

static void test_any_bytes(void **state)
{
    (void)state;
    char text[300], quoted[2000];
    for (unsigned round = 0; round < 10000; round++) {
        struct buffer once = {0}, twice = {0};
        struct error err;
        make(text, sizeof text);
        text_append(&once, text);
        check_harmless(buffer_text(&once), false);
        text_append(&twice, buffer_text(&once));
        assert_string_equal(buffer_text(&once), buffer_text(&twice));
        assert_int_equal(text_columns(text), text_columns(buffer_text(&once)));
        error_set(&err, ERROR_FORMAT, "%s is bad, %.20s, %c", text, text, text[0]);
        check_harmless(err.text, false);
        size_t n = 0;
        for (const char *s = text; *s;) {
            struct text_shown c;
            s += text_shown_json(s, &c);
            memcpy(quoted + n, c.text, c.bytes);
            n += c.bytes;
        }
        quoted[n] = 0;
        check_harmless(quoted, false);
        buffer_release(&once);
        buffer_release(&twice);
    }
}

static void test_serialized_json(void **state)
{
    (void)state;
    char text[200], *out;
    size_t bytes;
    for (unsigned round = 0; round < 2000; round++) {
        make(text, sizeof text);
        FILE *f = open_memstream(&out, &bytes);
        text_put_json(f, text);
        fclose(f);
        check_harmless(out, true);
        assert_int_equal(out[bytes - 1], '\n');
        free(out);
    }
}

static char *print(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *print(const char *format, ...)
{
    static char text[512];
    va_list ap;
    va_start(ap, format);
    text_format(text, sizeof text, format, ap);
    va_end(ap);
    return text;
}

static void test_formats_as_printf(void **state)
{
    (void)state;
    char expected[512];
#define SAME(...)                                                                                  \
    do {                                                                                           \
        snprintf(expected, sizeof expected, __VA_ARGS__);                                          \
        assert_string_equal(print(__VA_ARGS__), expected);                                         \
    } while (0)
    SAME("%d %5d|%-5d|%05d|%+d|% d", 42, -42, 42, 42, 42, 42);
    SAME("%u %lu %llu %zu %zd", 1u, ~0ul, ~0ull, (size_t)7, (ssize_t)-7);
    SAME("%x %X %#llx %08x %lo", 255u, 255u, 0xffffffffffull, 0xbeefu, 8ul);
    SAME("%hhu %hd %jd %td", (unsigned char)200, (short)-3, (intmax_t)-9, (ptrdiff_t)5);
    SAME("%.2f %6.1f%% %+6.1f %e %g %.0f", 1.25, 99.95, -3.0, 12345.678, 0.1, 1e300);
    SAME("%s|%10s|%-10s|%.3s|%*s|%-*s|%.*s", "abc", "abc", "abc", "abcdef", 6, "x", 6, "y", 2,
         "xyz");
    SAME("%c%c%%%p", 'a', 'b', (void *)state);
    SAME("%*d|%-*d|%.*f|%*s", 6, 1, 6, 2, 3, 1.0, -4, "z");
    assert_string_equal(print("%s", "a\tb\nc\033d\377"), "a\\tb\\nc\\x1bd\\xff");
    assert_string_equal(print("\033[1m%s\n", "\302\233\342\200\256"), "\033[1m\\u009b\\u202e\n");
    assert_string_equal(print("%6s|%-6s|", "\303\251", "\033"), "     \303\251|\\x1b  |");
    assert_string_equal(print("%.3s|", "ab\303\251"), "ab|"); /* no half of a character */
    assert_string_equal(print("%.4s|", "ab\303\251"), "ab\303\251|");
}

static void test_is_cut_between_characters(void **state)
{
    (void)state;
    struct error err;
    char text[2000];
    for (size_t shift = 0; shift < 8; shift++) {
        memset(text, 'a', shift);
        for (size_t i = shift; i + 5 < sizeof text; i += 3)
            memcpy(text + i, "\342\202\254", 4);
        error_set(&err, ERROR_FORMAT, "%s", text);
        check_harmless(err.text, false);
        assert_true(strlen(err.text) > sizeof err.text - 6);
        error_prefix(&err, "%s\033", text);
        check_harmless(err.text, false);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_bytes),
        cmocka_unit_test(test_serialized_json),
        cmocka_unit_test(test_formats_as_printf),
        cmocka_unit_test(test_is_cut_between_characters),
    };
    if (!setlocale(LC_ALL, "C.UTF-8"))
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
