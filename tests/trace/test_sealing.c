/* test_sealing.c - what is sealed does not depend on how many threads do it, nor on whether they
 * can be had; what goes wrong in one of them fails the sealing. Linked with wrappers of
 * pthread_create and of the allocator. Also for ThreadSanitizer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen.h"
#include "trace/raw/raw.h"
#include "trace/seal/nodes.h"
#include "trace/seal/seal.h"

/* --- what can be refused --- */

static unsigned threads_made, threads_allowed = UINT32_MAX;
static atomic_int
    allocations; /* counted down; the one that makes it 0 fails. Negative: none does */

int __wrap_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*run)(void *), void *arg)
{
    if (threads_made == threads_allowed)
        return EAGAIN;
    threads_made++;
    return __real_pthread_create(t, a, run, arg);
}

static bool refused(void) { return atomic_fetch_sub(&allocations, 1) == 1; }

static size_t highest; /* bytes that were live when something large was asked for, with that */

static void note(size_t n)
{
    if (n < 16384 || !highest)
        return;
    const struct mallinfo2 now = mallinfo2();
    if (now.uordblks + now.hblkhd + n > highest)
        highest = now.uordblks + now.hblkhd + n;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n)
{
    note(n);
    return refused() ? NULL : __real_malloc(n);
}
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
    note(n * size);
    return refused() ? NULL : __real_calloc(n, size);
}
void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n)
{
    note(n);
    return refused() ? NULL : __real_realloc(p, n);
}

/* --- recordings --- */

enum { LIVE = 1000 };
static struct gen g;
static uint64_t seed = 88172645463325252u;

