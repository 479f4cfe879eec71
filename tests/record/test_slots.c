/* test_slots.c - buffers read from outside. The test plays the library's part on the shared memory:
 * it fills buffers row by row, hands them over, and "dies" at every byte of one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <signal.h>
#include <unistd.h>

#include "format/row.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"

#define IMAGE 0x1234u

struct client {
    struct shm shm;
    struct sink sink;
    struct slots slots;
    struct mlw_process *me;
    struct mlw_chunk *window; /* the client's own mapping */
    char path[64];
};

/* Claims an entry and its first window, as the library does. */
static int set_up(void **state)
{
    struct client *c = calloc(1, sizeof *c);
    struct error err;
    assert_non_null(c);
    assert_int_equal(shm_create(&c->shm, &err), 0);
    strcpy(c->path, "/tmp/mallow-slots-XXXXXX");
    c->sink.fd = mkostemp(c->path, O_APPEND);
    c->sink.reserve_fd = -1;
    assert_true(c->sink.fd >= 0);
    c->me = &c->shm.table[__atomic_fetch_add(&c->shm.session->next_process, 1, __ATOMIC_RELAXED)];
    c->me->pid = (uint32_t)getpid();
    c->me->image = IMAGE;
    c->me->window[0] = __atomic_fetch_add(&c->shm.session->next_window, 1, __ATOMIC_RELAXED);
    c->me->windows = 1;
    c->me->state = MLW_PROC_LIVE;
    c->window = shm_map_window(&c->shm, c->me->window[0]);
    assert_non_null(c->window);
    slots_refresh(&c->slots, &c->shm, c->me);
    *state = c;
    return 0;
}

static int tear_down(void **state)
{
    struct client *c = *state;
    slots_close(&c->slots, &c->shm, true);
    shm_unmap_window(c->window);
    shm_close(&c->shm);
    close(c->sink.fd);
    unlink(c->path);
    free(c);
    return 0;
}

static struct mlw_chunk *begin(struct client *c, uint32_t slot, uint32_t thread, uint32_t sequence)
{
    struct mlw_chunk *k = shm_slot(c->window, slot);
    k->reserved[0] = MLW_SLOT_USED;
    k->payload_bytes = 0;
    *k = (struct mlw_chunk){.magic = MLW_CHUNK_MAGIC,
                            .type = MLW_CHUNK_EVENTS,
                            .header_bytes = sizeof *k,
                            .image = IMAGE,
                            .thread = thread,
                            .sequence = sequence,
                            .reserved = {MLW_SLOT_USED, 0xbeef, 0}};
    return k;
}

/* n malloc rows of rising sizes; returns the bytes of the last one. */
static uint32_t fill(struct mlw_chunk *k, unsigned n)
{
    struct mlw_row_state st = {0, 0};
    uint8_t *p = (uint8_t *)k + sizeof *k + k->payload_bytes, *before = p;
    for (unsigned i = 0; i < n; i++) {
        before = p;
        p = mlw_row_encode(p, &st, MLW_OP_MALLOC, MLW_F_ALLOC, st.clock + 1000 * i,
                           0x500000000000u + 64 * i, 10 + i * 300, i, i % 3 == 0, 5, 0, i % 2);
        k->calls++;
        k->payload_bytes = (uint32_t)(p - (uint8_t *)k - (ptrdiff_t)sizeof *k);
    }
    return (uint32_t)(p - before);
}

/* The chunks of the file, checked; returns how many. */
static unsigned chunks_of(const struct client *c, struct mlw_chunk *heads, unsigned room)
{
    static uint8_t bytes[4 << 20];
    int fd = open(c->path, O_RDONLY);
    ssize_t n = read(fd, bytes, sizeof bytes), at = 0;
    close(fd);
    unsigned count = 0;
    while (at < n && count < room) {
        struct mlw_chunk *h = &heads[count++];
        assert_true(n - at >= (ssize_t)sizeof *h);
        memcpy(h, bytes + at, sizeof *h);
        assert_int_equal(h->magic, MLW_CHUNK_MAGIC);
        assert_true(n - at >= (ssize_t)(sizeof *h + h->payload_bytes));
        assert_int_equal(h->checksum, mlw_chunk_checksum(h, bytes + at + sizeof *h));
        assert_int_equal(h->reserved[0] | h->reserved[1] | h->reserved[2], 0);
        uint32_t calls;
        if (h->type == MLW_CHUNK_EVENTS) {
            assert_int_equal(
                mlw_whole_rows(bytes + at + sizeof *h, h->payload_bytes,
                               (struct mlw_row_state){h->base_clock, h->base_address, true},
                               &calls),
                h->payload_bytes);
            assert_int_equal(calls, h->calls);
        }
        at += (ssize_t)(sizeof *h + h->payload_bytes);
    }
    return count;
}

