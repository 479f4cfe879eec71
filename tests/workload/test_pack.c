/* Packed workloads: unpacked to the byte, cut off, damaged, and larger than allowed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "workload/pack.h"

enum { BYTES = 1 << 20 };

static uint8_t plain[BYTES], packed[2 * BYTES], back[BYTES];
static size_t packed_bytes;

static int prepare(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (size_t i = 0; i < BYTES; i++) {
        x = x * 1664525 + 1013904223;
        plain[i] = (uint8_t)(x >> 29); /* packs to less than half */
    }
    packed_bytes = ZSTD_compress(packed, sizeof packed, plain, BYTES, 3);
    return ZSTD_isError(packed_bytes) ? -1 : 0;
}

/* Unpacks n bytes; what came out is in `back`. */
static int unpack(const uint8_t *data, size_t n, uint64_t most, struct error *err)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    int failed = workload_unpack(data, n, fd, most, err);
    memset(back, 0, sizeof back);
    if (pread(fd, back, sizeof back, 0) < 0)
        fail();
    close(fd);
    return failed;
}

static void test_to_the_byte(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(unpack(packed, packed_bytes, BYTES, &err), 0);
    assert_memory_equal(back, plain, BYTES);
}

/* What is packed here is what zstd unpacks; a file without a byte, too. */
static void test_packs(void **state)
{
    (void)state;
    for (size_t n = BYTES;; n = 0) {
        struct error err = {0};
        int fd = memfd_create("test", MFD_CLOEXEC);
        char *text = NULL;
        size_t text_bytes = 0;
        FILE *out = open_memstream(&text, &text_bytes);
        assert_true(fd >= 0 && out);
        assert_int_equal(write(fd, plain, n), (ssize_t)n);
        assert_int_equal(workload_pack(fd, out, &err), 0);
        fclose(out);
        close(fd);
        memset(back, 0, sizeof back);
        assert_int_equal(ZSTD_decompress(back, sizeof back, text, text_bytes), n);
        assert_memory_equal(back, plain, n);
        assert_true(n == 0 || text_bytes < n / 2);
        free(text);
        if (!n)
            return;
    }
}

static void test_cut_off(void **state)
{
    (void)state;
    for (size_t n = 4; n < packed_bytes; n += packed_bytes / 37) {
        struct error err = {0};
        assert_int_equal(unpack(packed, n, BYTES, &err), -1);
        assert_non_null(strstr(err.text, "cut off"));
    }
}

static void test_too_large(void **state)
{
    (void)state;
    struct error err = {0};
    assert_int_equal(unpack(packed, packed_bytes, BYTES - 1, &err), -1);
    assert_int_equal(err.kind, ERROR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "zstd -d"));
}

/* Whatever the damage, an answer: an error, or (no checksum is in it) other bytes, never more. */
static void test_damaged(void **state)
{
    (void)state;
    static uint8_t copy[2 * BYTES];
    unsigned refused = 0;
    uint32_t x = 7;
    for (unsigned i = 0; i < 200; i++) {
        memcpy(copy, packed, packed_bytes);
        for (unsigned k = 0; k < 1 + i % 5; k++) {
            x = x * 1664525 + 1013904223;
            copy[4 + (x >> 8) % (packed_bytes - 4)] ^= (uint8_t)(1 + (x & 0x7f));
        }
        struct error err = {0};
        int failed = unpack(copy, packed_bytes, BYTES, &err);
        assert_true(!failed || err.text[0]);
        refused += failed != 0;
    }
    assert_in_range(refused, 20, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_to_the_byte), cmocka_unit_test(test_packs),
        cmocka_unit_test(test_cut_off),     cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_damaged),
    };
    return cmocka_run_group_tests(tests, prepare, NULL);
}
