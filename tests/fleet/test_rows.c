/* The stored format: the columns of every table, word by word, and which figures of the analysis
 * are stored. A change here is a change of stores that people have: it needs a version. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "analyse/figures.h"
#include "fleet/rows.h"

#define FIGURES                                                                                    \
    "calls# allocated_bytes# peak_bytes# peak_blocks# end_bytes# end_blocks# temporary#"           \
    " byte_seconds#"
#define ESTIMATE "bytes low high blocks samples sampled_bytes"

/* A text has '$', a key of a label '=', a count that has a bound '#', a place '-'. */
static const char *const stored[STORE_TABLES] = {
    [STORE_LOCATION] = "location: id build_id$ module$ offset flags",
    [STORE_FRAME] = "frame: id json$",
    [STORE_SITE] = "site: id parent frame path call_site-",
    [STORE_CALLED] = "called: site frame",
    [STORE_STACK] = "stack: id parent location site named",
    [STORE_FIGURE] = "figure: process stack " FIGURES,
    [STORE_SLICE] = "slice: process start_ns width_ns last calls allocated_bytes live_bytes"
                    " peak_bytes",
    [STORE_BLOCK] = "block: process number stack size_bytes address thread freed_by allocated_ns"
                    " freed_ns temporary",
    [STORE_WATCHED_SITE] =
        "watched_site: report place site " ESTIMATE " oldest_ns allocated_bytes freed_bytes",
    [STORE_PROCESS] = "process: key content host$ service$ build_id$ exe$ allocator$ command$ pid"
                      " ppid start_ns end_ns complete events lost_events requested_bytes#"
                      " peak_time_ns stacks " FIGURES " slice_ns memory_limit_bytes"
                      " address_space_limit_bytes data_limit_bytes",
    [STORE_WATCHED] = "watched: key process host$ service$ exe$ command$ kind$ process_end$ pid"
                      " start_ns time_ns period dropped sites " ESTIMATE,
    [STORE_LABEL] = "label: process key= value$",
    [STORE_MODULE] = "module: build_id$ path$ process",
    [STORE_WATCHED_LABEL] = "watched_label: report key= value$"};

static void columns_are_those_of_stores(void **state)
{
    static const char marks[] = {[STORE_NUMBER] = 0,
                                 [STORE_COUNT] = '#',
                                 [STORE_PLACE] = '-',
                                 [STORE_TEXT] = '$',
                                 [STORE_KEY] = '='};
    (void)state;
    for (int t = 0; t < STORE_TABLES; t++) {
        const struct store_columns *c = &store_columns[t];
        char text[1024];
        int at = snprintf(text, sizeof text, "%s:", c->name);
        for (size_t i = 0; i < c->count; i++) {
            const char mark[2] = {marks[c->items[i].kind], 0};
            at += snprintf(text + at, sizeof text - (size_t)at, " %s%s", c->items[i].name, mark);
        }
        assert_string_equal(text, stored[t]);
    }
}

/* A figure that the analysis gets is stored, or is named here with the reason. */
static void figures_of_the_analysis_are_stored(void **state)
{
#define OF_ANALYSIS(member, of, key) {#member, key},
    static const char *const analysis[][2] = {SITE_FIGURES(OF_ANALYSIS)};
#define OF_STORE(member, key) {#member, key},
    static const char *const store[][2] = {STORE_FIGURE_LIST(OF_STORE)};
    const size_t count = sizeof analysis / sizeof *analysis;
    (void)state;
    assert_int_equal(count + 1, sizeof store / sizeof *store); /* byte_seconds is the store's own */
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(analysis[i][0], store[i][0]);
        assert_string_equal(analysis[i][1], store[i][1]);
    }
}

/* Each column reads its own member: a row whose members have different values gives them back. */
static void columns_read_their_members(void **state)
{
    const struct store_figure figure = {1, 2, {3, 4, 5, 6, 7, 8, 9, 10}};
    const struct store_watched_site site = {1, 2, 3, {4, 5, 6, 7, 8, 9}, 10, 11, 12};
    const struct store_label label = {1, {"key=value", "value", 3}};
    size_t bytes = 0;
    (void)state;
    for (size_t i = 0; i < store_columns[STORE_FIGURE].count; i++)
        assert_int_equal(store_number(&store_columns[STORE_FIGURE].items[i], &figure), i + 1);
    for (size_t i = 0; i < store_columns[STORE_WATCHED_SITE].count; i++)
        assert_int_equal(store_number(&store_columns[STORE_WATCHED_SITE].items[i], &site), i + 1);
    const struct store_column *columns = store_columns[STORE_LABEL].items;
    assert_memory_equal(store_text(&columns[1], &label, &bytes), "key", 3);
    assert_int_equal(bytes, 3);
    assert_string_equal(store_text(&columns[2], &label, &bytes), "value");
    assert_string_equal(
        store_text(&store_columns[STORE_FRAME].items[1], &(struct store_frame){1, NULL}, &bytes),
        "");
    assert_int_equal(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_those_of_stores),
        cmocka_unit_test(figures_of_the_analysis_are_stored),
        cmocka_unit_test(columns_read_their_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
