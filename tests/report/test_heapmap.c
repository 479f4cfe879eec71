/* test_heapmap.c - the map of a heap: what lies in each cell, that coarser cells hold the sums of
 * finer ones, and that no list of blocks makes it large or slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "analyse/heapmap.h"

#define PAGE 4096u

static const uint16_t site_of[] = {0, 1, 2, 3, UINT16_MAX};

static struct pinned_block block(uint64_t address, uint64_t usable_bytes, uint32_t stack)
{
    return (struct pinned_block){
        .address = address, .usable_bytes = usable_bytes, .stack = stack, .there = true};
}

static void add(struct heapmap *h, size_t moment, bool glibc, const struct pinned_block *blocks,
                size_t count)
{
    const struct pinned p = {.glibc = glibc};
    struct error err = {0};
    assert_int_equal(heapmap_add(h, moment, &p, blocks, count, site_of, &err), 0);
}

static struct heapmap *map_of(size_t moments)
{
    struct error err = {0};
    struct heapmap *h = heapmap_new(moments, &err);
    assert_non_null(h);
    return h;
}

struct sums {
    uint64_t used_bytes, pages;
    size_t rows;
};

static struct sums sums_of(const struct heapmap *h, size_t moment)
{
    struct sums s = {0};
    uint64_t address;
    const struct heapmap_cell *row;
    for (; (row = heapmap_row(h, s.rows, moment, &address)); s.rows++)
        for (unsigned i = 0; i < HEAPMAP_COLUMNS; i++) {
            s.used_bytes += row[i].used_bytes;
            s.pages += row[i].pages;
        }
    return s;
}

static void test_cells(void **state)
{
    (void)state;
    struct heapmap *h = map_of(2);
    const uint64_t base = 64 * PAGE;
    /* Two on one page, one over three pages, a cached chunk on a page of its own. */
    struct pinned_block blocks[] = {block(base + 8, 100, 1), block(base + 200, 300, 2),
                                    block(base + PAGE + 8, 2 * PAGE, 1),
                                    block(base + 9 * PAGE + 8, 64, 3)};
    blocks[3].cached = true;
    add(h, 1, true, blocks, 4);
    uint64_t address;
    const struct heapmap_cell *row = heapmap_row(h, 0, 1, &address);
    assert_int_equal(address, base);
    assert_int_equal(heapmap_cell_bytes(h), PAGE);
    assert_int_equal(row[0].used_bytes, 108 + 308);
    assert_int_equal(row[0].pages, 1);
    assert_int_equal(row[0].site[0], 3);
    assert_int_equal(row[0].site[1], 2);
    assert_int_equal(row[0].site[2], 0);
    assert_int_equal(row[1].used_bytes, PAGE);
    assert_int_equal(row[2].used_bytes, PAGE);
    assert_int_equal(row[3].used_bytes, 8);
    assert_int_equal(row[3].pages, 1);
    assert_int_equal(row[9].used_bytes, 0);
    assert_int_equal(row[9].pages, 1);
    assert_int_equal(row[9].site[0], 0);
    assert_null(heapmap_row(h, 1, 1, &address));
    assert_int_equal(sums_of(h, 0).used_bytes, 0); /* the moment before */
    heapmap_free(h);
}

static void test_coarser(void **state)
{
    (void)state;
    struct heapmap *h = map_of(2);
    struct error err = {0};
    struct pinned_block blocks[100];
    for (unsigned i = 0; i < 100; i++)
        blocks[i] = block((uint64_t)(i * 3 + 1) * PAGE, 1000 + i, i % 4);
    add(h, 0, false, blocks, 50);
    add(h, 1, false, blocks, 100);
    const struct sums half = sums_of(h, 0), all = sums_of(h, 1);
    assert_int_equal(half.pages, 50);
    assert_int_equal(all.pages, 100);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(heapmap_coarsen(h, &err), 0);
        assert_int_equal(sums_of(h, 0).used_bytes, half.used_bytes);
        assert_int_equal(sums_of(h, 1).used_bytes, all.used_bytes);
        assert_int_equal(sums_of(h, 1).pages, 100);
    }
    assert_int_equal(heapmap_cell_bytes(h), 16 * PAGE);
    uint64_t address;
    const struct heapmap_cell *c = heapmap_row(h, 0, 1, &address);
    assert_int_not_equal(c->site[0], c->site[1]);
    assert_true(c->site_bytes[0] >= c->site_bytes[1] && c->site_bytes[1] >= c->site_bytes[2]);
    heapmap_free(h);
}

/* More arenas than rows; blocks as large as the address space, thousands of them, that overlap. */
static void test_bounds(void **state)
{
    (void)state;
    struct heapmap *h = map_of(3);
    struct pinned_block *blocks = calloc(5000, sizeof *blocks);
    assert_non_null(blocks);
    for (unsigned i = 0; i < 5000; i++)
        blocks[i] = block(((uint64_t)i + 1) << 26, 500, i % 5);
    add(h, 0, true, blocks, 5000);
    const struct sums far = sums_of(h, 0);
    assert_in_range(far.rows, 1, HEAPMAP_ROWS);
    assert_int_equal(far.used_bytes, 5000 * 508);
    for (unsigned i = 0; i < 5000; i++)
        blocks[i] = block(16 + i, UINT64_MAX / 2, i % 5);
    add(h, 1, false, blocks, 5000);
    assert_in_range(sums_of(h, 1).rows, 1, HEAPMAP_ROWS);
    assert_int_equal(sums_of(h, 0).used_bytes, 5000 * 508);
    blocks[0] = block(UINT64_MAX - 100, 5000, 0); /* ends behind the last address */
    blocks[1] = block(UINT64_MAX - 50, 40, 0);
    add(h, 2, true, blocks, 2);
    assert_int_equal(sums_of(h, 2).used_bytes, 48);
    free(blocks);
    heapmap_free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cells), cmocka_unit_test(test_coarser),
                                       cmocka_unit_test(test_bounds)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
