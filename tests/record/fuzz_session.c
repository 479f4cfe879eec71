/* fuzz_session.c - any bytes as the shared memory that a killed program left, in a session that its
 * recording names: what it held is read or left out, never harm. First the recording is only read;
 * then what was left is appended to it, and the result is read.
 *
 * For libFuzzer: -DFUZZ_LIBRARY. With its own main: fuzz-session SEED COUNT reads COUNT damaged
 * copies of a small session that it makes itself, the same for the same seed. */
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/row.h"
#include "format/session.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PROCESSES = 3, SLOTS = 4, SLOT = 512 };

/* What the bytes stand for. The rest of the session are holes. */
struct session_bytes {
    struct mlw_session head;
    struct mlw_process process[PROCESSES];
    uint8_t slot[SLOTS][SLOT]; /* 0 and 1 of the first window, the last of it, 0 of the second */
};

static char session[64], recording[64];
static uint32_t dead; /* an id that no process has */

static void clean(void)
{
    unlink(session);
    unlink(recording);
}

static void begin(void)
{
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        abort();
    dead = (uint32_t)pid;
    snprintf(session, sizeof session, "/dev/shm/mallow-%d-fuzz", (int)getpid());
    snprintf(recording, sizeof recording, "/dev/shm/fuzz-session-%d.mlw", (int)getpid());
    if (atexit(clean))
        abort();
}

struct text {
    uint8_t bytes[1024];
    uint32_t n;
};

static void put(struct text *t, uint16_t tag, const void *data, uint32_t n)
{
    memcpy(t->bytes + t->n, &tag, 2);
    memcpy(t->bytes + t->n + 4, &n, 4);
    memcpy(t->bytes + t->n + 8, data, n);
    t->n += 8 + ((n + 7u) & ~7u);
}

static void append(int fd, uint16_t type, uint64_t image, const struct text *t)
{
    struct mlw_chunk c = {.magic = MLW_CHUNK_MAGIC,
                          .type = type,
                          .header_bytes = sizeof c,
                          .payload_bytes = t->n,
                          .image = image,
                          .pid = image ? dead : 0,
                          .base_clock = 1000};
    c.checksum = mlw_chunk_checksum(&c, t->bytes);
    if (write(fd, &c, sizeof c) != sizeof c || write(fd, t->bytes, t->n) != (ssize_t)t->n)
        abort();
}

