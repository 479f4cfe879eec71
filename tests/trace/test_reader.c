/* test_reader.c - what the readers do with recordings that are not whole: forgotten, lost, torn and
 * damaged parts. Each case is made by hand, so that what must come out is known. */
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

static char path[64];
static struct every all;
static struct gen g;
static struct gen_stream s;
static struct trace_open_options options; /* of finish() */

static void begin(void)
{
    strcpy(path, "/tmp/mallow-test-reader-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    gen_open(&g, fdopen(fd, "wb"), 1000, 500);
    gen_process(&g, 7, 4200000, 0, 1000, 500);
    gen_stream_begin(&s, 7, 4200000, 4200000, 0, 1000);
    g.clock = 1000;
}

static void call(unsigned op, uint64_t address, uint64_t size)
{
    g.clock += 640;
    gen_call(&g, &s, op, g.clock, address, size, 0, UINT64_MAX, 0, 0);
}

static struct trace *finish(uint32_t how)
{
    struct error err;
    gen_flush(&g, &s, 0);
    if (how)
        gen_end(&g, 7, 4200000, g.clock + 64, how, 0);
    uint64_t end = (g.clock + 100000000) & ~(uint64_t)1;
    gen_pair(&g, end, end / 2);
    fclose(g.f);
    struct trace *t = trace_open(path, &options, &err);
    assert_non_null(t);
    return t;
}

static void done(struct trace *t)
{
    every_rewind(&all);
    trace_close(t);
    unlink(path);
}

/* All events of image 0, which are one batch. */
static struct trace_batch events(struct trace *t, size_t n)
{
    struct trace_batch b;
    struct error err;
    uint64_t count = 0;
    all = (struct every){.trace = t};
    while (every_next(&all, &b, &err) > 0)
        count += b.n;
    assert_int_equal(count, n);
    every_rewind(&all);
    assert_int_equal(every_next(&all, &b, &err), 1);
    assert_int_equal(b.n, n);
    return b;
}

static void a_reset_forgets(void **unused)
{
    (void)unused;
    begin();
    call(MLW_OP_MALLOC, 0x1000, 10);
    call(MLW_OP_MALLOC, 0x2000, 20);
    gen_mark(&g, &s, g.clock, "before");
    gen_control(&g, &s, g.clock + 1, MLW_CONTROL_RESET);
    call(MLW_OP_FREE, 0x1000, 0);
    call(MLW_OP_MALLOC, 0x3000, 30);
    struct trace *t = finish(MLW_END_EXIT);
    const struct trace_image *m = &trace_info(t)->images[0];
    struct trace_batch b = events(t, 2);
    assert_int_equal(m->calls, 2);
    assert_int_equal(b.kind[0], TRACE_FREE_UNKNOWN);
    assert_int_equal(b.address[0], 0x1000);
    assert_int_equal(b.kind[1], TRACE_ALLOC);
    assert_int_equal(m->note_count, 1);
    assert_int_equal(m->event_notes[0].control, MLW_CONTROL_RESET);
    assert_true(m->complete);
    done(t);
}

static void a_reset_forgets_sealed_blocks(void **unused)
{
    (void)unused;
    begin();
    for (unsigned i = 0; i < 150000; i++)
        call(MLW_OP_MALLOC, 0x1000 + i * 16, 10);
    gen_control(&g, &s, g.clock + 1, MLW_CONTROL_RESET);
    call(MLW_OP_MALLOC, 0x1000, 30);
    struct trace *t = finish(MLW_END_EXIT);
    struct trace_batch b = events(t, 1);
    assert_int_equal(b.size[0], 30);
    assert_int_equal(trace_info(t)->images[0].calls, 1);
    assert_int_equal(trace_info(t)->images[0].lost_calls, 0);
    assert_true(trace_info(t)->images[0].complete);
    done(t);
}

static void the_longest_interim_copy_counts(void **unused)
{
    (void)unused;
    begin();
    call(MLW_OP_MALLOC, 0x1000, 10);
    gen_flush(&g, &s, MLW_CHUNK_INTERIM);
    call(MLW_OP_MALLOC, 0x2000, 10);
    gen_flush(&g, &s, MLW_CHUNK_INTERIM);
    s.p = s.payload; /* killed: the buffer never leaves */
    struct trace *t = finish(0);
    events(t, 2);
    assert_false(trace_info(t)->images[0].complete);
    assert_int_equal(trace_info(t)->images[0].lost_calls, 0);
    done(t);
}

static void missing_chunks_are_lost_calls(void **unused)
{
    (void)unused;
    begin();
    call(MLW_OP_MALLOC, 0x1000, 10);
    gen_flush(&g, &s, 0);
    for (int i = 0; i < 5; i++)
        call(MLW_OP_FREE, 0x1000, 0);
    s.head.sequence++; /* this one is lost */
    s.head.first_call += s.head.calls;
    s.head.calls = 0;
    s.head.base_clock = s.state.clock;
    s.head.base_address = s.state.address;
    s.p = s.payload;
    call(MLW_OP_MALLOC, 0x1000, 20); /* so its free was missed */
    struct trace *t = finish(MLW_END_EXIT);
    struct trace_batch b = events(t, 3);
    assert_int_equal(b.kind[1], TRACE_FREE_INFERRED);
    assert_int_equal(b.op[1], 0);
    assert_int_equal(b.slot[1], b.slot[0]);
    assert_int_equal(trace_info(t)->images[0].lost_calls, 5);
    assert_false(trace_info(t)->images[0].complete);
    done(t);
}

static void garbage_between_chunks_is_counted(void **unused)
{
    (void)unused;
    begin();
    call(MLW_OP_MALLOC, 0x1000, 10);
    gen_flush(&g, &s, 0);
    fwrite("MLC1 is not a chunk", 1, 19, g.f);
    call(MLW_OP_MALLOC, 0x2000, 10);
    struct trace *t = finish(MLW_END_EXIT);
    events(t, 2);
    assert_int_equal(trace_info(t)->damaged_bytes, 19);
    done(t);
}

/* Overwrites a byte of the payload of block `number` in the sealed file; 0 when there is none. */
static int spoil(uint64_t number, unsigned column)
{
    FILE *f = fopen(path, "r+b");
    struct section_head h;
    struct error err;
    fseek(f, 0, SEEK_END);
    uint64_t size = (uint64_t)ftell(f);
    int hit = 0;
    for (uint64_t at = 0; at < size && section_head_read(fileno(f), at, size, &h, &err) == 1;
         at += h.header.header_bytes + h.header.payload_bytes) {
        uint64_t p = at + h.header.header_bytes;
        for (unsigned i = 0; i < h.header.streams; p += h.streams[i++].stored_bytes)
            if (h.header.type == SEAL_BLOCK && h.header.number == number &&
                h.streams[i].id == column && !hit) {
                hit = 1;
                fseek(f, (long)p, SEEK_SET);
                int c = fgetc(f);
                fseek(f, (long)p, SEEK_SET);
                fputc(c ^ 0x55, f);
            }
    }
    fclose(f);
    return hit;
}

/* A program that allocates and frees at random; then every event of the damaged file must be one of
 * the whole file, or say of itself that something before it is missing. */
static void a_damaged_block_loses_only_itself(void **unused)
{
    (void)unused;
    enum { EVENTS = 700000, LIVE = 3000 };
    static uint64_t where[LIVE];
    uint64_t seed = 12345, next = 0x10000;
    begin();
    for (unsigned i = 0; i < EVENTS;) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        unsigned k = (unsigned)(seed % LIVE);
        if (where[k]) {
            call(MLW_OP_FREE, where[k], 0);
            i++;
        }
        where[k] = next += 32; /* never the same address again */
        call(MLW_OP_MALLOC, where[k], seed >> 40 & 255);
        i++;
    }
    struct trace *t = finish(MLW_END_EXIT);
    uint64_t whole = trace_info(t)->images[0].events;
    assert_true(whole > 5 * 128 * 1024);
    trace_close(t);
    assert_true(spoil(2, 1)); /* 2: SEAL_BLOCK number, 1: the code column */
    struct error err;
    t = trace_open(path, NULL, &err);
    assert_non_null(t);
    const struct trace_image *m = &trace_info(t)->images[0];
    uint64_t *slot_address = calloc(m->max_slots, sizeof *slot_address);
    struct trace_batch b;
    uint64_t n = 0, unknown = 0, inferred = 0, last_ns = 0, no_address = 0;
    all = (struct every){.trace = t};
    while (every_next(&all, &b, &err) > 0)
        for (size_t i = 0; i < b.n; i++, n++) {
            last_ns = b.time_ns[i];
            no_address += b.kind[i] == TRACE_ALLOC && !b.address[i];
            switch (b.kind[i]) {
            case TRACE_ALLOC:
                assert_int_equal(slot_address[b.slot[i]], 0);
                slot_address[b.slot[i]] = b.address[i] ? b.address[i] : 1;
                break;
            case TRACE_FREE:
            case TRACE_FREE_TEMP:
                /* never a block that the reader did not see begin, nor another's address */
                assert_int_not_equal(slot_address[b.slot[i]], 0);
                if (b.address[i])
                    assert_int_equal(slot_address[b.slot[i]], b.address[i]);
                slot_address[b.slot[i]] = 0;
                break;
            case TRACE_FREE_INFERRED:
                assert_int_not_equal(slot_address[b.slot[i]], 0);
                slot_address[b.slot[i]] = 0;
                inferred++;
                break;
            default: unknown++;
            }
        }
    free(slot_address);
    assert_int_equal(trace_info(t)->damaged_runs, 1);
    assert_int_equal(m->lost_calls, 128 * 1024);
    assert_int_equal(n, whole - 128 * 1024 + inferred);
    /* of about 3,000 live blocks nearly all change hands within a block of events */
    assert_true(unknown > 2000 && unknown <= 3000);
    assert_int_equal(inferred, unknown); /* who ended unseen, and who began unseen */
    assert_true(no_address > 0);
    assert_true(last_ns > 0);
    assert_false(m->complete);
    every_rewind(&all);
    trace_close(t);
    unlink(path);
}

