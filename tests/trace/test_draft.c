/* test_draft.c - a recording that is sealed while it grows becomes, byte for byte, what sealing it
 * at its end makes, however it grows; or there is no result, and it is sealed at its end. Each
 * recording is made up: threads and processes whose calls interleave, forks of forks, programs one
 * behind the other, reallocs that span chunks, marks from outside, copies of buffers in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gen.h"
#include "trace/seal/draft.h"
#include "trust/place.h"

enum { LIVE = 400, THREADS = 3, PROCESSES = 7, CALLS = 40000 };

/* Every third of the recordings, of each kind one, where a sanitizer makes it slow. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum { STEP = 3 };
#else
enum { STEP = 1 };
#endif

static struct gen g;
static uint64_t seed;

static uint64_t roll(uint64_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % n;
}

/* ---- recordings ---- */

struct process {
    struct gen_stream s[THREADS];
    uint64_t image, live[LIVE];
    uint32_t pid, nodes;
    unsigned threads, calls; /* threads that have begun; calls still to come */
    bool runs;
};

static struct process all[PROCESSES];
static uint64_t started[PROCESSES + 1]; /* clock, by image */

static void thread_begin(struct process *p)
{
    const uint32_t n = p->threads++;
    gen_stream_begin(&p->s[n], p->image, p->pid, p->pid + 100 * n, n, g.clock);
    p->s[n].limit = (uint32_t)(300 + roll(6000));
    if (!n)
        gen_module(&g, &p->s[0], 1, 0x400000, 0x480000, 0, "/made/up");
}

static void process_begin(struct process *p, uint64_t image, const struct process *of, bool forked)
{
    memset(p, 0, sizeof *p);
    p->image = image;
    p->pid = 4200000 + (uint32_t)image;
    if (forked)
        memcpy(p->live, of->live, sizeof p->live);
    started[image] = g.clock += 8;
    gen_process(&g, image, p->pid, forked ? of->image : 0, g.clock, g.clock / 2);
    thread_begin(p);
    p->calls = 500 + (unsigned)roll(CALLS);
    p->runs = true;
}

static void process_end(struct process *p)
{
    for (unsigned i = 0; i < p->threads; i++)
        gen_flush(&g, &p->s[i], 0);
    g.clock += 8;
    gen_end(&g, p->image, p->pid, g.clock, MLW_END_EXIT, 0);
    p->runs = false;
}

static void mark(uint64_t image)
{
    static const uint8_t label[16] = {MLW_TLV_LABEL, 0, 0, 0, 4, 0, 0, 0, 'm', 'a', 'r', 'k'};
    struct mlw_chunk h = {.type = MLW_CHUNK_MARK, .image = image, .base_clock = g.clock};
    gen_chunk(&g, &h, label, sizeof label);
}

/* One call, of a thread of the process. */
static void call(struct process *p)
{
    struct gen_stream *s = &p->s[roll(p->threads)];
    const uint64_t k = roll(LIVE), at = 0x10000 + p->image * 0x1000000 + k * 512;
    g.clock += 2 + roll(100);
    if (p->live[k] && !roll(6)) {
        const bool fails = roll(2);
        gen_call(&g, s, MLW_OP_REALLOC_OLD, g.clock, at, 0, 0, UINT64_MAX, 0, 0);
        g.clock += 2;
        gen_call(&g, s, MLW_OP_REALLOC, g.clock, fails ? 0 : at, 1 + roll(500),
                 (uint32_t)roll(p->nodes + 1), UINT64_MAX, 0, fails ? MLW_PATH_FAILED : 0);
    } else if (p->live[k]) {
        gen_call(&g, s, MLW_OP_FREE, g.clock, at, 0, 0, UINT64_MAX, 0, 0);
        p->live[k] = 0;
    } else {
        if (!p->nodes || !roll(32)) {
            p->nodes++;
            gen_node(&g, s, p->nodes, (uint32_t)roll(p->nodes), 0x400000 + roll(0x80000), 1, 0);
        }
        gen_call(&g, s, MLW_OP_MALLOC, g.clock, at, 1 + roll(500), 1 + (uint32_t)roll(p->nodes),
                 UINT64_MAX, 0, 0);
        p->live[k] = at;
    }
}