static void test_drain(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[8];
    fill(begin(c, 0, 0, 0), 100);
    fill(begin(c, 5, 3, 7), 50);
    shm_slot(c->window, 5)->reserved[0] = MLW_SLOT_FULL;
    assert_int_equal(slots_drain(&c->slots, &c->shm, &c->sink), 1);
    assert_int_equal(shm_slot(c->window, 5)->reserved[0], MLW_SLOT_FREE);
    assert_int_equal(shm_slot(c->window, 0)->reserved[0], MLW_SLOT_USED);
    assert_int_equal(chunks_of(c, heads, 8), 1);
    assert_int_equal(heads[0].thread, 3);
    assert_int_equal(heads[0].sequence, 7);
    assert_int_equal(heads[0].calls, 50);
    assert_int_equal(heads[0].flags, 0);
    assert_int_equal(slots_drain(&c->slots, &c->shm, &c->sink), 0);
}

static void test_drain_that_cannot_write_counts(void **state)
{
    struct client *c = *state;
    fill(begin(c, 1, 0, 0), 30);
    shm_slot(c->window, 1)->reserved[0] = MLW_SLOT_FULL;
    int fd = c->sink.fd;
    c->sink.fd = open("/dev/full", O_WRONLY);
    assert_int_equal(slots_drain(&c->slots, &c->shm, &c->sink), 1);
    close(c->sink.fd);
    c->sink.fd = fd;
    assert_int_equal(c->sink.failed, 1);
    assert_int_equal(c->sink.failed_calls, 30);
    assert_int_equal(c->sink.last_errno, ENOSPC);
    assert_int_equal(shm_slot(c->window, 1)->reserved[0], MLW_SLOT_FREE);
}

static void test_interim(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[16];
    const uint64_t second = 1000000000;
    struct mlw_chunk *k = begin(c, 0, 0, 4);
    fill(k, 10);
    assert_int_equal(slots_interim(&c->slots, &c->shm, &c->sink, second, NULL), 0); /* too young */
    assert_true(slots_interim(&c->slots, &c->shm, &c->sink, 2 * second, NULL) > 0);
    assert_int_equal(slots_interim(&c->slots, &c->shm, &c->sink, 99 * second, NULL), 0);
    fill(k, 1);
    assert_true(slots_interim(&c->slots, &c->shm, &c->sink, 200 * second, NULL) > 0);
    fill(k, 1);
    assert_int_equal(slots_interim(&c->slots, &c->shm, &c->sink, 201 * second, NULL), 0);
    assert_true(slots_interim(&c->slots, &c->shm, &c->sink, 201 * second, &(uint64_t){UINT64_MAX}) >
                0);
    assert_int_equal(chunks_of(c, heads, 16), 3);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(heads[i].flags, MLW_CHUNK_INTERIM);
        assert_int_equal(heads[i].sequence, 4);
        assert_int_equal(heads[i].calls, 10 + i);
    }
    assert_int_equal(k->reserved[0], MLW_SLOT_COPIED);
    k = begin(c, 0, 0, 5); /* it left, and began anew with fewer rows */
    fill(k, 2);
    slots_interim(&c->slots, &c->shm, &c->sink, 300 * second, NULL);
    assert_true(slots_interim(&c->slots, &c->shm, &c->sink, 301 * second, NULL) > 0);
    assert_int_equal(chunks_of(c, heads, 16), 4);
    assert_int_equal(heads[3].calls, 2);
}

/* A buffer is marked before it is looked at: the process, which marks it before it changes it, and
 * then looks for this mark, leaves it as it is. */
static void test_interim_marks(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[4];
    struct mlw_chunk *k = begin(c, 0, 0, 1), *full = begin(c, 1, 1, 1);
    fill(k, 10);
    fill(full, 10);
    full->reserved[0] = MLW_SLOT_FULL;
    k->flags = MLW_CHUNK_CHANGING;
    slots_interim(&c->slots, &c->shm, &c->sink, 1, &(uint64_t){UINT64_MAX});
    assert_int_equal(chunks_of(c, heads, 4), 0);
    assert_int_equal(k->reserved[0], MLW_SLOT_COPIED);
    assert_int_equal(full->reserved[0], MLW_SLOT_FULL);
    k->flags = 0;
    slots_interim(&c->slots, &c->shm, &c->sink, 2, &(uint64_t){UINT64_MAX});
    assert_int_equal(chunks_of(c, heads, 4), 1);
    assert_int_equal(heads[0].calls, 10);
    /* one that its thread is just writing into the file is left alone, and not taken for copied */
    uint64_t until = UINT64_MAX;
    fill(k, 1);
    k->reserved[0] = MLW_SLOT_LEAVING;
    k->base_clock = 7;
    slots_interim(&c->slots, &c->shm, &c->sink, 3, &until);
    assert_int_equal(until, 7);
    assert_int_equal(k->reserved[0], MLW_SLOT_LEAVING);
    assert_int_equal(chunks_of(c, heads, 4), 1);
}

