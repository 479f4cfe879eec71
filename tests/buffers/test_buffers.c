/* test_buffers.c - threads come, write rows and go, while a reader drains, copies and at last saves
 * their buffers: src/preload/record/stream.c and src/record/slots.c in one process, with doubles
 * for the rest of the library. Every row must come out once and in order, and every copy of a
 * buffer in use must be a prefix of it. Under ThreadSanitizer, the protocol between them must hold,
 * too. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "preload/record/recorder.h"
#include "record/shm.h"
#include "record/sink.h"
#include "record/slots.h"

enum { WAVES = 12, THREADS = 16, ROWS = 15000, STREAMS = WAVES * THREADS };

/* ThreadSanitizer forgets a thread before the last round of its destructors, in which the recorder
 * says goodbye: under it threads end without a word, as after a bare exit of the thread, and are
 * found gone by the sweep that begins at the 128th. */
#ifdef __SANITIZE_THREAD__
enum { GOODBYE = 0 };
#else
enum { GOODBYE = 1 };
#endif

/* Windows that are there from the beginning, and the first buffer that is taken. Threads of the
 * first wave add windows 1 and 2 at once. Not under ThreadSanitizer: it must see one address for
 * one byte, and a window that the recorder maps has an address of its own. */
#ifdef __SANITIZE_THREAD__
enum { WINDOWS_AT_START = MLW_PROCESS_WINDOWS, FIRST_BUFFER = 0 };
#else
enum { WINDOWS_AT_START = 1, FIRST_BUFFER = 2 * MLW_WINDOW_SLOTS - 1 };
#endif

/* ---- doubles ---- */

struct recorder recorder;
struct wiped_state wiped;
volatile uint32_t sys_closed, sys_inside;
static volatile uint32_t control_word = MLW_CTL_STARTED | MLW_CTL_ACTIVE;
static struct mlw_session session;
static struct mlw_process process;
static int memory_fd;   /* MLW_PROCESS_WINDOWS windows, sparse */
static uint8_t *memory; /* the same, mapped */

void *own_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}
void own_unmap(void *p, size_t bytes) { munmap(p, bytes); }
uint64_t clock_monotonic_ns(void) { return __builtin_ia32_rdtsc(); }
int process_output_fd(void) { return -1; } /* the only way out is through the reader */
int process_memory_fd(void) { return -1; }
void *process_map_window(uint32_t number)
{
    if (number >= MLW_PROCESS_WINDOWS)
        return NULL;
    void *p = mmap(NULL, MLW_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory_fd,
                   (off_t)number * MLW_WINDOW_BYTES);
    return p == MAP_FAILED ? NULL : p;
}
void process_say(const char *text) { (void)text; }
struct unwind_thread *unwind_thread_new(void) { return NULL; }
void unwind_thread_reset(struct unwind_thread *t) { (void)t; }
void unwind_thread_clear(struct unwind_thread *t) { (void)t; }
void heaps_forked(void) {}
bool process_has_parent(void) { return true; }

static void fail(const char *what, uint64_t a, uint64_t b)
{
    fprintf(stderr, "buffers: %s (%llu, %llu)\n", what, (unsigned long long)a,
            (unsigned long long)b);
    exit(1);
}

struct mlw_chunk *shm_map_window(const struct shm *s, uint32_t window)
{
    (void)s;
    if (window >= MLW_PROCESS_WINDOWS)
        fail("a window was counted before its number was known", window, process.windows);
    return (struct mlw_chunk *)(void *)(memory + (size_t)window * MLW_WINDOW_BYTES);
}
void shm_unmap_window(struct mlw_chunk *w) { (void)w; }
uint32_t shm_next_touched(const struct shm *s, uint32_t window, uint32_t slot)
{
    (void)s, (void)window;
    return slot;
}
void shm_punch_window(const struct shm *s, uint32_t window) { (void)s, (void)window; }

/* ---- what comes out ---- */

struct stream {
    uint32_t sequence; /* of the next chunk */
    uint64_t rows;     /* in order so far */
    uint64_t ends;
} streams[STREAMS];
static uint64_t chunks, interim_chunks, recovered;

/* Decodes a chunk; checks that its rows go on from `first`. Returns how many there are. */
static uint64_t check_rows(const struct mlw_chunk *head, const uint8_t *payload, uint32_t bytes,
                           uint64_t first, uint64_t *ends)
{
    struct mlw_row_state state = {head->base_clock, head->base_address};
    struct mlw_row row;
    const uint8_t *p = payload, *end = payload + bytes;
    uint64_t n = 0, clock = head->base_clock;
    while (p < end) {
        p = mlw_row_decode(p, end, &state, &row);
        if (!p)
            fail("a row cannot be decoded", head->thread, n);
        if (row.op == MLW_OP_META) {
            *ends += row.meta == MLW_META_THREAD_END;
            continue;
        }
        if (row.size != first + n || row.address != (row.size * 64 + head->thread) << 4)
            fail("a row is not the next one of its stream", row.size, first + n);
        if (row.clock < clock)
            fail("time went back", row.clock, clock);
        clock = row.clock;
        n++;
    }
    return n;
}

