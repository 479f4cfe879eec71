/* test_kernel.c - what the kernel told (KERNEL chunks), from chunks to facts: which image and which
 * block each fault belongs to, and what becomes of records that make no sense.
 *   test_kernel          runs the tests
 *   test_kernel OUT      writes the recording of the first one, for golden files */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen.h"
#include "trace/trace.h"

enum { PID = 4200000, OTHER = 4200001, STRANGER = 4200002, START = 1000000 };

static char path[64];
static struct gen g;
static struct gen_stream s, second;
static uint8_t records[4096];
static size_t used;

static void put(uint64_t clock, uint32_t pid, uint32_t tid, unsigned kind, unsigned what,
                unsigned place, unsigned values, const uint64_t *v)
{
    const struct mlw_kernel r = {.clock = clock,
                                 .pid = pid,
                                 .tid = tid,
                                 .kind = (uint8_t)kind,
                                 .what = (uint8_t)what,
                                 .place = (uint8_t)place,
                                 .values = (uint8_t)values};
    memcpy(records + used, &r, sizeof r);
    if (values)
        memcpy(records + used + sizeof r, v, values * 8u);
    used += sizeof r + values * 8u;
}

static void fault(uint64_t clock, uint32_t pid, uint64_t address, unsigned what, unsigned place)
{
    put(clock, pid, pid, MLW_KERNEL_FAULT, what, place, 1, &address);
}

static void write_records(uint64_t lost)
{
    struct mlw_chunk c = {.type = MLW_CHUNK_KERNEL, .lost_calls = lost};
    gen_chunk(&g, &c, records, (uint32_t)used);
    used = 0;
}

static void call(unsigned op, uint64_t clock, uint64_t address, uint64_t size, uint32_t stack,
                 uint64_t argument)
{
    gen_call(&g, &s, op, clock, address, size, stack, UINT64_MAX, argument, 0);
}

/* Clock: 2 ticks a nanosecond, from START on. */
static void begin(FILE *f)
{
    gen_open(&g, f, START, START / 2);
    gen_process(&g, 7, PID, 0, START, START / 2);
    gen_stream_begin(&s, 7, PID, PID, 0, START);
    for (uint32_t i = 1; i <= 4; i++)
        gen_node(&g, &s, i, 0, 0x1000 * i, 0, 0);
}

static void end(void)
{
    gen_flush(&g, &s, 0);
    gen_end(&g, 7, PID, START + 200000, MLW_END_EXIT, 0);
    gen_pair(&g, START + 100000000, START / 2 + 50000000);
    fclose(g.f);
}