/* The recording that names the session, twice: for images 1 and 2. */
static struct stat write_recording(void)
{
    const uint32_t version = MLW_FORMAT_PLAIN, clock = MLW_CLOCK_MONOTONIC_NS;
    const uint64_t start[3] = {1000, 1000, 1000};
    struct text file = {.n = 0}, process = {.n = 0};
    struct stat st;
    int fd = open(recording, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    put(&file, MLW_TLV_VERSION, &version, 4);
    put(&file, MLW_TLV_CLOCK_KIND, &clock, 4);
    put(&file, MLW_TLV_START, start, sizeof start);
    put(&process, MLW_TLV_START, start, sizeof start);
    put(&process, MLW_TLV_EXE, "/bin/x", 6);
    put(&process, MLW_TLV_SESSION, session, (uint32_t)strlen(session));
    append(fd, MLW_CHUNK_FILE, 0, &file);
    append(fd, MLW_CHUNK_PROCESS, 1, &process);
    append(fd, MLW_CHUNK_PROCESS, 2, &process);
    if (fd < 0 || fstat(fd, &st) || close(fd))
        abort();
    return st;
}

/* What is needed to be believed is put right, unless the bytes say to leave it. */
static void write_session(const uint8_t *data, size_t size, const struct stat *st)
{
    static struct session_bytes b;
    const uint64_t at[SLOTS] = {mlw_window_offset(0), mlw_window_offset(0) + MLW_SLOT_BYTES,
                                mlw_window_offset(1) - MLW_SLOT_BYTES, mlw_window_offset(1)};
    memset(&b, 0, sizeof b);
    memcpy(&b, data, size < sizeof b ? size : sizeof b);
    if (b.head.options % 16 != 15) {
        b.head.magic = MLW_SESSION_MAGIC;
        b.head.version = MLW_SESSION_VERSION;
        b.head.parent_pid = 0;
        b.head.output_device = st->st_dev;
        b.head.output_inode = st->st_ino;
    }
    for (int i = 0; i < PROCESSES; i++) /* no process of this machine is looked into */
        if (b.process[i].pid)
            b.process[i].pid = dead;
    unlink(session);
    int fd = open(session, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const uint64_t bytes = size % 11 ? mlw_window_offset(2) : mlw_window_offset(1) + size;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || pwrite(fd, &b.head, sizeof b.head, 0) < 0 ||
        pwrite(fd, b.process, sizeof b.process, (off_t)mlw_process_offset(0)) < 0)
        abort();
    for (int i = 0; i < SLOTS; i++)
        if (at[i] < bytes && pwrite(fd, b.slot[i], SLOT, (off_t)at[i]) < 0)
            abort();
    close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct trace_open_options only_read = {.no_seal_in_place = true};
    struct error err = {.text = ""};
    struct stat before, after;
    if (!dead)
        begin();
    before = write_recording();
    write_session(data, size, &before);
    for (int i = 0; i < 2; i++) {
        if (i) { /* then what it appended is read */
            const int fd = open(recording, O_RDWR | O_APPEND | O_CLOEXEC);
            const unsigned saved = trace_recover(fd);
            close(fd);
            if (stat(recording, &after) || (!saved && after.st_size != before.st_size))
                abort();
        }
        struct trace *t = trace_open(recording, &only_read, &err);
        if (!t || trace_info(t)->image_count > 2)
            abort(); /* the recording itself is sound */
        trace_close(t);
    }
    return 0;
}

#ifndef FUZZ_LIBRARY
static struct session_bytes sound;

static void fill_slot(unsigned i, uint64_t image, uint64_t state)
{
    struct mlw_chunk *c = (void *)sound.slot[i];
    uint8_t *row = sound.slot[i] + sizeof *c;
    const uint16_t op = MLW_OP_META, bytes = 40;
    *c = (struct mlw_chunk){.magic = MLW_CHUNK_MAGIC,
                            .type = MLW_CHUNK_EVENTS,
                            .header_bytes = sizeof *c,
                            .image = image,
                            .pid = dead,
                            .thread = i,
                            .payload_bytes = 4 * (5 + bytes),
                            .slot_state = state};
    for (unsigned k = 0; k < 4; k++, row += 5 + bytes) {
        memcpy(row, &op, 2);
        row[2] = (uint8_t)(1 + k); /* a node, a module, and so on */
        memcpy(row + 3, &bytes, 2);
        memset(row + 5, (int)(k + i), bytes);
    }
}

static void make(void)
{
    sound.head.clock_kind = MLW_CLOCK_MONOTONIC_NS;
    sound.head.next_window = 2;
    sound.head.next_process = PROCESSES;
    for (unsigned i = 0; i < PROCESSES; i++)
        sound.process[i] = (struct mlw_process){.state = MLW_PROC_LIVE,
                                                .control = MLW_CTL_STARTED,
                                                .pid = dead,
                                                .image = 1 + i % 2,
                                                .windows = 2,
                                                .window = {0, 1},
                                                .slots = 128,
                                                .threads = 4};
    for (unsigned i = 0; i < SLOTS; i++)
        fill_slot(i, 1 + i % 2, i % 3 ? MLW_SLOT_USED : MLW_SLOT_FULL);
}

int main(int argc, char **argv)
{
    uint64_t rng = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    unsigned long count = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    static uint8_t bytes[sizeof sound];
    begin();
    make();
    LLVMFuzzerTestOneInput((const uint8_t *)&sound, sizeof sound);
    if (access(session, F_OK) == 0)
        abort(); /* it was sound: saved, and removed */
    for (unsigned long n = 0; n < count; n++) {
        static const size_t parts[] = {offsetof(struct session_bytes, process),
                                       offsetof(struct session_bytes, slot)};
        memcpy(bytes, &sound, sizeof sound);
        for (unsigned i = 0; i < 1 + n % 30; i++) {
            rng = rng * 6364136223846793005u + 1442695040888963407u;
            size_t at = rng >> 33;
            switch (n % 4) {
            case 0: at = parts[0] + at % (PROCESSES * sizeof(struct mlw_process)); break;
            case 1: at = parts[1] + at % SLOTS * SLOT + (at >> 8) % sizeof(struct mlw_chunk); break;
            case 2: at = parts[1] + at % (SLOTS * SLOT); break;
            default: at = at % sizeof sound; break;
            }
            bytes[at] = i % 3 ? (uint8_t)(rng >> 24) : rng >> 24 & 1 ? 0xff : 0;
        }
        LLVMFuzzerTestOneInput(bytes, n % 7 ? sizeof sound : (rng >> 40) % sizeof sound);
    }
    printf("fuzz-session: %lu damaged sessions did no harm\n", count);
    return 0;
}
#endif
