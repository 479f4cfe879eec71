/* heap_stages.c - what each stage of `mallow heap` takes: wall and processor time, page faults.
 *
 * Usage: heap_stages PID|CORE|SAVED [THREADS [MEMORY [1]]]
 * THREADS 0: as many as there are processors. MEMORY: bytes that the tables may take; 0: all. 1:
 * the process is stopped while it is read. One line a stage; then what was found, and the most
 * memory that it took. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "heap/heap.h"

struct moment {
    uint64_t wall_ns;
    struct rusage used;
};

static double seconds(struct timeval a, struct timeval b)
{
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_usec - a.tv_usec) / 1e6;
}

static void stage(void *arg, uint64_t done, uint64_t total)
{
    static const char *const names[] = {"",      "stop, copy, walk", "roots",   "scan",
                                        "types", "references",       "the rest"};
    struct moment *last = arg, now = {.wall_ns = clock_monotonic_ns()};
    (void)total;
    getrusage(RUSAGE_SELF, &now.used);
    if (done && done < sizeof names / sizeof *names)
        printf("%-18s wall %7.3f s  user %7.3f  system %7.3f  faults %8ld  most %6.0f MB\n",
               names[done], (double)(now.wall_ns - last->wall_ns) / 1e9,
               seconds(last->used.ru_utime, now.used.ru_utime),
               seconds(last->used.ru_stime, now.used.ru_stime),
               now.used.ru_minflt - last->used.ru_minflt, (double)now.used.ru_maxrss / 1024);
    *last = now;
}

int main(int argc, char **argv)
{
    struct moment last = {0};
    struct error err;
    if (argc < 2)
        return 2;
    struct heap_options how = {.progress = stage,
                               .progress_arg = &last,
                               .threads = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 0,
                               .memory_bytes = argc > 3 ? strtoull(argv[3], NULL, 10) : 0,
                               .no_snapshot = argc > 4 && *argv[4] == '1'};
    struct heap *h = heap_read(argv[1], &how, &err);
    if (!h) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    const struct heap_facts *f = heap_facts(h);
    struct moment end = last;
    size_t rows;
    heap_table(h, HEAP_BY_TYPE, &rows, &err);
    heap_table(h, HEAP_BY_ROOT, &rows, &err);
    getrusage(RUSAGE_SELF, &end.used);
    printf("tables             wall %7.3f s  user %7.3f  system %7.3f\n",
           (double)(clock_monotonic_ns() - last.wall_ns) / 1e9,
           seconds(last.used.ru_utime, end.used.ru_utime),
           seconds(last.used.ru_stime, end.used.ru_stime));
    printf("all: user %.3f s, system %.3f s, most memory %.0f MB, %.1f bytes a block\n",
           seconds((struct timeval){0}, end.used.ru_utime),
           seconds((struct timeval){0}, end.used.ru_stime), (double)end.used.ru_maxrss / 1024,
           (double)end.used.ru_maxrss * 1024 / (double)f->blocks);
    if (f->file_bytes)
        printf("in temporary files, at most: %.0f MB\n", (double)f->file_bytes / 1048576);
    printf("%s, verified %d, %" PRIu64 " blocks, %" PRIu64 " bytes, %" PRIu64
           " references, unreachable %" PRIu64 ", stood still %.1f ms\n",
           f->source, f->verified, f->blocks, f->used_bytes, f->references, f->unreachable_blocks,
           (double)f->stopped_ns / 1e6);
    heap_free(h);
    return 0;
}
