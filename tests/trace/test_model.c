/* test_model.c - random programs: what they did, written as rows by gen.c and read back through
 * trace.h, sealed in between, is what they did. The model here knows nothing of src/trace but its
 * public header. */
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
#include "trace/trace.h"

enum { THREADS = 4, PROCS = 5, CLOCK0 = 1000000 };

struct expected {
    uint8_t kind, op, path, route;
    uint32_t thread;
    uint64_t clock, address, size, usable, argument, pc;
};

struct block {
    uint64_t address, size, usable, pc, turn;
    uint32_t thread;
    uint8_t op, path;
    bool live;
};

/* A process of the model. */
struct proc {
    uint64_t id, start, calls;
    uint32_t parent; /* UINT32_MAX: none */
    struct gen_stream streams[THREADS];
    uint64_t turn[THREADS];
    uint32_t threads, nodes;
    uint64_t node_pc[4096];
    uint32_t node_parent[4096];
    struct block *blocks;
    size_t block_count, block_cap;
    struct expected *events;
    size_t n, cap, inherited;
    bool busy[THREADS];
};

static struct gen g;
static struct proc procs[PROCS];
static uint32_t proc_count;
static uint64_t seed;
static uint64_t busy_address; /* of a block in the midst of a failing realloc */

static uint64_t roll(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

static uint64_t tick(void)
{
    g.clock += 1 + (roll(100) ? roll(900) : roll(3) ? roll(1000000) : roll(40000000000));
    return g.clock;
}

static struct expected *expect(struct proc *p)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? p->cap * 2 : 256;
        p->events = realloc(p->events, p->cap * sizeof *p->events);
    }
    memset(&p->events[p->n], 0, sizeof *p->events);
    return &p->events[p->n++];
}

static struct block *live_at(struct proc *p, uint64_t address)
{
    for (size_t i = 0; i < p->block_count; i++)
        if (p->blocks[i].live && p->blocks[i].address == address)
            return &p->blocks[i];
    return NULL;
}

static struct block *any_live(struct proc *p)
{
    if (!p->block_count)
        return NULL;
    size_t from = roll(2) ? p->block_count - 1 - roll(p->block_count < 8 ? p->block_count : 8)
                          : roll(p->block_count);
    for (size_t k = 0; k < p->block_count; k++) {
        struct block *b = &p->blocks[(from + p->block_count - k) % p->block_count];
        if (b->live && b->address != busy_address)
            return b;
    }
    return NULL;
}

static uint64_t new_address(struct proc *p)
{
    for (;;) {
        uint64_t a = roll(20)  ? 0x5555000000 + roll(4000) * 16
                     : roll(2) ? 0x7f0000000010 + roll(1 << 20) * 16
                               : roll(UINT64_MAX - 1) + 1; /* any number, not aligned */
        if (!live_at(p, a))
            return a;
    }
}

static uint64_t a_size(void)
{
    switch (roll(12)) {
    case 0: return 0;
    case 1: return roll(100000);
    case 2: return roll(1) << 40 | roll(1000000000000);
    default: return roll(300);
    }
}

static uint32_t a_stack(struct proc *p, unsigned t)
{
    if (!roll(10))
        return 0;
    if (p->nodes < 4000 && (p->nodes < 3 || !roll(20))) {
        uint32_t id = ++p->nodes;
        p->node_parent[id] = id > 1 && roll(5) ? 1 + (uint32_t)roll(id - 1) : 0;
        p->node_pc[id] = roll(UINT64_MAX);
        gen_node(&g, &p->streams[t], id, p->node_parent[id], p->node_pc[id], (uint32_t)roll(3), 0);
    }
    return 1 + (uint32_t)roll(p->nodes);
}

static uint64_t pc_of(const struct proc *p, uint32_t stack)
{
    return stack ? p->node_pc[stack] : 0;
}

