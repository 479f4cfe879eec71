/* ledger.c - a program that knows its own memory, for the table of glibc's versions: versions.py.
 *
 * Four threads and main hold blocks, caches and stacks of known sizes. Then it writes what is true
 * of them, as lines of KEY VALUE, to the file of argv[1], and waits for the end of its input. It
 * needs no symbol that is newer than glibc 2.31. */
#define _GNU_SOURCE
#include <alloca.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    THREADS = 4,
    OWN = 20000,        /* blocks of main; every third is freed */
    THREADS_OWN = 4000, /* blocks of a thread; every second is freed */
    PAGES = 64,         /* blocks of 64 KiB in a row, of which the last stays */
    STACK_BYTES = 512 << 10,
    LARGE_BYTES = 3 << 20
};

struct ledger {
    uint64_t blocks, requested, usable, mapped_blocks, mapped_usable;
};

static struct ledger sums[THREADS + 1];
static void *kept[THREADS + 1][OWN + PAGES + 8];
static pthread_barrier_t done, over;

static void note(struct ledger *l, void *p, size_t bytes)
{
    if (!p)
        abort();
    const size_t usable = malloc_usable_size(p);
    memset(p, 0x5a, bytes); /* resident, and refers to nothing */
    l->blocks++;
    l->requested += bytes;
    l->usable += usable;
    if (((size_t *)p)[-1] & 2) { /* IS_MMAPPED: a mapping of its own */
        l->mapped_blocks++;
        l->mapped_usable += usable;
    }
}

static void forget(struct ledger *l, void *p, size_t bytes)
{
    l->blocks--;
    l->requested -= bytes;
    l->usable -= malloc_usable_size(p);
    free(p);
}

static size_t size_of(unsigned i) { return 24 + (size_t)i * 7919 % 1800; }

static void *work(void *arg)
{
    const unsigned id = (unsigned)(uintptr_t)arg;
    struct ledger *l = &sums[id];
    volatile char *stack = alloca(STACK_BYTES);
    for (size_t i = 0; i < STACK_BYTES; i += 4096)
        stack[i] = 1;
    for (unsigned i = 0; i < THREADS_OWN; i++)
        note(l, kept[id][i] = malloc(size_of(i)), size_of(i));
    for (unsigned i = 0; i < THREADS_OWN; i += 2) {
        forget(l, kept[id][i], size_of(i));
        kept[id][i] = NULL;
    }
    note(l, kept[id][OWN] = malloc(300 << 10), 300 << 10);
    pthread_barrier_wait(&done);
    pthread_barrier_wait(&over);
    return NULL;
}

static FILE *out;
static char buffer[1 << 16];

static void write_sums(void)
{
    struct ledger all = {0};
    for (unsigned i = 0; i <= THREADS; i++) {
        all.blocks += sums[i].blocks;
        all.requested += sums[i].requested;
        all.usable += sums[i].usable;
        all.mapped_blocks += sums[i].mapped_blocks;
        all.mapped_usable += sums[i].mapped_usable;
    }
    fprintf(out, "blocks %lu\nrequested %lu\nusable %lu\nmapped_blocks %lu\nmapped_usable %lu\n",
            all.blocks, all.requested, all.usable, all.mapped_blocks, all.mapped_usable);
    static char text[8192];
    unsigned long size = 0, resident = 0, huge_kb = 0;
    int fd = open("/proc/self/statm", O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
        sscanf(text, "%lu %lu", &size, &resident);
    close(fd);
    fd = open("/proc/self/status", O_RDONLY);
    if (fd >= 0 && read(fd, text, sizeof text - 1) > 0) {
        const char *at = strstr(text, "HugetlbPages:");
        if (at)
            sscanf(at, "HugetlbPages: %lu", &huge_kb);
    }
    close(fd);
    fprintf(out, "resident %lu\n",
            resident * (unsigned long)sysconf(_SC_PAGESIZE) + (huge_kb << 10));
    fprintf(out, "stacks %lu\n", (unsigned long)THREADS * STACK_BYTES);
}

/* As of glibc's mallinfo2, which older ones lack. */
struct info {
    size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};

static void write_counts(void)
{
    struct info (*ask)(void) = (struct info(*)(void))dlsym(RTLD_DEFAULT, "mallinfo2");
    if (ask) {
        const struct info i = ask();
        fprintf(out,
                "arena %zu\nhblks %zu\nhblkhd %zu\nfsmblks %zu\nuordblks %zu\nfordblks "
                "%zu\nkeepcost %zu\n",
                i.arena, i.hblks, i.hblkhd, i.fsmblks, i.uordblks, i.fordblks, i.keepcost);
    }
    malloc_info(0, out);
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS];
    struct ledger *l = &sums[THREADS];
    if (argc < 2 || !(out = fopen(argv[1], "w")))
        return 2;
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    pthread_barrier_init(&done, NULL, THREADS + 1);
    pthread_barrier_init(&over, NULL, THREADS + 1);
    for (unsigned i = 0; i < OWN; i++)
        note(l, kept[THREADS][i] = malloc(size_of(i)), size_of(i));
    for (unsigned i = 0; i < PAGES; i++)
        note(l, kept[THREADS][OWN + i] = malloc(64 << 10), 64 << 10);
    note(l, kept[THREADS][OWN + PAGES] = malloc(100), 100);
    note(l, kept[THREADS][OWN + PAGES + 1] = malloc(LARGE_BYTES), LARGE_BYTES);
    for (unsigned i = 0; i < OWN; i += 3) {
        forget(l, kept[THREADS][i], size_of(i));
        kept[THREADS][i] = NULL;
    }
    for (unsigned i = 0; i < PAGES; i++) {
        forget(l, kept[THREADS][OWN + i], 64 << 10);
        kept[THREADS][OWN + i] = NULL;
    }
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i))
            abort();
    pthread_barrier_wait(&done);
    write_sums();
    write_counts();
    fflush(out);
    if (write(1, "ready\n", 6) != 6)
        return 2;
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    pthread_barrier_wait(&over);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
