/* fuzz_workload.c - any bytes as a workload, as a trace and as a workload of dj/malloc: an error or
 * a sound workload, never harm.
 *
 * For libFuzzer: -DFUZZ_LIBRARY. With its own main: fuzz-workload SEED COUNT makes COUNT damaged
 * copies of small files that it writes itself, the same for the same seed. Checksums of chunks are
 * made right again, so that damage reaches what stands behind them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "workload/check.h"
#include "workload/djmalloc.h"
#include "workload/writer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t live;

static void count(void *arg, const struct workload_event *e)
{
    (void)arg;
    live += e->has_slot;
}

static void set_checksums(uint8_t *data, size_t size)
{
    size_t at = sizeof(struct workload_head);
    struct workload_chunk c;
    while (size >= sizeof c && at <= size - sizeof c) {
        memcpy(&c, data + at, sizeof c);
        uint64_t payload = (uint64_t)c.ops_bytes + c.runs_bytes + c.pace_bytes;
        if (c.magic != WORKLOAD_CHUNK_MAGIC || payload > size - at - sizeof c)
            return;
        c.checksum = workload_checksum(&c, data + at + sizeof c, payload);
        memcpy(data + at, &c, sizeof c);
        at += sizeof c + payload;
    }
}

/* What the check passes, the writers of dj/malloc's formats must digest, and what they write must
 * be read. */