static void begin(struct proc *p, unsigned t, unsigned op, uint64_t clock, uint64_t address)
{
    uint64_t size = a_size(), usable = mlw_usual_usable(size), argument = 0;
    uint32_t stack = a_stack(p, t);
    unsigned path = roll(6) ? 0 : (unsigned)roll(128) << 1;
    const unsigned route = roll(4) ? 0 : (unsigned)roll(64);
    if (!route && mlw_path_is_routed(path))
        path &= ~(unsigned)MLW_PATH_HEAP_GREW;
    if (!roll(4))
        usable = size + roll(roll(5) ? 64 : 100000);
    if (op >= MLW_OP_POSIX_MEMALIGN && op <= MLW_OP_MEMALIGN)
        argument = (uint64_t)1 << (4 + roll(50));
    gen_call(&g, &p->streams[t], op, clock, address, size, stack, usable, argument,
             path | route << 8);
    p->calls++;
    struct block *old = live_at(p, address);
    if (old) {
        struct expected *e = expect(p);
        e->kind = TRACE_FREE_INFERRED;
        e->thread = t;
        e->clock = clock;
        e->address = address;
        old->live = false;
    }
    struct expected *e = expect(p);
    *e = (struct expected){.kind = TRACE_ALLOC,
                           .op = (uint8_t)op,
                           .path = (uint8_t)path,
                           .route = (uint8_t)route,
                           .thread = t,
                           .clock = clock,
                           .address = address,
                           .size = size,
                           .usable = usable,
                           .argument = argument,
                           .pc = pc_of(p, stack)};
    if (p->block_count == p->block_cap) { /* drop the dead, but what was inherited is kept */
        size_t n = p->inherited;
        for (size_t i = n; i < p->block_count; i++)
            if (p->blocks[i].live)
                p->blocks[n++] = p->blocks[i];
        p->block_count = n;
    }
    if (p->block_count * 2 >= p->block_cap) {
        p->block_cap = p->block_cap ? p->block_cap * 2 : 64;
        p->blocks = realloc(p->blocks, p->block_cap * sizeof *p->blocks);
    }
    p->blocks[p->block_count++] = (struct block){.address = address,
                                                 .size = size,
                                                 .usable = usable,
                                                 .pc = e->pc,
                                                 .turn = ++p->turn[t],
                                                 .thread = t,
                                                 .op = (uint8_t)op,
                                                 .path = (uint8_t)path,
                                                 .live = true};
}

static void end(struct proc *p, unsigned t, unsigned op, uint64_t clock, uint64_t address)
{
    uint64_t size = mlw_op_fields(op) & MLW_F_SIZE ? roll(500) : 0;
    const unsigned route = roll(4) ? 0 : (unsigned)roll(64);
    gen_call(&g, &p->streams[t], op, clock, address, size, 0, UINT64_MAX, 0, route << 8);
    if (op != MLW_OP_REALLOC_OLD)
        p->calls++;
    struct expected *e = expect(p);
    e->op = (uint8_t)op;
    e->thread = t;
    e->clock = clock;
    e->address = address;
    e->size = size;
    e->route = (uint8_t)route;
    struct block *b = live_at(p, address);
    if (!address)
        e->kind = TRACE_OTHER;
    else if (!b)
        e->kind = TRACE_FREE_UNKNOWN;
    else if (b->thread == t && b->turn == p->turn[t])
        e->kind = TRACE_FREE_TEMP;
    else
        e->kind = TRACE_FREE;
    if (b)
        b->live = false;
}

static void other(struct proc *p, unsigned t, unsigned op, uint64_t address, uint64_t argument,
                  unsigned written_path, unsigned path)
{
    uint64_t size = roll(100000);
    uint32_t stack = mlw_op_fields(op) & MLW_F_STACK ? a_stack(p, t) : 0;
    uint64_t clock = tick();
    gen_call(&g, &p->streams[t], op, clock, address, size, stack, UINT64_MAX, argument,
             written_path);
    if (op != MLW_OP_MREMAP_OLD)
        p->calls++;
    struct expected *e = expect(p);
    *e = (struct expected){.kind = TRACE_OTHER,
                           .op = (uint8_t)op,
                           .path = (uint8_t)path,
                           .thread = t,
                           .clock = clock,
                           .address = address,
                           .size = size,
                           .argument = argument,
                           .pc = pc_of(p, stack)};
}

static void act(struct proc *p, unsigned t, int depth);

static void others_act(struct proc *p, unsigned t, int depth)
{
    p->busy[t] = true;
    for (uint64_t k = depth < 2 ? roll(3) : 0; k; k--) {
        unsigned u = (unsigned)roll(p->threads);
        if (!p->busy[u])
            act(p, u, depth + 1);
    }
    p->busy[t] = false;
}

