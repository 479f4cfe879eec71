/* test_pack.c - blocks of the page: what zlib makes of them is the text, however many threads pack
 * it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "page/draft.h"
#include "show/html_pack.h"

enum { PIECE = 256 << 10, LARGE = 16 << 20 };

/* Numbers, as most of a page is; or bytes that nothing makes smaller. */
static char *text_of(size_t n, bool numbers)
{
    char *text = malloc(n + 24);
    uint64_t seed = 88172645463325252u;
    assert_non_null(text);
    for (size_t i = 0; i < n;) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        if (numbers)
            i += (size_t)sprintf(text + i, "%u,", (unsigned)(seed % 5000));
        else
            text[i++] = (char)(seed >> 32);
    }
    return text;
}

static void check(size_t n, bool numbers)
{
    char *text = text_of(n, numbers);
    unsigned char *back = malloc(n + 1);
    uLongf back_bytes = n + 1;
    struct html_block one, many;
    struct error err;
    assert_non_null(back);
    assert_int_equal(html_block_pack(&one, text, n, 0, &err), 0);
    assert_int_equal(html_block_pack(&many, text, n, HTML_PACK_HELPERS, &err), 0);
    assert_int_equal(one.data_bytes, many.data_bytes);
    assert_memory_equal(one.data, many.data, one.data_bytes);
    assert_int_equal(uncompress(back, &back_bytes, one.data, one.data_bytes), Z_OK);
    assert_int_equal(back_bytes, n);
    assert_memory_equal(back, text, n);
    html_block_release(&one);
    html_block_release(&many);
    free(back);
    free(text);
}

static void test_back(void **state)
{
    (void)state;
    static const size_t bytes[] = {0, 1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 77};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        check(bytes[i], true);
        check(bytes[i], false);
    }
}

static size_t guess_of(const char *text, size_t n, size_t at_once, bool beside)
{
    struct html_draft draft;
    struct error err;
    assert_int_equal(html_draft_open(&draft, beside, &err), 0);
    for (size_t i = 0; i < n; i += at_once)
        fwrite(text + i, 1, n - i < at_once ? n - i : at_once, draft.out);
    assert_int_equal(html_draft_close(&draft, &err), 0);
    assert_int_equal(draft.bytes, n);
    assert_memory_equal(draft.text, text, n);
    const size_t guess = draft.guess_bytes;
    html_draft_release(&draft);
    return guess;
}

/* The page relies on it. The size of the writes and the thread make no difference. */
static void test_guess(void **state)
{
    (void)state;
    char *text = text_of(LARGE, true);
    struct html_block block;
    struct error err;
    assert_int_equal(guess_of(text, LARGE / 4, 1000, true), 0);
    const size_t guess = guess_of(text, LARGE, 1000, true);
    assert_int_equal(guess_of(text, LARGE, 777777, true), guess);
    assert_int_equal(guess_of(text, LARGE, LARGE, false), guess);
    assert_int_equal(html_block_pack(&block, text, LARGE, 3, &err), 0);
    assert_in_range(guess, block.page_bytes - block.page_bytes / 10,
                    block.page_bytes + block.page_bytes / 10);
    html_block_release(&block);
    free(text);
}

/* Released before it is closed, while the thread works, and once more. */
static void test_dropped(void **state)
{
    (void)state;
    char *text = text_of(LARGE, true);
    struct html_draft draft;
    struct error err;
    assert_int_equal(html_draft_open(&draft, true, &err), 0);
    fwrite(text, 1, LARGE, draft.out);
    html_draft_release(&draft);
    html_draft_release(&draft);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_back), cmocka_unit_test(test_guess),
                                       cmocka_unit_test(test_dropped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