static uint64_t roll(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

struct process {
    struct gen_stream s[2];
    uint64_t image, live[LIVE];
    uint32_t pid, nodes;
};

static void begin(struct process *p, uint64_t image, uint64_t forked_from, const struct process *of)
{
    memset(p, 0, sizeof *p);
    p->image = image;
    p->pid = 4200000 + (uint32_t)image;
    if (of)
        memcpy(p->live, of->live, sizeof p->live);
    g.clock += 2;
    gen_process(&g, image, p->pid, forked_from, g.clock, g.clock / 2);
    gen_stream_begin(&p->s[0], image, p->pid, p->pid, 0, g.clock);
    gen_stream_begin(&p->s[1], image, p->pid, p->pid + 100, 1, g.clock);
    gen_module(&g, &p->s[0], 1, 0x400000, 0x480000, 0, "/made/up");
}

/* Calls of two threads; every 32nd allocation has a stack that was never seen before. */
static void act(struct process *p, unsigned calls)
{
    for (unsigned i = 0; i < calls; i++) {
        struct gen_stream *s = &p->s[roll(2)];
        const uint64_t k = roll(LIVE);
        g.clock += 2 + roll(100);
        if (p->live[k] && !roll(8)) { /* whether it fails is seen by what comes behind */
            const bool fails = roll(2);
            gen_call(&g, s, MLW_OP_REALLOC_OLD, g.clock, p->live[k], 0, 0, UINT64_MAX, 0, 0);
            g.clock += 2;
            gen_call(&g, s, MLW_OP_REALLOC, g.clock, fails ? 0 : p->live[k], 1 + roll(500),
                     (uint32_t)roll(p->nodes + 1), UINT64_MAX, 0, fails ? MLW_PATH_FAILED : 0);
            continue;
        }
        if (p->live[k]) {
            gen_call(&g, s, MLW_OP_FREE, g.clock, p->live[k], 0, 0, UINT64_MAX, 0, 0);
            p->live[k] = 0;
            continue;
        }
        if (!p->nodes || !roll(32)) {
            p->nodes++;
            gen_node(&g, s, p->nodes, (uint32_t)roll(p->nodes), 0x400000 + roll(0x80000), 1, 0);
        }
        p->live[k] = 0x10000 + p->image * 0x100000 + k * 512;
        gen_call(&g, s, MLW_OP_MALLOC, g.clock, p->live[k], 1 + roll(500),
                 1 + (uint32_t)roll(p->nodes), UINT64_MAX, 0, 0);
    }
    gen_flush(&g, &p->s[0], 0);
    gen_flush(&g, &p->s[1], 0);
}

static void end(struct process *p) { gen_end(&g, p->image, p->pid, ++g.clock, MLW_END_EXIT, 0); }

static int recording(void)
{
    const int fd = memfd_create("raw", 0);
    assert_true(fd >= 0);
    gen_open(&g, fdopen(dup(fd), "wb"), 1000, 500);
    g.clock = 1000;
    return fd;
}

static void whole(void)
{
    gen_pair(&g, g.clock & ~(uint64_t)1, g.clock / 2);
    fclose(g.f);
}

/* A process that forks twice, and one beside: blocks of an image go on behind those of another. */
static int make_family(void)
{
    static struct process one, two, three, four;
    const int fd = recording();
    begin(&one, 1, 0, NULL);
    act(&one, 70000);
    begin(&two, 2, 1, &one);
    act(&one, 3000);
    act(&two, 30000);
    gen_mark(&g, &two.s[0], ++g.clock, "half");
    act(&two, 100);
    end(&two);
    begin(&three, 3, 1, &one);
    act(&three, 10);
    end(&three);
    act(&one, 60000);
    gen_control(&g, &one.s[0], ++g.clock, MLW_CONTROL_RESET);
    act(&one, 40000);
    end(&one);
    begin(&four, 4, 0, NULL);
    act(&four, 20000);
    end(&four);
    whole();
    return fd;
}

static int make_small(void)
{
    static struct process one;
    const int fd = recording();
    begin(&one, 1, 0, NULL);
    act(&one, 5000);
    end(&one);
    whole();
    return fd;
}

enum { MEANINGS = 1000, TIMES = 400 };

/* The same nodes, announced TIMES times by other ids each, of which one in two is used. */
static int make_repeated(unsigned times)
{
    static struct process one;
    const int fd = recording();
    begin(&one, 1, 0, NULL);
    for (uint32_t id = 1; id <= MEANINGS * times; id++) {
        const uint32_t meaning = (id - 1) % MEANINGS;
        gen_node(&g, &one.s[0], id, meaning ? id - 1 : 0, 0x400000 + meaning * 16, 1, 0);
        if (id % 2)
            continue;
        g.clock += 2;
        gen_call(&g, &one.s[0], MLW_OP_MALLOC, g.clock, 0x10000, 24, id, UINT64_MAX, 0, 0);
        g.clock += 2;
        gen_call(&g, &one.s[0], MLW_OP_FREE, g.clock, 0x10000, 0, 0, UINT64_MAX, 0, 0);
    }
    gen_flush(&g, &one.s[0], 0);
    end(&one);
    whole();
    return fd;
}

/* --- sealing --- */

struct sealed {
    int status;
    struct error err;
    size_t n;
    uint8_t *data;
};

/* Refusals begin when the raw file is open. most: bytes that the sealed file may have, 0: any. */
static struct sealed seal(int raw, unsigned threads, unsigned allowed, int nth, size_t most)
{
    struct sealed s = {.status = -1};
    struct raw r;
    struct trace_seal_result result;
    struct stat st;
    const struct seal_how how = {.threads = threads};
    const int out = memfd_create("sealed", MFD_ALLOW_SEALING);
    assert_true(out >= 0);
    assert_false(most && (ftruncate(out, (off_t)most) || fcntl(out, F_ADD_SEALS, F_SEAL_GROW)));
    assert_int_equal(raw_open(&r, raw, NULL, NULL, &s.err), 0);
    assert_int_equal(raw_finish(&r, &s.err), 0);
    threads_made = 0;
    threads_allowed = allowed;
    atomic_store(&allocations, nth);
    s.status = seal_recording(&r, out, &how, &result, &s.err);
    atomic_store(&allocations, -1);
    raw_close(&r);
    assert_int_equal(fstat(out, &st), 0);
    s.n = (size_t)st.st_size;
    s.data = malloc(s.n + 1);
    assert_non_null(s.data);
    assert_int_equal(pread(out, s.data, s.n, 0), (ssize_t)s.n);
    close(out);
    return s;
}

static void assert_same(const struct sealed *a, const struct sealed *b)
{
    assert_int_equal(a->status, 0);
    assert_int_equal(b->status, 0);
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->data, b->data, a->n);
}

static int family = -1;
static struct sealed alone;

static int make(void **unused)
{
    (void)unused;
    family = make_family();
    alone = seal(family, 0, UINT32_MAX, -1, 0);
    assert_int_equal(alone.status, 0);
    assert_int_equal(threads_made, 0);
    return 0;
}

static int unmake(void **unused)
{
    (void)unused;
    free(alone.data);
    return close(family);
}

