/* test_mapped.c - the set of mappings against a plain array of pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/mapped.h"

#define PAGES  400u
#define STACKS 9u

static uint64_t seed = 1;
static uint32_t roll(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

/* The figures of a stack; all zero when it mapped nothing. */
static struct mapped_stack of_stack(const struct mapped *m, uint32_t stack)
{
    size_t n;
    const struct mapped_stack *stacks = mapped_stacks(m, &n);
    struct mapped_stack found = {.stack = stack};
    for (size_t i = 0; i < n; i++)
        if (stacks[i].stack == stack)
            found = stacks[i];
    return found;
}

static void as_an_array_of_pages(void **unused)
{
    (void)unused;
    for (unsigned round = 0; round < 60; round++) {
        struct mapped *m = NULL;
        uint8_t page[PAGES] = {0}; /* stack + 1 */
        struct mapped_stack truth[STACKS + 1];
        uint64_t peak = 0, peak_time = 0;
        memset(truth, 0, sizeof truth);
        for (unsigned step = 0; step < 400; step++) {
            uint32_t from = roll(PAGES), n = 1 + roll(roll(4) ? 12 : PAGES),
                     stack = roll(STACKS + 1);
            unsigned what = roll(10);
            uint64_t cut = 0, all = 0;
            n = from + n > PAGES ? PAGES - from : n;
            for (uint32_t i = from; i < from + n; i++) {
                cut += page[i] != 0;
                page[i] = what < 5 ? (uint8_t)(stack + 1) : 0;
            }
            if (what < 6) {
                assert_true(mapped_add(&m, STACKS, from * 4096, n * 4096, stack, what == 5, step));
                truth[stack].calls += what < 5;
                truth[stack].bytes += what < 5 ? n * 4096 : 0;
            } else {
                assert_int_equal(mapped_cut(m, from * 4096, n * 4096), cut * 4096);
            }
            for (uint32_t i = 0; i <= STACKS; i++)
                truth[i].live_bytes = 0;
            for (uint32_t i = 0; i < PAGES; i++)
                if (page[i]) {
                    truth[page[i] - 1].live_bytes += 4096;
                    all += 4096;
                }
            assert_int_equal(mapped_live_bytes(m), all);
            if (all > peak) {
                peak = all;
                peak_time = step;
                for (uint32_t i = 0; i <= STACKS; i++)
                    truth[i].peak_bytes = truth[i].live_bytes;
            }
            for (uint32_t i = 0; i <= STACKS; i++)
                assert_int_equal(of_stack(m, i).live_bytes, truth[i].live_bytes);
        }
        mapped_finish(m);
        assert_int_equal(mapped_peak_bytes(m), peak);
        assert_int_equal(mapped_peak_time_ns(m), peak_time);
        size_t n;
        const struct mapped_stack *stacks = mapped_stacks(m, &n);
        for (size_t i = 1; i < n; i++)
            assert_true(stacks[i - 1].stack < stacks[i].stack);
        for (uint32_t i = 0; i <= STACKS; i++) {
            const struct mapped_stack found = of_stack(m, i);
            assert_int_equal(found.calls, truth[i].calls);
            assert_int_equal(found.bytes, truth[i].bytes);
            assert_int_equal(found.live_bytes, truth[i].live_bytes);
            assert_int_equal(found.peak_bytes, truth[i].peak_bytes);
        }
        mapped_free(m);
    }
}

/* What a damaged file may hold. */
static void senseless_sizes(void **unused)
{
    (void)unused;
    struct mapped *m = NULL;
    assert_true(mapped_add(&m, 1, UINT64_MAX - 4096, 8192, 1, false, 0)); /* ignored */
    assert_null(m);
    assert_true(mapped_add(&m, 1, 4096, UINT64_MAX - 8192, 7, false, 0)); /* no such stack */
    assert_int_equal(of_stack(m, 0).calls, 1);
    assert_int_equal(mapped_cut(m, 8192, UINT64_MAX), UINT64_MAX - 8192 - 4096);
    assert_int_equal(mapped_live_bytes(m), 4096);
    assert_int_equal(mapped_cut(NULL, 0, 1), 0);
    mapped_free(m);
}

static void many_mappings(void **unused)
{
    (void)unused;
    struct mapped *m = NULL;
    for (uint64_t i = 0; i < 200000; i++)
        assert_true(mapped_add(&m, 1, (i * 7919 % 200000) * 8192, 4096, 1, false, i));
    assert_int_equal(mapped_live_bytes(m), 200000u * 4096u);
    assert_int_equal(mapped_cut(m, 0, UINT64_MAX), 200000u * 4096u);
    mapped_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_an_array_of_pages),
        cmocka_unit_test(senseless_sizes),
        cmocka_unit_test(many_mappings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