static void resize(struct proc *p, unsigned t, int depth)
{
    struct block *b = any_live(p);
    uint64_t address = b ? b->address : 0;
    unsigned op = roll(4) ? MLW_OP_REALLOC : MLW_OP_REALLOCARRAY;
    switch (b ? roll(6) : 5) {
    case 0: { /* fails */
        if (busy_address)
            break;
        gen_call(&g, &p->streams[t], MLW_OP_REALLOC_OLD, tick(), address, 0, 0, UINT64_MAX, 0, 0);
        /* nobody else may touch the block meanwhile */
        uint64_t before = busy_address;
        busy_address = address;
        others_act(p, t, 1);
        busy_address = before;
        other(p, t, op, 0, 0, MLW_PATH_FAILED, MLW_PATH_FAILED);
        break;
    }
    case 1: /* to nothing */
        end(p, t, MLW_OP_REALLOC_OLD, tick(), address);
        others_act(p, t, depth);
        other(p, t, op, 0, 0, 0, 0);
        break;
    case 2: /* in place */
        end(p, t, MLW_OP_REALLOC_OLD, tick(), address);
        begin(p, t, op, tick(), address);
        break;
    default:
        if (address)
            end(p, t, MLW_OP_REALLOC_OLD, tick(), address);
        others_act(p, t, depth);
        begin(p, t, op, tick(), new_address(p));
    }
}

/* What comes next is not taken for the other half of a call that came before its time
 * (test_order.c). */
static void apart(void) { g.clock += 2 * 1500; }

static void act(struct proc *p, unsigned t, int depth)
{
    struct block *b = any_live(p);
    switch (roll(40)) {
    case 0: end(p, t, MLW_OP_FREE, tick(), 0); break;
    case 1:
        end(p, t, MLW_OP_FREE, tick(), new_address(p));
        apart();
        break;
    case 2: other(p, t, MLW_OP_MALLOC, 0, 0, MLW_PATH_FAILED, MLW_PATH_FAILED); break;
    case 3: other(p, t, MLW_OP_MALLOC_USABLE_SIZE, b ? b->address : 0, 0, 0, 0); break;
    case 4: other(p, t, MLW_OP_MMAP, roll(1000) << 12, roll(UINT64_MAX), 0, 0); break;
    case 5: {
        uint64_t a = (1 + roll(1000)) << 12;
        bool fails = roll(2);
        other(p, t, MLW_OP_MUNMAP, a, 0, 0, fails ? MLW_PATH_FAILED : 0);
        if (fails)
            gen_call(&g, &p->streams[t], MLW_OP_MUNMAP_FAILED, tick(), a, 1, 0, UINT64_MAX, 0, 0);
        break;
    }
    case 6:
        if (roll(2)) {
            other(p, t, MLW_OP_MREMAP_OLD, roll(1000) << 12, 0, 0, 0);
            other(p, t, MLW_OP_MREMAP, roll(1000) << 12, roll(2), 0, 0);
        } else {
            gen_call(&g, &p->streams[t], MLW_OP_MREMAP_OLD, tick(), 4096, 1, 0, UINT64_MAX, 0, 0);
            other(p, t, MLW_OP_MREMAP, 0, 0, MLW_PATH_FAILED, MLW_PATH_FAILED);
        }
        break;
    case 7: other(p, t, roll(2) ? MLW_OP_SBRK : MLW_OP_BRK, roll(1u << 30), 0, 0, 0); break;
    case 8:
    case 9:
    case 10:
    case 11: resize(p, t, depth); break;
    case 12: /* a free was missed */
        if (b) {
            begin(p, t, MLW_OP_MALLOC, tick(), b->address);
            apart();
        }
        break;
    case 13:
    case 14:
    case 15:
    case 16: { /* temporary */
        uint64_t a = new_address(p);
        begin(p, t, MLW_OP_MALLOC, tick(), a);
        end(p, t, MLW_OP_FREE, tick(), a);
        break;
    }
    case 17:
        if (b)
            end(p, t, MLW_OP_FREE_SIZED + (unsigned)roll(2), tick(), b->address);
        break;
    case 18: begin(p, t, MLW_OP_CALLOC + (unsigned)roll(8), tick(), new_address(p)); break;
    case 19:
    case 20:
    case 21:
    case 22:
    case 23:
    case 24:
    case 25:
    case 26:
    case 27:
    case 28:
        if (b)
            end(p, t, MLW_OP_FREE, tick(), b->address);
        break;
    default: begin(p, t, MLW_OP_MALLOC, tick(), new_address(p)); break;
    }
    if (!roll(200))
        gen_flush(&g, &p->streams[t], MLW_CHUNK_INTERIM);
}

