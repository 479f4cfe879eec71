/* test_past.c - reading past pages that cannot be read: nothing behind them is left out, and what
 * is missing is counted where something can have been there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "remote/target.h"

#define PAGE  ((size_t)TARGET_PAGE_BYTES)
#define START ((uint64_t)0x10000)

enum { PAGES = 8 };

static const char *states; /* of each page: 'r' can be read, 'x' not, 'n' not, and never there */

static size_t read_some(struct target *t, uint64_t address, void *into, size_t bytes)
{
    size_t done = 0;
    (void)t;
    while (done < bytes) {
        const uint64_t page = (address + done - START) / PAGE;
        if (page >= PAGES || states[page] != 'r')
            break;
        ((uint8_t *)into)[done++] = (uint8_t)('a' + page);
    }
    return done;
}

static enum resident_state page_state(struct target *t, uint64_t address)
{
    (void)t;
    return states[(address - START) / PAGE] == 'n' ? RESIDENT_NOT : RESIDENT_SWAPPED;
}

static void nothing(struct target *t) { (void)t; }

static const struct target_ops ops = {read_some, page_state, NULL, nothing};

/* Reads all of it but the first and the last 8 bytes; checks each byte. */
static void reads(const char *of, uint32_t flags, enum target_source source, size_t have,
                  uint64_t unread)
{
    uint8_t bytes[PAGES * TARGET_PAGE_BYTES];
    struct target *t = target_new();
    assert_non_null(t);
    states = of;
    t->ops = &ops;
    t->source = source;
    assert_int_equal(
        target_add_region(t, (struct target_region){START, START + PAGES * PAGE, .flags = flags}),
        0);
    target_regions_done(t);
    memset(bytes, 0xff, sizeof bytes);
    assert_int_equal(target_read_past(t, START + 8, bytes, sizeof bytes - 16), have);
    for (size_t i = 0; i < sizeof bytes - 16; i++) {
        const size_t page = (i + 8) / PAGE;
        assert_int_equal(bytes[i], of[page] == 'r' ? 'a' + page : 0);
    }
    assert_int_equal(t->unread, unread);
    if (unread)
        assert_int_equal((t->unread_at | (PAGE - 1)) + 1,
                         START + ((size_t)(strrchr(of, 'x') - of) + 1) * PAGE);
    target_close(t);
}

static void test_past(void **state)
{
    (void)state;
    const uint32_t own = REGION_READ | REGION_WRITE;
    const size_t all = PAGES * PAGE - 16;
    reads("rrrrrrrr", own, TARGET_STOPPED, all, 0);
    reads("xrrxxrrr", own, TARGET_STOPPED, all, 3 * PAGE - 8);
    reads("rrrrrxrx", own, TARGET_SNAPSHOT, 7 * PAGE - 8, 2 * PAGE - 8);
    reads("xxxxxxxx", own, TARGET_STOPPED, 0, all);
    /* also where it may not write at the moment, and what it shares */
    reads("rxrrrrrr", own | REGION_SHARED, TARGET_STOPPED, all, PAGE);
    reads("rxrrrrrr", REGION_READ, TARGET_STOPPED, all, PAGE);
    /* Nothing of the process can have been there: never used, the kernel's, said already. */
    reads("rnnrrrrn", own, TARGET_STOPPED, 7 * PAGE - 8, 0);
    reads("rxrrrrrr", own | REGION_SPECIAL, TARGET_STOPPED, all, 0);
    reads("rxrrrrrr", own, TARGET_CORE, all, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_past)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