int sink_write(struct sink *s, struct mlw_chunk *head, const void *payload, size_t bytes)
{
    (void)s;
    uint64_t ends = 0;
    if (head->thread >= STREAMS)
        fail("no such stream", head->thread, STREAMS);
    struct stream *st = &streams[head->thread];
    if (head->flags & MLW_CHUNK_INTERIM) {
        check_rows(head, payload, (uint32_t)bytes, head->first_call, &ends);
        __atomic_fetch_add(&interim_chunks, 1, __ATOMIC_RELAXED);
        return 0;
    }
    /* Buffers may be found in another order than they were handed over: wait for the next one. */
    static struct pending {
        struct mlw_chunk head;
        uint8_t payload[MLW_SLOT_BYTES];
        bool used;
    } pending[256];
    struct pending *room = NULL;
    for (size_t i = 0; i < sizeof pending / sizeof *pending && !room; i++)
        if (!pending[i].used)
            room = &pending[i];
    if (!room)
        fail("too many chunks out of order", head->thread, head->sequence);
    room->head = *head;
    memcpy(room->payload, payload, bytes);
    room->head.payload_bytes = (uint32_t)bytes;
    room->used = true;
    for (bool again = true; again;) {
        again = false;
        for (size_t i = 0; i < sizeof pending / sizeof *pending; i++) {
            struct pending *p = &pending[i];
            if (!p->used || p->head.thread != head->thread || p->head.sequence != st->sequence)
                continue;
            if (p->head.first_call != st->rows)
                fail("first_call is not what went before", p->head.first_call, st->rows);
            uint64_t n = check_rows(&p->head, p->payload, p->head.payload_bytes, st->rows, &ends);
            if (p->head.calls != n)
                fail("calls in the head are not those in the payload", p->head.calls, n);
            st->rows += n;
            st->ends += ends;
            ends = 0;
            st->sequence++;
            chunks++;
            recovered += !!(p->head.flags & MLW_CHUNK_RECOVERED);
            p->used = false;
            again = true;
        }
    }
    return 0;
}

int sink_write_surely(struct sink *s, struct mlw_chunk *head, const void *payload, size_t bytes)
{
    return sink_write(s, head, payload, bytes);
}

/* ---- the traced program ---- */

static void *write_rows(void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < ROWS; i++) {
        uint64_t sp = (uint64_t)&i;
        struct thread *t = thread_enter(sp);
        if (!t)
            fail("no state for a thread", i, 0);
        uint64_t address = (i * 64 + t->number) << 4;
        uint8_t *end = mlw_row_encode(t->position, &t->row, MLW_OP_MALLOC, MLW_F_ALLOC,
                                      clock_now(t->clock_kind), address, i, 0, 0, 0, 0, 0);
        stream_commit(t, end);
        thread_leave(t);
        if (i % 2000 == 1999)
            usleep(1500); /* the reader is to find buffers in use */
        while (t->number == 0 && i == 1000 && !__atomic_load_n(&interim_chunks, __ATOMIC_RELAXED))
            usleep(100); /* one at least: it stays until the reader has taken a copy */
    }
    return NULL;
}

static bool stop;

static void *read_buffers(void *arg)
{
    struct slots *s = arg;
    uint64_t now_ns = 0;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        slots_refresh(s, NULL, &process);
        slots_drain(s, NULL, NULL);
        now_ns += 600000000; /* copies are taken at most twice a second */
        slots_interim(s, NULL, NULL, now_ns,
                      now_ns / 600000000 % 3 == 0 ? &(uint64_t){UINT64_MAX} : NULL);
        usleep(200);
    }
    return NULL;
}

/* ---- a full buffer at the bound of a flight recorder (bound.c) ---- */

enum { PAIRS = 3000, LIVE = 10 };

/* A buffer of pairs that came and went, and of a few blocks that stay; in that state. */
static void fill_buffer(struct thread *t, uint64_t slot_state)
{
    static uint64_t buffer[MLW_SLOT_BYTES / 8];
    *t = (struct thread){.chunk = (struct mlw_chunk *)(void *)buffer};
    t->chunk->slot_state = MLW_SLOT_USED;
    stream_begin_chunk(t, 5, 100);
    for (uint32_t i = 0; i < PAIRS; i++) {
        const uint64_t address = 0x500000 + 64 * i;
        t->position = mlw_row_encode(t->position, &t->row, MLW_OP_MALLOC, MLW_F_ALLOC, i + 1,
                                     address, 64, 0, 0, 0, 0, 0);
        t->chunk->calls++;
        if (i < LIVE)
            continue;
        t->position = mlw_row_encode(t->position, &t->row, MLW_OP_FREE, MLW_F_ADDR, i + 1, address,
                                     0, 0, 0, 0, 0, 0);
        t->chunk->calls++;
    }
    t->chunk->payload_bytes = (uint32_t)(t->position - (uint8_t *)(t->chunk + 1));
    t->chunk->slot_state = slot_state;
}