static struct proc *start(uint32_t parent)
{
    struct proc *p = &procs[proc_count];
    uint64_t clock = tick() + 1000;
    g.clock = clock + 1000;
    p->id = 100 + proc_count;
    p->parent = parent;
    p->start = clock;
    p->threads = 1 + (uint32_t)roll(THREADS);
    gen_process(&g, p->id, 4100000 + proc_count, parent == UINT32_MAX ? 0 : procs[parent].id, clock,
                clock / 2);
    proc_count++;
    for (unsigned t = 0; t < p->threads; t++) {
        gen_stream_begin(&p->streams[t], p->id, 4100000, 4100000 + t, t, clock);
        p->streams[t].limit = 200 + (uint32_t)roll(5000);
    }
    if (parent != UINT32_MAX) {
        const struct proc *q = &procs[parent];
        p->nodes = q->nodes;
        memcpy(p->node_pc, q->node_pc, sizeof p->node_pc);
        memcpy(p->node_parent, q->node_parent, sizeof p->node_parent);
        p->blocks = malloc(q->block_cap * sizeof *p->blocks);
        p->block_cap = q->block_cap;
        for (size_t i = 0; i < q->block_count; i++) {
            if (!q->blocks[i].live)
                continue;
            struct block b = q->blocks[i];
            b.thread = 0;
            b.turn = UINT64_MAX;
            p->blocks[p->block_count++] = b;
        }
        p->inherited = p->block_count;
    }
    return p;
}

static void check_image(struct trace *t, uint32_t index, const struct proc *p)
{
    const struct trace_image *m = &trace_info(t)->images[index];
    struct error err;
    uint64_t *slots = calloc(m->max_slots + 1, sizeof *slots);
    size_t seen = 0;
    struct trace_batch b;
    struct trace_cursor *c = trace_cursor_open(t, index, &err);
    assert_non_null(c);
    assert_int_equal(m->inherited, p->inherited);
    assert_int_equal(m->events, p->n + p->inherited);
    assert_int_equal(m->calls, p->calls);
    assert_int_equal(m->lost_calls, 0);
    assert_true(m->complete);
    assert_int_equal(m->thread_count, p->threads);
    if (p->parent == UINT32_MAX)
        assert_int_equal(m->forked_from, UINT32_MAX);
    else
        assert_int_equal(trace_info(t)->images[m->forked_from].id, procs[p->parent].id);
    int k;
    while ((k = trace_cursor_next(c, &b, &err)) > 0) {
        assert_int_equal(b.first_event, seen);
        for (size_t i = 0; i < b.n; i++, seen++) {
            struct expected e;
            if (seen < p->inherited) { /* in any order */
                const struct block *q = NULL;
                for (size_t j = 0; j < p->inherited; j++)
                    if (p->blocks[j].address == b.address[i])
                        q = &p->blocks[j];
                assert_non_null(q);
                e = (struct expected){.kind = TRACE_ALLOC,
                                      .op = q->op,
                                      .path = q->path,
                                      .clock = p->start,
                                      .address = q->address,
                                      .size = q->size,
                                      .usable = q->usable,
                                      .pc = q->pc};
            } else {
                e = p->events[seen - p->inherited];
            }
            assert_int_equal(b.kind[i], e.kind);
            assert_int_equal(b.op[i], e.op);
            assert_int_equal(b.thread[i], e.thread);
            assert_int_equal(b.size[i], e.size);
            assert_int_equal(b.address[i], e.address);
            assert_int_equal(b.usable[i], e.usable);
            assert_int_equal(b.path[i], e.path);
            assert_int_equal(b.route[i], e.route);
            assert_int_equal(b.argument[i], e.argument);
            assert_int_equal(b.time_ns[i], (e.clock - CLOCK0) / 64 * 32);
            assert_true(b.stack[i] <= m->stacks);
            assert_int_equal(b.stack[i] ? m->nodes[b.stack[i]].pc : 0, e.pc);
            if (b.kind[i] == TRACE_FREE_UNKNOWN || b.kind[i] == TRACE_OTHER) {
                assert_int_equal(b.slot[i], TRACE_NO_SLOT);
                continue;
            }
            assert_true(b.slot[i] < m->max_slots);
            if (b.kind[i] == TRACE_ALLOC) {
                assert_int_equal(slots[b.slot[i]], 0);
                slots[b.slot[i]] = b.address[i];
                continue;
            }
            assert_int_equal(slots[b.slot[i]], b.address[i]);
            slots[b.slot[i]] = 0;
        }
    }
    assert_int_equal(k, 0);
    assert_int_equal(seen, p->n + p->inherited);
    trace_cursor_close(c);
    free(slots);
}