struct told {
    uint64_t last, largest_step, total;
    unsigned times;
};

static void hear(void *arg, uint64_t done, uint64_t total)
{
    struct told *t = arg;
    assert_true(done >= t->last && done <= total);
    if (done - t->last > t->largest_step)
        t->largest_step = done - t->last;
    t->last = done;
    t->total = total;
    t->times++;
}

/* However few processes a recording has. */
static void sealing_says_how_far_it_is(void **unused)
{
    (void)unused;
    struct told told = {0};
    begin();
    for (uint64_t i = 0; i < 1500000; i++)
        call(i & 1 ? MLW_OP_FREE : MLW_OP_MALLOC, 0x1000, 10);
    options = (struct trace_open_options){.progress = hear, .progress_arg = &told};
    struct trace *t = finish(MLW_END_EXIT);
    options = (struct trace_open_options){0};
    assert_true(told.times > 4);
    assert_true(told.largest_step < told.total / 3);
    assert_true(told.last > told.total / 10 * 9);
    trace_close(t);
    unlink(path);
}

static void no_recording_is_an_error(void **unused)
{
    (void)unused;
    struct error err;
    strcpy(path, "/tmp/mallow-test-reader-XXXXXX");
    int fd = mkstemp(path);
    assert_null(trace_open(path, NULL, &err)); /* of another kind: the wrong file was named */
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_int_equal(write(fd, "#!/bin/sh\nMLC1 MLS1\n", 20), 20);
    assert_null(trace_open(path, NULL, &err));
    assert_int_equal(err.kind, ERROR_USAGE);
    assert_int_equal(pwrite(fd, "MLC1MLC1\n", 9, 0), 9); /* of this kind, with nothing left */
    assert_null(trace_open(path, NULL, &err));
    assert_int_equal(err.kind, ERROR_FORMAT);
    close(fd);
    unlink(path);
    assert_null(trace_open(path, NULL, &err));
    assert_int_equal(err.kind, ERROR_SYSTEM);
    assert_null(trace_open("/tmp", NULL, &err));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reset_forgets),
        cmocka_unit_test(a_reset_forgets_sealed_blocks),
        cmocka_unit_test(the_longest_interim_copy_counts),
        cmocka_unit_test(missing_chunks_are_lost_calls),
        cmocka_unit_test(garbage_between_chunks_is_counted),
        cmocka_unit_test(a_damaged_block_loses_only_itself),
        cmocka_unit_test(sealing_says_how_far_it_is),
        cmocka_unit_test(no_recording_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