/* Has the file that much of its bound: whether the buffer stays, what is in it, and its number. */
static void expect(uint64_t slot_state, uint64_t file_bytes, bool stays, uint32_t calls,
                   uint32_t sequence)
{
    struct thread t;
    fill_buffer(&t, slot_state);
    const uint32_t all = t.chunk->calls;
    session.bound_bytes = 1600;
    session.file_bytes = file_bytes;
    if (bound_keeps_back(&t, true) != stays)
        fail("it should have stayed, or should not", slot_state, file_bytes);
    if (t.chunk->calls != calls || t.chunk->lost_calls + calls != all)
        fail("calls that are left", t.chunk->calls, calls);
    if (t.chunk->sequence != sequence || t.chunk->flags)
        fail("the number of the chunk", t.chunk->sequence, sequence);
    session.bound_bytes = 0;
}

static void test_bound(void)
{
    const uint32_t all = 2 * PAIRS - LIVE;
    recorder.output.fd = -1;
    expect(MLW_SLOT_USED, 1300, false, all, 5);   /* there is room */
    expect(MLW_SLOT_USED, 1450, true, LIVE, 5);   /* what came and went is left out, */
    expect(MLW_SLOT_COPIED, 1450, false, all, 5); /* but not when copies may be in the file */
    expect(MLW_SLOT_COPIED, 1550, true, 0, 6);    /* behind a copy another chunk begins */
    process.lost_bound = 0;
}

static void make_windows(void)
{
    const size_t bytes = (size_t)MLW_PROCESS_WINDOWS * MLW_WINDOW_BYTES;
    memory_fd = memfd_create("buffers", MFD_CLOEXEC);
    if (memory_fd < 0 || ftruncate(memory_fd, (off_t)bytes))
        fail("no memory", 0, 0);
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memory_fd, 0);
    if (memory == MAP_FAILED)
        fail("no memory", 0, 0);
    for (uint32_t w = 0; w < MLW_PROCESS_WINDOWS; w++)
        process.window[w] = UINT32_MAX;
    for (uint32_t w = 0; w < WINDOWS_AT_START; w++) {
        recorder.windows[w] = memory + (size_t)w * MLW_WINDOW_BYTES;
        recorder.window_number[w] = w + 1;
        process.window[w] = w;
    }
    process.windows = session.next_window = WINDOWS_AT_START;
    const uint32_t first = FIRST_BUFFER;
    recorder.slots_used = process.slots = first;
    for (uint32_t i = 0; i < first && i < MLW_WINDOW_SLOTS; i++) /* none comes back */
        ((struct mlw_chunk *)(void *)(memory + (size_t)i * MLW_SLOT_BYTES))->slot_state =
            MLW_SLOT_USED;
}

int main(void)
{
    make_windows();
    process.drain = 1; /* nothing can be written: every full buffer is handed over */
    recorder.session = &session;
    recorder.process = &process;
    recorder.pid = (uint32_t)getpid();
    recorder.image = 7;
    recorder.clock_kind = MLW_CLOCK_TSC;
    recorder.stack_mode = MLW_STACKS_NONE;
    wiped.control = &control_word;
    test_bound();
    if (GOODBYE)
        stream_key_init();

    static struct slots slots;
    pthread_t reader, writers[THREADS];
    if (pthread_create(&reader, NULL, read_buffers, &slots))
        fail("no thread", 0, 0);
    for (int wave = 0; wave < WAVES; wave++) {
        for (int i = 0; i < THREADS; i++)
            if (pthread_create(&writers[i], NULL, write_rows, NULL))
                fail("no thread", 0, 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(writers[i], NULL);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELEASE);
    pthread_join(reader, NULL);
    slots_refresh(&slots, NULL, &process);
    slots_drain(&slots, NULL, NULL);
    slots_finish(&slots, NULL, NULL, 7);

    uint64_t lost = process.lost_buffer + process.lost_nested + process.lost_sink;
    if (lost)
        fail("rows were lost", lost, 0);
    if (process.threads != STREAMS)
        fail("not a number for each thread", process.threads, STREAMS);
    for (uint32_t i = 0; i < STREAMS; i++)
        if (streams[i].rows != ROWS || streams[i].ends != GOODBYE)
            fail("a stream is not complete", streams[i].rows, streams[i].ends);
    if (chunks < STREAMS * 2 || !recovered)
        fail("the test did not reach every way out", chunks, recovered);
    if (process.windows < 3)
        fail("no window was added", process.windows, 3);
    if (!interim_chunks)
        fail("no copy of a buffer in use was taken", chunks, recovered);
    printf("buffers: %d streams of %d rows, whole and in order, in %llu chunks (%llu recovered, "
           "%llu copies)\n",
           STREAMS, ROWS, (unsigned long long)chunks, (unsigned long long)recovered,
           (unsigned long long)interim_chunks);
    slots_close(&slots, NULL, false);
    return 0;
}