/* Columns alone are what they are together, and a second reading what the first was. */
static void check_columns(const char *path)
{
    struct error err;
    struct trace *all = trace_open(path, NULL, &err);
    assert_non_null(all);
    for (unsigned bit = 1; bit < 256; bit <<= 1) {
        struct trace_open_options o = {.columns = bit};
        struct trace *one = trace_open(path, &o, &err);
        struct trace_batch a, b;
        struct every of_all = {.trace = all}, of_one = {.trace = one};
        assert_non_null(one);
        while (every_next(&of_all, &a, &err) > 0) {
            assert_int_equal(every_next(&of_one, &b, &err), 1);
            assert_int_equal(a.n, b.n);
            assert_int_equal(a.image, b.image);
            assert_memory_equal(a.slot, b.slot, a.n * 4);
            assert_memory_equal(a.kind, b.kind, a.n);
            assert_memory_equal(a.op, b.op, a.n);
            struct {
                const void *x, *y;
                size_t width;
            } c[] = {
                {a.thread, b.thread, 4},   {a.size, b.size, 8},         {a.stack, b.stack, 4},
                {a.time_ns, b.time_ns, 8}, {a.address, b.address, 8},   {a.usable, b.usable, 8},
                {a.path, b.path, 1},       {a.argument, b.argument, 8}, {a.route, b.route, 1}};
            for (unsigned k = 0; k < 8; k++) {
                if (bit != 1u << k)
                    assert_null(c[k].y);
                else
                    assert_memory_equal(c[k].x, c[k].y, a.n * c[k].width);
            }
        }
        assert_int_equal(every_next(&of_one, &b, &err), 0);
        every_rewind(&of_all);
        every_rewind(&of_one);
        trace_close(one);
    }
    trace_close(all);
}

static void write_program(FILE *f, uint64_t number, unsigned steps)
{
    seed = 88172645463325252u + number * 0x9e3779b97f4a7c15u;
    for (int i = 0; i < 10; i++)
        roll(2);
    memset(procs, 0, sizeof procs);
    proc_count = 0;
    g.clock = CLOCK0;
    gen_open(&g, f, CLOCK0, CLOCK0 / 2);
    start(UINT32_MAX);
    unsigned most = 1 + (unsigned)roll(PROCS);
    for (unsigned i = 0; i < steps; i++) {
        struct proc *p = &procs[roll(proc_count)];
        act(p, (unsigned)roll(p->threads), 0);
        if (proc_count < most && !roll(steps / 4 + 1))
            start(roll(3) ? (uint32_t)roll(proc_count) : UINT32_MAX);
    }
    for (uint32_t i = 0; i < proc_count; i++) {
        for (unsigned t = 0; t < procs[i].threads; t++) {
            end(&procs[i], t, MLW_OP_FREE, tick(), 0); /* every thread is seen */
            gen_flush(&g, &procs[i].streams[t], 0);
        }
        gen_end(&g, procs[i].id, 4100000 + i, tick(), MLW_END_EXIT, 0);
    }
    g.clock = (g.clock + 100000000) & ~(uint64_t)1;
    gen_pair(&g, g.clock, g.clock / 2);
    fclose(f);
}

static void one_program(uint64_t number, unsigned steps)
{
    char path[] = "/tmp/mallow-test-model-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    write_program(fdopen(fd, "wb"), number, steps);
    struct error err;
    struct trace *t = trace_open(path, NULL, &err);
    assert_non_null(t);
    assert_int_equal(trace_info(t)->image_count, proc_count);
    assert_int_equal(trace_info(t)->damaged_bytes, 0);
    for (uint32_t i = 0; i < proc_count; i++)
        for (uint32_t k = 0; k < proc_count; k++)
            if (trace_info(t)->images[k].id == procs[i].id)
                check_image(t, k, &procs[i]);
    trace_close(t);
    if (number < 40)
        check_columns(path);
    unlink(path);
    for (uint32_t i = 0; i < proc_count; i++) {
        free(procs[i].blocks);
        free(procs[i].events);
    }
}

static void small_programs(void **unused)
{
    (void)unused;
    for (uint64_t i = 0; i < 400; i++)
        one_program(i, 1 + (unsigned)(i * 7 % 3000));
}

static void long_program(void **unused)
{
    (void)unused;
    one_program(1000, 60000);
}

/* With arguments NUMBER STEPS FILE: only writes that program's raw recording. */
int main(int argc, char **argv)
{
    if (argc == 4) {
        FILE *f = fopen(argv[3], "wb");
        if (!f)
            return 1;
        write_program(f, strtoull(argv[1], NULL, 0), (unsigned)strtoul(argv[2], NULL, 0));
        return 0;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_programs),
                                       cmocka_unit_test(long_program)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
