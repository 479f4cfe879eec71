/* seal_read.c - how fast recordings are sealed and read, and what each column costs.
 *   seal_read RAW SEALED [seal [THREADS]]   seals (with one thread), reads it back (unless only to
 *                                           seal), prints the figures, of CPU time */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "../tests/trace/every.h"
#include "trace/sealed/sealed.h"
#include "trace/trace.h"
#include "trust/place.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const struct error *e)
{
    fprintf(stderr, "seal_read: %s\n", e->text);
    return 1;
}

static int read_all(const char *path, unsigned columns, const char *name, uint64_t *events)
{
    struct error err;
    struct trace_open_options o = {.columns = columns};
    struct trace *t = trace_open(path, &o, &err);
    if (!t)
        return fail(&err);
    struct trace_batch b;
    double best = 1e9;
    for (int round = 0; round < 3; round++) {
        double start = now();
        uint64_t n = 0;
        int k;
        struct every all = {.trace = t};
        while ((k = every_next(&all, &b, &err)) > 0)
            n += b.n;
        every_rewind(&all);
        if (k < 0)
            return fail(&err);
        double took = now() - start;
        best = took < best ? took : best;
        *events = n;
    }
    printf("read %-14s %8.1f M events/s\n", name, (double)*events / best / 1e6);
    trace_close(t);
    return 0;
}

static void print_columns(const char *path, uint64_t events)
{
    static const char *const names[] = {
        "",        "code", "threads", "thread", "reference", "size",     "stack",  "time",
        "address", "far",  "other",   "usable", "path",      "argument", "resync", "begun"};
    uint64_t bytes[256] = {0}, heads = 0, facts = 0, raw[256] = {0};
    int fd = open(path, O_RDONLY);
    struct stat st;
    struct section_head h;
    struct error err;
    if (fd < 0 || fstat(fd, &st))
        return;
    for (uint64_t at = 0; at < (uint64_t)st.st_size;) {
        if (section_head_read(fd, at, (uint64_t)st.st_size, &h, &err) != 1)
            break;
        heads += h.header.header_bytes;
        for (unsigned i = 0; i < h.header.streams; i++)
            if (h.header.type == SEAL_BLOCK) {
                bytes[h.streams[i].id] += h.streams[i].stored_bytes;
                raw[h.streams[i].id] += h.streams[i].raw_bytes;
            } else {
                facts += h.streams[i].stored_bytes;
            }
        at += h.header.header_bytes + h.header.payload_bytes;
    }
    close(fd);
    for (unsigned i = 1; i < sizeof names / sizeof *names; i++)
        if (bytes[i])
            printf("column %-10s %7.3f B/event (raw %.3f)\n", names[i],
                   (double)bytes[i] / (double)events, (double)raw[i] / (double)events);
    printf("heads %.3f facts %.3f B/event\n", (double)heads / (double)events,
           (double)facts / (double)events);
}

int main(int argc, char **argv)
{
    struct trace_seal_result r;
    struct error err;
    uint64_t events;
    if (argc < 3 || argc > 5)
        return 2;
    const unsigned threads = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : 1;
    double start = now();
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct trust_place place;
    int raw = open(argv[1], O_RDONLY | O_CLOEXEC);
    if (trust_place_open(&place, argv[2], &err) ||
        trace_seal(raw, &place, threads, NULL, &r, NULL, NULL, &err))
        return fail(&err);
    double took = now() - start;
    clock_gettime(CLOCK_MONOTONIC, &to);
    const double wall =
        (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9;
    printf("events %" PRIu64 " calls %" PRIu64 " lost %" PRIu64 " damaged %" PRIu64 "\n", r.events,
           r.calls, r.lost_calls, r.damaged_bytes);
    printf("raw %.3f B/event, sealed %.3f B/event\n", (double)r.bytes_in / (double)r.events,
           (double)r.bytes_out / (double)r.events);
    printf("seal %.1f M events/s of CPU time, %.1f of wall time\n", (double)r.events / took / 1e6,
           (double)r.events / wall / 1e6);
    if (argc > 3) /* nothing more */
        return 0;
    if (read_all(argv[2], 256, "kind,op,slot", &events) ||
        read_all(argv[2], TRACE_COL_SIZE | TRACE_COL_STACK | TRACE_COL_TIME | TRACE_COL_THREAD,
                 "report", &events) ||
        read_all(argv[2], TRACE_COL_ALL, "all", &events))
        return 1;
    print_columns(argv[2], r.events);
    return 0;
}
