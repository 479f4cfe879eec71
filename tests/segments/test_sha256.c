/* Both ways of SHA-256 against the examples of FIPS 180-4, and against each other at every length
 * around the ends of blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../src/push/sha256.c"

static void check(const char *data, const char *wanted)
{
    uint8_t sum[SHA256_BYTES];
    char text[SHA256_TEXT];
    sha256(data, strlen(data), sum);
    sha256_text(sum, text);
    assert_string_equal(text, wanted);
}

static void test_examples(void **state)
{
    (void)state;
    check("", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

static void test_the_portable_way(void **state)
{
    (void)state;
    uint32_t one[8] = {1, 2, 3, 4, 5, 6, 7, 8}, other[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    uint8_t data[8 * BLOCK];
    if (!arch_sha256_is_there()) {
        print_message("this processor has no instructions for SHA-256\n");
        return;
    }
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (uint8_t)(i * 31 + i / 7);
    for (size_t blocks = 0; blocks <= 8; blocks++) {
        take_blocks(one, data, blocks);
        arch_sha256(other, data, blocks, constants);
        assert_memory_equal(one, other, sizeof one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_examples),
        cmocka_unit_test(test_the_portable_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