static void try_workload(const char *path, int fd)
{
    struct workload w;
    struct error err;
    uint64_t changed;
    struct workload_written written;
    struct djmalloc_result result;
    if (workload_open(fd, &w, &err))
        return;
    int bad = workload_visit(&w, count, NULL, &err);
    workload_close(&w);
    char out[64], again[64];
    snprintf(out, sizeof out, "/tmp/fuzz-workload.%d.wl", (int)getpid());
    snprintf(again, sizeof again, "/tmp/fuzz-workload.%d.mwl", (int)getpid());
    for (enum djmalloc_kind kind = DJMALLOC_TRACE; kind <= DJMALLOC_WORKLOAD; kind++) {
        if (!djmalloc_write(path, kind, out, &changed, &err) != !bad)
            abort();
        if (!bad && djmalloc_convert(out, kind, again, &written, &result, &err))
            abort();
    }
    unlink(out);
    unlink(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size + 1);
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (!copy || fd < 0)
        abort();
    memcpy(copy, data, size);
    set_checksums(copy, size);
    if (write(fd, copy, size) != (ssize_t)size)
        abort();
    char path[64], out[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    snprintf(out, sizeof out, "/tmp/fuzz-workload.%d.mwl", (int)getpid());
    try_workload(path, fd);
    struct error err;
    struct workload_written written;
    struct djmalloc_result result;
    if (djmalloc_kind(path) != DJMALLOC_NEITHER &&
        !djmalloc_convert(path, djmalloc_kind(path), out, &written, &result, &err)) {
        /* what is made of anything must be sound */
        struct workload w;
        FILE *f = fopen(out, "rb");
        if (!f || workload_open(fileno(f), &w, &err) || workload_check(&w, &err))
            abort();
        workload_close(&w);
        fclose(f);
    }
    unlink(out);
    close(fd);
    free(copy);
    return 0;
}

#ifndef FUZZ_LIBRARY
static uint64_t state;

static uint64_t next_random(void) /* xorshift64* (Vigna) */
{
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545f4914f6cdd1du;
}

/* A workload with every kind of record. */
static void write_seed(const char *path)
{
    struct error err;
    struct workload_writer *w = workload_writer_new(path, &err);
    if (!w)
        abort();
    uint32_t main = workload_writer_thread(w, true, false, UINT64_MAX);
    uint32_t other = workload_writer_thread(w, false, true, 900), slot[40];
    uint64_t ns = 0;
    for (unsigned i = 0; i < 40; i++)
        slot[i] =
            workload_writer_allocate(w, i % 3 ? main : other, 1 + i % 2, 10 + i * 7, 0, ns += 9);
    workload_writer_failed(w, main, MLW_OP_POSIX_MEMALIGN, 3, 5, ns += 900);
    workload_writer_null(w, other, MLW_OP_FREE_ALIGNED_SIZED, 4, 16, ns);
    for (unsigned i = 0; i < 40; i++) {
        uint32_t thread = i % 2 ? main : other;
        if (i % 5 == 0) {
            if (i % 2)
                workload_writer_early(w, thread, slot[i], ns);
            slot[i] = workload_writer_reallocate(w, thread, MLW_OP_REALLOC, slot[i], i * 99, ns);
        }
        if (i % 7 == 0)
            workload_writer_reallocate_zero(w, thread, MLW_OP_REALLOCARRAY, slot[i], ns);
        else if (i % 11)
            workload_writer_release(w, thread, i % 3 ? MLW_OP_FREE : MLW_OP_FREE_SIZED, slot[i], i,
                                    0, ns);
    }
    for (unsigned i = 0; i < 20; i++)
        workload_writer_allocate(w, main, MLW_OP_MEMALIGN, i, 64, ns += 2000);
    if (workload_writer_finish(w, NULL, &err))
        abort();
}

static uint8_t *read_file(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *bytes = malloc(1 << 20);
    if (!f || !bytes)
        abort();
    *size = fread(bytes, 1, 1 << 20, f);
    fclose(f);
    return bytes;
}

static size_t make_trace(uint8_t *bytes)
{
    uint64_t k[8] = {1 | (uint64_t)255 << 32, 0x1234, 0, 8};
    memcpy(bytes, k, 64);
    for (unsigned i = 1; i < 60; i++) {
        uint64_t type = 1 + next_random() % 8;
        uint64_t r[8] = {(1 + next_random() % 3) | type << 32, (next_random() % 6) << 12,
                         (next_random() % 6) << 12, next_random() % 500, 64};
        memcpy(bytes + 64 * (size_t)i, r, 64);
    }
    return 60 * 64;
}

int main(int argc, char **argv)
{
    state = argc > 1 ? strtoull(argv[1], NULL, 10) * 2 + 1 : 1;
    unsigned long runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    char seed[64], foreign[64];
    snprintf(seed, sizeof seed, "/tmp/fuzz-workload-seed.%d.mwl", (int)getpid());
    snprintf(foreign, sizeof foreign, "/tmp/fuzz-workload-seed.%d.wl", (int)getpid());
    write_seed(seed);
    struct error err;
    uint64_t changed;
    if (djmalloc_write(seed, DJMALLOC_WORKLOAD, foreign, &changed, &err))
        abort();
    size_t sizes[3];
    uint8_t *files[3] = {read_file(seed, &sizes[0]), read_file(foreign, &sizes[1]),
                         malloc(64 * 64)};
    unlink(seed);
    unlink(foreign);
    uint8_t *bytes = malloc(1 << 20);
    if (!bytes || !files[2])
        abort();
    for (unsigned long i = 0; i < runs; i++) {
        unsigned kind = (unsigned)(i % 3);
        if (kind == 2)
            sizes[2] = make_trace(files[2]);
        memcpy(bytes, files[kind], sizes[kind]);
        size_t n = sizes[kind];
        for (unsigned k = (unsigned)(next_random() % 4); k; k--)
            bytes[next_random() % n] = next_random() % 4 ? (uint8_t)next_random() : 0xff;
        if (next_random() % 16 == 0)
            n = next_random() % n;
        LLVMFuzzerTestOneInput(bytes, n);
    }
    printf("%lu runs, %llu blocks seen\n", runs, (unsigned long long)live);
    for (unsigned i = 0; i < 3; i++)
        free(files[i]);
    free(bytes);
    return live ? 0 : 1;
}
#endif