/* Stack 1 allocates a small block, 2 a large one, 3 maps, 4 allocates what it touches first. */
static void write_all(FILE *f)
{
    begin(f);
    /* before the recorder's first moment: between exec and its start */
    fault(START, PID, 0x555500, MLW_ACCESS_CODE, MLW_PLACE_FILE);
    call(MLW_OP_MALLOC, START + 6400, 0x10010, 100, 1, 0);
    fault(START + 9600, PID, 0x10050, MLW_ACCESS_WRITE, MLW_PLACE_HEAP);
    fault(START + 9600, PID, 0x10008, MLW_ACCESS_WRITE, MLW_PLACE_HEAP); /* its size stands there */
    fault(START + 9600, PID, 0x10090, MLW_ACCESS_WRITE, MLW_PLACE_HEAP); /* behind it: in none */
    call(MLW_OP_MALLOC, START + 12800, 0x7f0000000010, 1 << 20, 2, 0);
    fault(START + 16000, PID, 0x7f0000000000 + 70000, MLW_ACCESS_WRITE | MLW_FAULT_MAJOR,
          MLW_PLACE_ANONYMOUS);
    call(MLW_OP_FREE, START + 19200, 0x10010, 0, 0, 0);
    fault(START + 22400, PID, 0x10050, MLW_ACCESS_COPY, MLW_PLACE_HEAP); /* nobody's now */
    call(MLW_OP_MMAP, START + 25600, 0x7e0000000000, 0x4000, 3, 0x2203);
    fault(START + 28800, PID, 0x7e0000001000, MLW_ACCESS_READ, MLW_PLACE_ANONYMOUS);
    call(MLW_OP_MUNMAP, START + 32000, 0x7e0000001000, 0x1000, 0, 0);
    fault(START + 35200, PID, 0x7e0000001000, MLW_ACCESS_READ, MLW_PLACE_ANONYMOUS);
    fault(START + 35200, PID, 0x7e0000002000, MLW_ACCESS_READ, MLW_PLACE_ANONYMOUS);
    /* inside malloc, before the block is handed out */
    fault(START + 38400, PID, 0x20008, MLW_ACCESS_WRITE, MLW_PLACE_HEAP);
    fault(START + 38400, PID, 0x7ffff000, MLW_ACCESS_WRITE, MLW_PLACE_STACK);
    call(MLW_OP_MALLOC, START + 41600, 0x20010, 5000, 4, 0);
    write_records(0);
    const uint64_t level[] = {4096, 8192, 0, 12288}, more[] = {4096, 81920, 40960, 12288};
    put(START + 6400, PID, PID, MLW_KERNEL_LEVEL, 0, 0, 4, level);
    put(START + 64000, PID, PID, MLW_KERNEL_LEVEL, 0, 0, 4, more);
    put(START + 70400, PID, PID + 5, MLW_KERNEL_ARENA, 9, 0, 3,
        (const uint64_t[]){0x555000, (uint64_t)-4096, 7});
    put(START + 76800, PID, PID, MLW_KERNEL_SWAP, MLW_PAGES_IN, 0, 2, (const uint64_t[]){3, 0});
    put(START + 76800, PID, PID, 99, 1, 0, 2, level); /* of a later writer */
    fault(START + 80000, STRANGER, 0x10050, 0, 0);
    write_records(5);
    end();
}

static struct trace *open_it(void)
{
    struct error err;
    struct trace *t = trace_open(path, NULL, &err);
    assert_non_null(t);
    return t;
}

