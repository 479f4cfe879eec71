/* test_resident.c - which split stands for the peak: the one whose live bytes are like the peak's,
 * not the one that happened to be taken nearest to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

#include "analyse/resident.h"

#define BLOCKS 100u

/* A hundred blocks of 1,000 bytes, one a microsecond from 1,000 ns on; they are released at 120,000
 * ns, but for one. Returns when the split was taken that is chosen. */
static uint64_t chosen(const uint64_t *split_ns, uint32_t splits)
{
    struct mlw_split split[4] = {0};
    struct trace_thread thread = {0};
    struct trace_event_note notes[1];
    struct trace_image image = {.pid = 1,
                                .max_slots = BLOCKS,
                                .stacks = 1,
                                .event_notes = notes,
                                .thread_count = 1,
                                .threads = &thread,
                                .end_ns = 400000,
                                .splits = split,
                                .split_count = splits};
    uint8_t kind[2 * BLOCKS], op[2 * BLOCKS], path[2 * BLOCKS] = {0};
    uint32_t slot[2 * BLOCKS], of_thread[2 * BLOCKS] = {0}, stack[2 * BLOCKS] = {0};
    uint64_t size[2 * BLOCKS], usable[2 * BLOCKS], time_ns[2 * BLOCKS];
    for (uint32_t i = 0; i < splits; i++)
        split[i].clock = split_ns[i];
    size_t n = 0;
    for (; n < 2 * BLOCKS - 1; n++) {
        bool made = n < BLOCKS;
        kind[n] = made ? TRACE_ALLOC : TRACE_FREE;
        op[n] = made ? MLW_OP_MALLOC : MLW_OP_FREE;
        slot[n] = (uint32_t)(n % BLOCKS);
        size[n] = 1000;
        usable[n] = made ? 1000 : 0;
        time_ns[n] = made ? 1000 * (n + 1) : 120000;
    }
    const struct trace_batch batch = {.n = n,
                                      .kind = kind,
                                      .op = op,
                                      .slot = slot,
                                      .thread = of_thread,
                                      .size = size,
                                      .stack = stack,
                                      .time_ns = time_ns,
                                      .usable = usable,
                                      .path = path};
    const struct model_filter all = {0};
    struct resident_view view;
    struct error err = {0};
    struct model *m = model_new(&image, &all, &err);
    assert_non_null(m);
    if (model_add(m, &batch, &err))
        fail_msg("%s", err.text);
    assert_int_equal(model_finish(m, &err), 0);
    assert_int_equal(model_totals(m)->peak_bytes, BLOCKS * 1000);
    assert_int_equal(model_totals(m)->peak_time_ns, BLOCKS * 1000);
    resident_at_peak(m, &view);
    assert_true(view.known);
    model_free(m);
    return view.time_ns;
}
#define CHOSEN(...)                                                                                \
    chosen((const uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

static void test_what_is_live_decides(void **state)
{
    (void)state;
    assert_int_equal(CHOSEN(50500), 50500);          /* there is no other */
    assert_int_equal(CHOSEN(50500, 119500), 119500); /* all is live yet */
    assert_int_equal(CHOSEN(70500, 120500), 70500);  /* all but one is gone */
}

static void test_of_like_ones_the_nearest_in_time(void **state)
{
    (void)state;
    assert_int_equal(CHOSEN(97500, 110500), 97500);
    assert_int_equal(CHOSEN(96500, 98500, 110500), 98500);
    assert_int_equal(CHOSEN(90500, 110500), 110500); /* a tenth less is not like it */
    assert_int_equal(CHOSEN(90500, 92500, 120500, 300500), 92500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_live_decides),
                                       cmocka_unit_test(test_of_like_ones_the_nearest_in_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