/* What is copied while the buffer begins anew may be rows of both: it is no loss. */
static void test_interim_torn(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[4];
    struct mlw_chunk *k = begin(c, 0, 0, 9);
    fill(k, 10);
    const uint32_t whole = k->payload_bytes;
    memset((uint8_t *)(k + 1) + whole, 0xff, 64);
    k->payload_bytes = whole + 64;
    slots_interim(&c->slots, &c->shm, &c->sink, 1, &(uint64_t){UINT64_MAX});
    assert_int_equal(chunks_of(c, heads, 4), 0);
    k->payload_bytes = whole;
    slots_interim(&c->slots, &c->shm, &c->sink, 2, &(uint64_t){UINT64_MAX});
    assert_int_equal(chunks_of(c, heads, 4), 1);
    assert_int_equal(heads[0].calls, 10);
    assert_int_equal(heads[0].lost_calls, 0);
}

/* Killed at any moment: payload_bytes is behind the last whole row, or the memory is torn. */
static void test_finish_at_every_byte(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[8];
    struct mlw_chunk *k = begin(c, 0, 0, 0);
    uint32_t last = fill(k, 40);
    uint32_t whole = k->payload_bytes;
    for (uint32_t cut = 0; cut < last; cut++) {
        k->reserved[0] = MLW_SLOT_USED;
        k->payload_bytes = whole - cut;
        assert_int_equal(ftruncate(c->sink.fd, 0), 0);
        slots_finish(&c->slots, &c->shm, &c->sink, IMAGE);
        assert_int_equal(chunks_of(c, heads, 8), 1);
        assert_int_equal(heads[0].flags, MLW_CHUNK_RECOVERED);
        assert_int_equal(heads[0].payload_bytes, cut ? whole - last : whole);
        assert_int_equal(heads[0].calls, cut ? 39 : 40);
        assert_int_equal(heads[0].lost_calls, cut ? 1 : 0); /* the head had counted it */
        assert_int_equal(k->reserved[0], MLW_SLOT_FREE);
    }
}

static void test_finish_takes_all_and_only_its_own(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[80];
    for (uint32_t i = 0; i < MLW_WINDOW_SLOTS; i += 9)
        fill(begin(c, i, i, 0), 5);
    shm_slot(c->window, 9)->reserved[0] = MLW_SLOT_FULL;
    shm_slot(c->window, 18)->reserved[0] = MLW_SLOT_FREE;
    shm_slot(c->window, 27)->image = IMAGE + 1;
    shm_slot(c->window, 36)->magic = 0;
    begin(c, 2, 2, 0); /* no rows */
    slots_finish(&c->slots, &c->shm, &c->sink, IMAGE);
    assert_int_equal(chunks_of(c, heads, 80), 8 - 3);
}

/* A buffer full of anything: no crash, and what is written can be read. */
static void test_garbage(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[8];
    uint32_t x = 1;
    for (unsigned round = 0; round < 2000; round++) {
        struct mlw_chunk *k = begin(c, 0, 0, round);
        fill(k, 20);
        for (unsigned i = 0; i < 4; i++) {
            x = x * 1664525 + 1013904223;
            ((uint8_t *)k)[sizeof *k + (x >> 8) % (k->payload_bytes + 8)] = (uint8_t)(x >> 24);
        }
        x = x * 1664525 + 1013904223;
        k->payload_bytes = x % 7 == 0 ? x : k->payload_bytes;
        k->calls = x;
        assert_int_equal(ftruncate(c->sink.fd, 0), 0);
        slots_finish(&c->slots, &c->shm, &c->sink, IMAGE);
        assert_true(chunks_of(c, heads, 8) <= 1);
    }
}

static void test_windows_beyond_the_file(void **state)
{
    struct client *c = *state;
    c->me->window[1] = UINT32_MAX;
    c->me->window[2] = c->shm.windows;
    c->me->windows = UINT32_MAX;
    slots_refresh(&c->slots, &c->shm, c->me);
    assert_int_equal(c->slots.windows, MLW_PROCESS_WINDOWS);
    assert_null(c->slots.window[1]);
    assert_null(c->slots.window[2]);
    slots_drain(&c->slots, &c->shm, &c->sink);
    slots_interim(&c->slots, &c->shm, &c->sink, 1, &(uint64_t){UINT64_MAX});
    slots_finish(&c->slots, &c->shm, &c->sink, IMAGE);
}

