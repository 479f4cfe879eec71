/* test_tcache.c - what a thread's cache keeps by version and tunables, as glibc's own malloc does:
 * frees of one size, counted. The figures are those of the versions' sources, and of their loaders.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analyse/tcache.h"

enum { FREES = 200, NONE = -1 };

/* How many of FREES freed chunks for `usable` bytes the cache holds; NONE: nothing is said of it.
 */
static int held(const char *allocator, const char *tunables, uint64_t usable)
{
    const char *environment[] = {
        "A=GLIBC_TUNABLES=glibc.malloc.tcache_count=3:glibc.malloc.tcache_count=3", tunables, NULL};
    struct trace_thread thread = {0};
    const struct trace_image image = {
        .allocator = allocator, .settings = environment, .threads = &thread, .thread_count = 1};
    bool failed;
    struct tcache *t = tcache_new(&image, &failed);
    assert_false(failed);
    if (!t)
        return NONE;
    for (uint64_t i = 1; i <= FREES; i++)
        assert_true(tcache_freed(t, 0, &(struct tcache_chunk){i << 12, usable, 1, 0}));
    const size_t n = tcache_count(t, 0);
    struct tcache_chunk list[FREES];
    tcache_list(t, 0, list);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(list[i].address, (i + 1) << 12);
    if (n) { /* the latest comes first, and nothing is lost */
        tcache_allocated(t, 0, MLW_OP_MALLOC, n << 12, usable);
        assert_int_equal(tcache_count(t, 0), n - 1);
    }
    tcache_free(t);
    return (int)n;
}

static const struct {
    const char *allocator, *tunables;
    uint64_t usable;
    int held;
} cases[] = {
    {"glibc 2.25", NULL, 24, NONE},
    {"glibc 2.26", NULL, 24, 7},
    {"glibc 2.36", NULL, 1032, 7},
    {"glibc 2.36", NULL, 1048, 0},
    {"glibc 2.41", NULL, 24, 7},
    {"glibc 2.42", NULL, 24, 7},
    {"glibc 2.43", NULL, 24, 16},
    {"glibc 2.43", NULL, 1048, 0},
    {"glibc 2.44", NULL, 24, NONE}, /* unknown */
    {"glibc 2.5", NULL, 24, NONE},
    {"glibc 3.0", NULL, 24, NONE},
    {"jemalloc", NULL, 24, NONE},
    {NULL, NULL, 24, NONE},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_count=0", 24, NONE},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_count=2", 24, 2},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_count=100", 24, 100},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_count=65536", 24, 7}, /* not taken */
    {"glibc 2.28", "GLIBC_TUNABLES=glibc.malloc.tcache_count=128", 24, 7},
    {"glibc 2.28", "GLIBC_TUNABLES=glibc.malloc.tcache_count=127", 24, 127},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_count=x", 24, 7},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.perturb=1:glibc.malloc.tcache_count=5", 24, 5},
    {"glibc 2.36", "glibc.malloc.tcache_count=5", 24, 5}, /* its environment was cut */
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_max=100", 104, 7},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_max=100", 120, 0},
    {"glibc 2.41", "GLIBC_TUNABLES=glibc.malloc.tcache_max=4096", 24, 7}, /* not taken */
    {"glibc 2.43", "GLIBC_TUNABLES=glibc.malloc.tcache_max=4096", 24, NONE},
};

static void test_versions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (held(cases[i].allocator, cases[i].tunables, cases[i].usable) != cases[i].held)
            fail_msg("%s with %s: %d chunks of %d bytes, not %d", cases[i].allocator,
                     cases[i].tunables,
                     held(cases[i].allocator, cases[i].tunables, cases[i].usable),
                     (int)cases[i].usable, cases[i].held);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_versions)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