static void act(struct process *p)
{
    for (uint64_t n = 1 + roll(60); n && p->calls; n--, p->calls--)
        call(p);
    if (p->threads < THREADS && !roll(40))
        thread_begin(p);
    if (!roll(400))
        gen_control(&g, &p->s[0], ++g.clock, MLW_CONTROL_RESET);
    if (!roll(200))
        mark(roll(2) ? p->image : 0);
    if (!roll(50))
        gen_flush(&g, &p->s[roll(p->threads)], MLW_CHUNK_INTERIM);
}

/* The clock's rate is known from the beginning on. */
static int make(uint64_t number)
{
    const int fd = memfd_create("raw", 0);
    assert_true(fd >= 0);
    seed = 88172645463325252u + number * 77;
    for (unsigned i = 0; i < 10; i++)
        roll(2);
    gen_open(&g, fdopen(dup(fd), "wb"), 1000, 500);
    g.clock = 1000 + 900000000;
    gen_pair(&g, g.clock, g.clock / 2);
    memset(all, 0, sizeof all);
    unsigned begun = 1, running = 1;
    process_begin(&all[0], 1, NULL, false);
    while (running) {
        struct process *p = &all[roll(begun)];
        if (!p->runs)
            continue;
        act(p);
        if (begun < PROCESSES && !roll(200)) {
            process_begin(&all[begun], begun + 1, p, roll(3) != 0);
            begun++;
            running++;
        }
        if (!p->calls) {
            process_end(p);
            running--;
        }
    }
    gen_pair(&g, g.clock & ~(uint64_t)1, g.clock / 2);
    fclose(g.f);
    return fd;
}

/* ---- what is in the file up to a size ---- */

struct chunk {
    uint64_t end; /* of the file */
    struct mlw_chunk head;
};

static struct chunk *chunks;
static size_t chunk_count, chunk_room;
static uint64_t file_bytes, calls;

static void list_chunks(int fd)
{
    struct mlw_chunk c;
    chunk_count = 0;
    file_bytes = calls = 0;
    while (pread(fd, &c, sizeof c, (off_t)file_bytes) == sizeof c) {
        file_bytes += sizeof c + c.payload_bytes;
        assert_true(ARRAY_ROOM(chunks, chunk_count + 1, chunk_room));
        chunks[chunk_count++] = (struct chunk){file_bytes, c};
        if (c.type == MLW_CHUNK_EVENTS && !(c.flags & MLW_CHUNK_INTERIM))
            calls += c.calls;
    }
}

/* As `mallow record` would know it, if it were never wrong. */
static struct trace_horizon horizon_at(uint64_t bytes, uint64_t image)
{
    struct trace_horizon h = {
        .file_bytes = bytes, .image = image, .clock = UINT64_MAX / 4, .over = true};
    for (size_t i = 0; i < chunk_count; i++) {
        const struct mlw_chunk *c = &chunks[i].head;
        if (chunks[i].end <= bytes)
            continue;
        const bool bounds = (c->type == MLW_CHUNK_EVENTS && c->image == image) ||
                            c->type == MLW_CHUNK_MARK || c->type == MLW_CHUNK_PROCESS;
        if (c->image == image || c->type == MLW_CHUNK_MARK || c->type == MLW_CHUNK_PROCESS)
            h.over = false;
        if (bounds && !(c->flags & MLW_CHUNK_INTERIM)) {
            const uint64_t clock = c->type == MLW_CHUNK_PROCESS ? started[c->image] : c->base_clock;
            h.clock = clock < h.clock ? clock : h.clock;
        }
    }
    return h;
}

/* ---- sealing ---- */

struct sealed {
    size_t n;
    uint8_t *data;
};

static struct sealed contents(int fd)
{
    struct sealed s;
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    s.n = (size_t)st.st_size;
    s.data = malloc(s.n + 1);
    assert_non_null(s.data);
    assert_int_equal(pread(fd, s.data, s.n, 0), (ssize_t)s.n);
    close(fd);
    return s;
}