/* Looking costs no memory, and what ended gives its memory back. */
static void test_memory(void **state)
{
    struct client *c = *state;
    struct stat before, with, after;
    fstat(c->shm.fd, &before);
    slots_drain(&c->slots, &c->shm, &c->sink);
    slots_interim(&c->slots, &c->shm, &c->sink, 1, &(uint64_t){UINT64_MAX});
    slots_finish(&c->slots, &c->shm, &c->sink, IMAGE);
    fstat(c->shm.fd, &with);
    assert_int_equal(with.st_blocks, before.st_blocks);
    fill(begin(c, 0, 0, 0), 100);
    fstat(c->shm.fd, &with);
    assert_true(with.st_blocks > before.st_blocks);
    slots_close(&c->slots, &c->shm, true);
    fstat(c->shm.fd, &after);
    assert_int_equal(after.st_blocks, before.st_blocks);
    assert_int_equal(shm_slot(c->window, 0)->magic, 0);
}

static void test_reserve(void **state)
{
    struct client *c = *state;
    struct mlw_chunk heads[80], k;
    uint8_t payload[200] = {1, 2, 3};
    assert_int_equal(sink_reserve(&c->sink, open(c->path, O_WRONLY), 2048), 0);
    k = (struct mlw_chunk){.type = MLW_CHUNK_MARK};
    assert_int_equal(sink_write(&c->sink, &k, payload, sizeof payload), 0);
    int fd = c->sink.fd;
    c->sink.fd = open("/dev/full", O_WRONLY);
    unsigned fitted = 0;
    for (unsigned i = 0; i < 10; i++) {
        k = (struct mlw_chunk){.type = MLW_CHUNK_END, .image = i};
        fitted += !sink_write_surely(&c->sink, &k, payload, sizeof payload);
    }
    close(c->sink.fd);
    c->sink.fd = fd;
    assert_int_equal(fitted, (2048 - sizeof k) / (sizeof k + sizeof payload));
    assert_int_equal(chunks_of(c, heads, 80), fitted + 2);
    for (unsigned i = 0; i < fitted; i++) {
        assert_int_equal(heads[i].type, MLW_CHUNK_END);
        assert_int_equal(heads[i].image, i);
    }
    assert_int_equal(heads[fitted].type, MLW_CHUNK_SPACE);
    assert_int_equal(heads[fitted + 1].type, MLW_CHUNK_MARK);
    close(c->sink.reserve_fd);
    c->sink.reserve_fd = -1;
}

static void test_torn_write(void **state)
{
    struct client *c = *state;
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    struct rlimit small = {1000, before.rlim_max};
    uint8_t payload[600] = {0};
    struct mlw_chunk k = {.type = MLW_CHUNK_EVENTS, .calls = 9};
    assert_int_equal(sink_write(&c->sink, &k, payload, sizeof payload), 0);
    setrlimit(RLIMIT_FSIZE, &small);
    assert_int_equal(sink_write(&c->sink, &k, payload, sizeof payload), -1);
    setrlimit(RLIMIT_FSIZE, &before);
    assert_int_equal(c->sink.failed, 1);
    assert_int_equal(c->sink.failed_calls, 9);
    assert_int_equal(c->sink.chunks, 1);
}

static void test_tlv(void **state)
{
    (void)state;
    uint8_t bytes[40];
    struct tlv t = {.bytes = bytes, .room = sizeof bytes};
    tlv_put_text(&t, MLW_TLV_LABEL, "abc");
    tlv_put_u32(&t, MLW_TLV_PPID, 7);
    assert_int_equal(t.n, 32);
    assert_memory_equal(bytes, "\x12\0\0\0\3\0\0\0abc\0\0\0\0\0\6\0\0\0\4\0\0\0\7\0\0\0\0\0\0\0",
                        32);
    assert_false(t.full);
    tlv_put_u32(&t, MLW_TLV_PPID, 7);
    assert_true(t.full);
    assert_int_equal(t.n, 32);
    tlv_put(&t, MLW_TLV_PPID, NULL, 0); /* nothing after what was left out */
    assert_int_equal(t.n, 32);
}

#define WITH_CLIENT(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CLIENT(test_drain),
        WITH_CLIENT(test_drain_that_cannot_write_counts),
        WITH_CLIENT(test_interim),
        WITH_CLIENT(test_interim_marks),
        WITH_CLIENT(test_interim_torn),
        WITH_CLIENT(test_finish_at_every_byte),
        WITH_CLIENT(test_finish_takes_all_and_only_its_own),
        WITH_CLIENT(test_garbage),
        WITH_CLIENT(test_windows_beyond_the_file),
        WITH_CLIENT(test_memory),
        WITH_CLIENT(test_reserve),
        WITH_CLIENT(test_torn_write),
        cmocka_unit_test(test_tlv),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