static FILE *temporary(void)
{
    strcpy(path, "/tmp/mallow-test-kernel-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    return fdopen(fd, "wb");
}

static void check_fault(const struct trace_image *m, uint32_t i, uint64_t time_ns, unsigned what,
                        unsigned place, uint64_t pc)
{
    assert_true(i < m->fault_count);
    const struct trace_fault *f = &m->faults[i];
    assert_int_equal(f->time_ns, time_ns);
    assert_int_equal(f->what, what);
    assert_int_equal(f->place, place);
    if (pc) {
        assert_true(f->stack && f->stack <= m->stacks);
        assert_int_equal(m->nodes[f->stack].pc, pc);
    } else
        assert_int_equal(f->stack, 0);
}

static void facts(void **state)
{
    (void)state;
    write_all(temporary());
    for (int sealed = 0; sealed < 2; sealed++) {
        struct trace *t = open_it();
        const struct trace_info *info = trace_info(t);
        assert_int_equal(info->sealed, sealed);
        assert_int_equal(info->image_count, 1);
        assert_int_equal(info->lost_kernel_events, 5);
        const struct trace_image *m = &info->images[0];
        assert_int_equal(m->fault_count, 11);
        check_fault(m, 0, 0, MLW_ACCESS_CODE, MLW_PLACE_FILE, 0);
        check_fault(m, 1, 4800, MLW_ACCESS_WRITE, MLW_PLACE_BLOCK, 0x1000);
        check_fault(m, 2, 4800, MLW_ACCESS_WRITE, MLW_PLACE_BLOCK, 0x1000);
        check_fault(m, 3, 4800, MLW_ACCESS_WRITE, MLW_PLACE_HEAP, 0);
        check_fault(m, 4, 8000, MLW_ACCESS_WRITE | MLW_FAULT_MAJOR, MLW_PLACE_BLOCK, 0x2000);
        check_fault(m, 5, 11200, MLW_ACCESS_COPY, MLW_PLACE_HEAP, 0);
        check_fault(m, 6, 14400, MLW_ACCESS_READ, MLW_PLACE_MAPPED, 0x3000);
        check_fault(m, 7, 17600, MLW_ACCESS_READ, MLW_PLACE_ANONYMOUS, 0);
        check_fault(m, 8, 17600, MLW_ACCESS_READ, MLW_PLACE_MAPPED, 0x3000);
        check_fault(m, 9, 19200, MLW_ACCESS_WRITE, MLW_PLACE_BLOCK, 0x4000);
        check_fault(m, 10, 19200, MLW_ACCESS_WRITE, MLW_PLACE_STACK, 0);
        assert_int_equal(m->faults[9].address, 0x20008);
        assert_int_equal(m->level_count, 2);
        assert_int_equal(m->levels[1].anonymous, 81920);
        assert_int_equal(m->levels[1].swapped, 40960);
        assert_int_equal(m->moment_count, 2);
        assert_int_equal(m->moments[0].tid, PID + 5);
        assert_int_equal(m->moments[0].value[1], -4096);
        assert_int_equal(m->moments[1].kind, MLW_KERNEL_SWAP);
        trace_close(t);
    }
    unlink(path);
}

/* A process becomes another by exec: what happens after the exec is the new one's, although its
 * recorder begins later. A fork's child has blocks that it did not allocate. */
static void images(void **state)
{
    (void)state;
    begin(temporary());
    call(MLW_OP_MALLOC, START + 6400, 0x10010, 100, 1, 0);
    gen_flush(&g, &s, 0);
    gen_process(&g, 8, OTHER, 7, START + 12800, START / 2 + 6400);
    gen_stream_begin(&second, 8, OTHER, OTHER, 0, START + 12800);
    gen_call(&g, &second, MLW_OP_MALLOC, START + 19200, 0x30010, 10, 2, UINT64_MAX, 0, 0);
    gen_flush(&g, &second, 0);
    gen_end(&g, 8, OTHER, START + 25600, MLW_END_EXEC, 0);
    gen_process(&g, 9, OTHER, 0, START + 64000, START / 2 + 32000);
    gen_end(&g, 9, OTHER, START + 96000, MLW_END_EXIT, 0);
    fault(START + 16000, OTHER, 0x10050, MLW_ACCESS_COPY, MLW_PLACE_HEAP);
    fault(START + 32000, OTHER, 0x10050, MLW_ACCESS_CODE, MLW_PLACE_FILE);
    fault(START + 70400, OTHER, 0x10060, MLW_ACCESS_CODE, MLW_PLACE_FILE);
    write_records(0);
    end();
    struct trace *t = open_it();
    const struct trace_info *info = trace_info(t);
    assert_int_equal(info->image_count, 3);
    assert_int_equal(info->images[0].fault_count, 0);
    for (uint32_t i = 1; i < 3; i++) {
        const struct trace_image *m = &info->images[i];
        if (m->id == 8) {
            assert_int_equal(m->fault_count, 1);
            check_fault(m, 0, 8000, MLW_ACCESS_COPY, MLW_PLACE_BLOCK, 0x1000);
        } else
            assert_int_equal(m->fault_count, 2);
    }
    trace_close(t);
    unlink(path);
}

/* Records with too many values, or cut off: what stood before them counts. */
static void nonsense(void **state)
{
    (void)state;
    begin(temporary());
    fault(START + 6400, PID, 0x1000, 77, 200);
    put(START + 6400, PID, PID, MLW_KERNEL_LEVEL, 0, 0, 1, (const uint64_t[]){1});
    put(START + 6400, PID, PID, MLW_KERNEL_FAULT, 0, 0, 0, NULL);
    fault(START + 6400, PID, 0x2000, 0, 0);
    records[used - 9 - 4] = 200; /* its number of values */
    write_records(0);
    fault(START + 9600, PID, 0x3000, 0, 0);
    used -= 3;
    write_records(0);
    end();
    struct trace *t = open_it();
    const struct trace_image *m = &trace_info(t)->images[0];
    assert_int_equal(m->fault_count, 1);
    assert_int_equal(m->level_count, 0);
    check_fault(m, 0, 3200, 77, MLW_PLACE_UNKNOWN, 0);
    trace_close(t);
    unlink(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts),
        cmocka_unit_test(images),
        cmocka_unit_test(nonsense),
    };
    if (argc == 2) {
        FILE *f = fopen(argv[1], "wb");
        if (!f)
            return 1;
        write_all(f);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