static struct sealed at_the_end(int raw)
{
    struct raw r;
    struct error err;
    struct trace_seal_result result;
    const struct seal_how how = {.threads = 0};
    const int out = memfd_create("sealed", 0);
    assert_int_equal(raw_open(&r, raw, NULL, NULL, &err), 0);
    assert_int_equal(raw_finish(&r, &err), 0);
    assert_int_equal(seal_recording(&r, out, &how, &result, &err), 0);
    raw_close(&r);
    return contents(out);
}

static char directory[] = "/tmp/mallow-test-draft-XXXXXX";
static struct trust_place place;

/* How a draft went. */
struct went {
    bool done;      /* there is a result */
    unsigned moves; /* from image to image, before the file was whole */
};

/* The file grows in pieces of `step` bytes at most. hasty: what is known of it is too much. */
static struct went drafted(int raw, uint64_t step, bool hasty, unsigned threads,
                           const struct sealed *want)
{
    struct went went = {0};
    struct error err = {0};
    struct trace_seal_result result;
    const struct seal_how how = {.threads = threads};
    struct seal_draft *d = seal_draft_open(raw, &place, calls, &err);
    assert_non_null(d);
    int k = 1;
    for (uint64_t bytes = 0; k >= 0 && bytes < file_bytes;) {
        bytes += 1 + roll(step);
        bytes = bytes < file_bytes ? bytes : file_bytes;
        do {
            struct trace_horizon h = horizon_at(bytes, seal_draft_wants(d));
            if (hasty && !roll(4))
                h.clock += roll(1u << 20);
            const uint64_t before = seal_draft_wants(d);
            k = seal_draft_go(d, &h, &err);
            went.moves += bytes < file_bytes && before != seal_draft_wants(d);
        } while (k == 2);
    }
    int fd = -1;
    struct raw *r = seal_draft_raw(d);
    if (k >= 0 && !raw_grow(r, file_bytes, &err) && !raw_finish(r, &err))
        fd = seal_draft_end(d, &how, &result, &err);
    seal_draft_close(d);
    if (fd < 0) {
        assert_string_not_equal(err.text, "");
        return went;
    }
    went.done = true;
    struct sealed is = contents(fd);
    assert_int_equal(is.n, want->n);
    assert_memory_equal(is.data, want->data, is.n);
    assert_int_equal(result.bytes_out, is.n);
    free(is.data);
    return went;
}

static void it_is_the_same(void **unused)
{
    (void)unused;
    unsigned moves = 0;
    for (uint64_t number = 0; number < 12; number += STEP) {
        const int raw = make(number);
        list_chunks(raw);
        const struct sealed want = at_the_end(raw);
        for (uint64_t step = 1000; step < file_bytes * 4; step *= 7) {
            const struct went went = drafted(raw, step, false, number % 4, &want);
            assert_true(went.done);
            moves += went.moves;
        }
        free(want.data);
        close(raw);
    }
    /* an image is begun or done while others are still written */
    assert_true(moves > 200 / STEP);
}

/* Rows that come late, and processes: either nothing was taken too early, or there is no result. */
static void haste_is_found_out(void **unused)
{
    (void)unused;
    unsigned done = 0, refused = 0;
    for (uint64_t number = 0; number < 12; number += STEP) {
        const int raw = make(number);
        list_chunks(raw);
        const struct sealed want = at_the_end(raw);
        for (unsigned i = 0; i < 6; i++) {
            const bool ok = drafted(raw, 20000 << i, true, 0, &want).done;
            done += ok;
            refused += !ok;
        }
        free(want.data);
        close(raw);
    }
    assert_true(refused > 3 / STEP);
    assert_true(done > 3 / STEP);
}

static int begin(void **unused)
{
    (void)unused;
    static char path[sizeof directory + 8];
    struct error err;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof path, "%s/sealed", directory);
    return trust_place_open(&place, path, &err);
}

static int end(void **unused)
{
    (void)unused;
    unlink(place.path);
    trust_place_close(&place);
    free(chunks);
    return rmdir(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_the_same),
        cmocka_unit_test(haste_is_found_out),
    };
    return cmocka_run_group_tests_name("draft", tests, begin, end);
}