static void threads_write_the_same(void **unused)
{
    (void)unused;
    for (unsigned threads = 1; threads < 4; threads += 2) {
        struct sealed s = seal(family, threads, UINT32_MAX, -1, 0);
        assert_int_equal(threads_made, threads < 2 ? 1 : 2); /* one image is large */
        assert_same(&alone, &s);
        free(s.data);
    }
}

static void without_threads_it_goes_on(void **unused)
{
    (void)unused;
    for (unsigned allowed = 0; allowed < 3; allowed++) {
        struct sealed s = seal(family, 3, allowed, -1, 0);
        assert_true(threads_made <= allowed);
        assert_same(&alone, &s);
        free(s.data);
    }
}

static void a_small_one_has_no_thread(void **unused)
{
    (void)unused;
    const int small = make_small();
    struct sealed s = seal(small, 3, UINT32_MAX, -1, 0);
    assert_int_equal(s.status, 0);
    assert_int_equal(threads_made, 0);
    free(s.data);
    close(small);
}

/* Every allocation of the beginning, then one in so many. ThreadSanitizer looks at the threads,
 * which see few of them. */
#ifdef __SANITIZE_THREAD__
enum { EACH_OF = 6 };
#else
enum { EACH_OF = 20 };
#endif

static void without_memory_it_fails_or_is_whole(void **unused)
{
    (void)unused;
    unsigned failed = 0;
    for (int nth = 1; nth < 4000; nth += nth < EACH_OF ? 1 : nth / 2) {
        struct sealed s = seal(family, 3, UINT32_MAX, nth, 0);
        if (s.status) {
            assert_string_not_equal(s.err.text, "");
            failed++;
        } else {
            assert_same(&alone, &s);
        }
        free(s.data);
    }
    assert_true(failed > EACH_OF / 2);
}

/* The first sections are written by this thread, blocks by another. */
static void a_full_disk_is_an_error(void **unused)
{
    (void)unused;
    for (unsigned part = 1; part < 8; part += 2) {
        struct sealed a = seal(family, 0, UINT32_MAX, -1, alone.n / 8 * part);
        struct sealed b = seal(family, 3, UINT32_MAX, -1, alone.n / 8 * part);
        assert_int_equal(a.status, -1);
        assert_int_equal(b.status, -1);
        assert_string_equal(a.err.text, b.err.text);
        free(a.data);
        free(b.data);
    }
}

/* Memory grows with what nodes mean, and by little with each id. */
static void repeated_nodes_are_small(void **unused)
{
    (void)unused;
    size_t taken[2];
    for (unsigned i = 0; i < 2; i++) {
        const int raw = make_repeated(i ? TIMES : TIMES / 4);
        highest = 1;
        struct sealed s = seal(raw, 0, UINT32_MAX, -1, 0);
        taken[i] = highest;
        highest = 0;
        assert_int_equal(s.status, 0);
        free(s.data);
        close(raw);
    }
    assert_true(taken[1] < taken[0] + (size_t)MEANINGS * TIMES * 3 / 4 * 8);
}

static void ids_of_one_meaning_are_one(void **unused)
{
    (void)unused;
    struct nodes t = {0};
    const struct node outer = {.pc = 1}, inner = {.pc = 2, .parent = 7},
                      twin = {.pc = 2, .parent = 9};
    assert_null(nodes_find(&t, 7));
    assert_int_equal(nodes_announce(&t, 7, &outer), 0);
    assert_int_equal(nodes_announce(&t, 9, &outer), 0);
    assert_ptr_equal(nodes_find(&t, 7), nodes_find(&t, 9));
    assert_int_equal(nodes_announce(&t, 8, &inner), 0);
    assert_int_equal(nodes_announce(&t, 5000, &twin), 0);
    assert_ptr_equal(nodes_find(&t, 8), nodes_find(&t, 5000));
    assert_int_equal(nodes_find(&t, 5000)->id, 8);
    assert_int_equal(nodes_find(&t, 5000)->parent, 7);
    nodes_free(&t);
}

/* An id that changes its meaning again and again takes one place, not one for each time. */
static void a_meaning_that_ends_gives_its_place_back(void **unused)
{
    (void)unused;
    struct nodes t = {0};
    const struct node ways[] = {{.pc = 1}, {.pc = 2}};
    for (uint32_t id = 2; id < 20; id++)
        assert_int_equal(nodes_announce(&t, id, &(struct node){.pc = id + 100}), 0);
    for (unsigned i = 0; i < 10000; i++)
        assert_int_equal(nodes_announce(&t, 1, &ways[i % 2]), i != 0);
    assert_int_equal(t.place_count, 19);
    assert_int_equal(t.place_cap, 64);
    for (uint32_t id = 2; id < 20; id++)
        assert_int_equal(nodes_announce(&t, id + 100, &(struct node){.pc = id + 100}), 0);
    assert_int_equal(t.count, 20); /* each of them was found: [0], and 19 */
    nodes_free(&t);
}

