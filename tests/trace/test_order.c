/* test_order.c - clocks of two processors that disagree by a little: what the addresses say about
 * the order of two threads' calls counts for more. Each recording is made by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "every.h"
#include "gen.h"
#include "trace/sealed/sealed.h"
#include "trace/trace.h"

#define PID 4200000u

static char path[64];
static struct gen g;
static struct gen_stream a, b; /* two threads */

static void begin(void)
{
    strcpy(path, "/tmp/mallow-test-order-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    gen_open(&g, fdopen(fd, "wb"), 1000, 500);
    gen_process(&g, 7, PID, 0, 1000, 500);
    gen_stream_begin(&a, 7, PID, PID, 0, 1000);
    gen_stream_begin(&b, 7, PID, PID + 1, 1, 1000);
}

/* Two ticks of this clock are a nanosecond. */
static void call(struct gen_stream *s, unsigned op, uint64_t clock, uint64_t address, uint64_t size)
{
    g.clock = clock > g.clock ? clock : g.clock;
    gen_call(&g, s, op, clock, address, size, 0, UINT64_MAX, 0, 0);
}

static struct trace *finish(void)
{
    struct error err;
    gen_flush(&g, &a, 0);
    gen_flush(&g, &b, 0);
    gen_end(&g, 7, PID, g.clock + 64, MLW_END_EXIT, 0);
    uint64_t end = (g.clock + 100000000) & ~(uint64_t)1;
    gen_pair(&g, end, end / 2);
    fclose(g.f);
    struct trace *t = trace_open(path, NULL, &err);
    assert_non_null(t);
    return t;
}

/* Reads everything, and checks the kinds and threads, and that time never goes back. */
static void expect(const char *kinds, const char *threads)
{
    static const char letter[] = {
        [TRACE_ALLOC] = 'A',        [TRACE_FREE] = 'F',          [TRACE_FREE_TEMP] = 'T',
        [TRACE_FREE_UNKNOWN] = 'U', [TRACE_FREE_INFERRED] = 'I', [TRACE_OTHER] = 'O'};
    struct trace *t = finish();
    struct trace_batch batch;
    struct error err;
    char k[64] = "", w[64] = "";
    size_t n = 0;
    uint64_t last = 0;
    struct every all = {.trace = t};
    while (every_next(&all, &batch, &err) > 0)
        for (size_t i = 0; i < batch.n; i++, n++) {
            assert_true(n < sizeof k - 1);
            k[n] = letter[batch.kind[i]];
            w[n] = (char)('a' + batch.thread[i]);
            assert_true(batch.time_ns[i] >= last);
            last = batch.time_ns[i];
        }
    every_rewind(&all);
    assert_string_equal(k, kinds);
    assert_string_equal(w, threads);
    assert_true(trace_info(t)->images[0].complete);
    trace_close(t);
    unlink(path);
}

static void a_free_stamped_before_its_malloc(void **unused)
{
    (void)unused;
    begin();
    call(&b, MLW_OP_FREE, 4900, 0x1000, 0);
    call(&b, MLW_OP_MALLOC, 4950, 0x3000, 5);
    call(&a, MLW_OP_MALLOC, 4910, 0x2000, 20);
    call(&a, MLW_OP_MALLOC, 5000, 0x1000, 10);
    call(&a, MLW_OP_FREE, 9000, 0x3000, 0);
    expect("AAFAF", "aabba");
}

static void a_malloc_stamped_before_the_free_of_its_address(void **unused)
{
    (void)unused;
    begin();
    call(&a, MLW_OP_MALLOC, 2000, 0x1000, 10);
    call(&b, MLW_OP_MALLOC, 8000, 0x1000, 12);
    call(&b, MLW_OP_MALLOC, 8010, 0x2000, 12);
    call(&a, MLW_OP_FREE, 8100, 0x1000, 0);
    call(&a, MLW_OP_FREE, 9000, 0x1000, 0);
    expect("ATAAF", "aabba");
}

static void a_realloc_moves_whole(void **unused)
{
    (void)unused;
    begin();
    call(&b, MLW_OP_REALLOC_OLD, 4900, 0x1000, 0);
    call(&b, MLW_OP_REALLOC, 4980, 0x5000, 50);
    call(&a, MLW_OP_MALLOC, 5000, 0x1000, 10);
    expect("AFA", "abb");
}

static void what_is_far_is_not_moved(void **unused)
{
    (void)unused;
    begin();
    call(&b, MLW_OP_FREE, 4900, 0x1000, 0);
    call(&a, MLW_OP_MALLOC, 4900 + 2 * 5000, 0x1000, 10); /* 5 us */
    expect("UA", "ba");
}

static void one_thread_keeps_its_order(void **unused)
{
    (void)unused;
    begin();
    call(&a, MLW_OP_FREE, 4900, 0x1000, 0);
    call(&a, MLW_OP_MALLOC, 5000, 0x1000, 10);
    call(&b, MLW_OP_MALLOC, 5100, 0x2000, 10);
    call(&b, MLW_OP_MALLOC, 5200, 0x2000, 10);
    expect("UAAIA", "aabbb");
}

/* Two that wait for each other: not possible in a program, but in a damaged file. */
static void a_circle_ends(void **unused)
{
    (void)unused;
    begin();
    call(&a, MLW_OP_FREE, 4900, 0x1000, 0);
    call(&a, MLW_OP_MALLOC, 4910, 0x2000, 10);
    call(&b, MLW_OP_FREE, 4905, 0x2000, 0);
    call(&b, MLW_OP_MALLOC, 4915, 0x1000, 10);
    struct trace *t = finish();
    assert_int_equal(trace_info(t)->images[0].calls, 4);
    trace_close(t);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_free_stamped_before_its_malloc),
        cmocka_unit_test(a_malloc_stamped_before_the_free_of_its_address),
        cmocka_unit_test(a_realloc_moves_whole),
        cmocka_unit_test(what_is_far_is_not_moved),
        cmocka_unit_test(one_thread_keeps_its_order),
        cmocka_unit_test(a_circle_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