/* Against a table that has the meaning of every id. Few meanings, so that they end and come again.
 */
static void ids_mean_what_was_announced_last(void **unused)
{
    (void)unused;
    enum { IDS = 300 };
    struct nodes t = {0};
    uint64_t first[IDS] = {0}; /* pc that an id was first announced with, while it is its own */
    for (unsigned i = 0; i < 200000; i++) {
        const uint32_t n = (uint32_t)roll(IDS - 1) + 1;
        const uint32_t id = n % 3 ? n : n << 20; /* near each other, and far */
        const struct node way = {.pc = 1 + roll(i < 100000 ? 40 : 4000)};
        assert_int_not_equal(nodes_announce(&t, id, &way), -1);
        assert_int_equal(nodes_find(&t, id)->pc, way.pc);
        first[n] = way.pc;
    }
    for (uint32_t n = 1; n < IDS; n++)
        assert_int_equal(nodes_find(&t, n % 3 ? n : n << 20) != NULL, first[n] != 0);
    assert_true(t.place_count <= t.count && t.count <= IDS + 1);
    nodes_free(&t);
}

/* Ids that a file scatters cost what they are, not a page each. */
static void scattered_ids_are_small(void **unused)
{
    (void)unused;
    enum { IDS = 100000 };
    struct nodes t = {0};
    const struct mallinfo2 before = mallinfo2();
    highest = 1;
    for (uint32_t i = 1; i <= IDS; i++)
        assert_int_equal(nodes_announce(&t, i * 40000u, &(struct node){.pc = i % 7}), 0);
    for (uint32_t i = 1; i <= IDS; i++)
        assert_int_equal(nodes_find(&t, i * 40000u)->pc, i % 7);
    const size_t taken = highest - before.uordblks - before.hblkhd;
    highest = 0;
    assert_true(taken < (size_t)IDS * 350 + (16 << 20));
    nodes_free(&t);
}

static void an_id_keeps_what_it_was_used_for(void **unused)
{
    (void)unused;
    struct nodes t = {0};
    const struct node outer = {.pc = 1}, other = {.pc = 3};
    nodes_use(&t, 4)->dense = 1; /* before it is announced */
    assert_false(nodes_find(&t, 4)->known);
    assert_int_equal(nodes_announce(&t, 2, &outer), 0);
    assert_int_equal(nodes_announce(&t, 4, &outer), 0); /* means the same, and is in the file */
    assert_true(nodes_find(&t, 4)->known);
    assert_int_equal(nodes_find(&t, 4)->dense, 1);
    assert_int_equal(nodes_find(&t, 4)->pc, 1);
    assert_int_equal(nodes_announce(&t, 4, &other), 1);
    assert_int_equal(nodes_announce(&t, 4, &other), 0);
    assert_int_equal(nodes_find(&t, 4)->pc, 3);
    assert_int_equal(nodes_find(&t, 2)->pc, 1);
    for (uint32_t id = 10; id < 1000; id++) /* the hash is made anew */
        assert_int_equal(nodes_announce(&t, id, &(struct node){.pc = id}), 0);
    assert_int_equal(nodes_announce(&t, UINT32_MAX, &other), 0);
    assert_int_equal(nodes_find(&t, UINT32_MAX)->id, 4);
    assert_int_equal(nodes_announce(&t, 10, &outer), 1);
    assert_int_equal(nodes_find(&t, 10)->pc, 1);
    nodes_free(&t);
}

int main(void)
{
    atomic_store(&allocations, -1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_write_the_same),
        cmocka_unit_test(without_threads_it_goes_on),
        cmocka_unit_test(a_small_one_has_no_thread),
        cmocka_unit_test(without_memory_it_fails_or_is_whole),
        cmocka_unit_test(a_full_disk_is_an_error),
        cmocka_unit_test(ids_of_one_meaning_are_one),
        cmocka_unit_test(an_id_keeps_what_it_was_used_for),
        cmocka_unit_test(repeated_nodes_are_small),
        cmocka_unit_test(a_meaning_that_ends_gives_its_place_back),
        cmocka_unit_test(ids_mean_what_was_announced_last),
        cmocka_unit_test(scattered_ids_are_small),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
