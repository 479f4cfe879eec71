/* memory_victim.c - memory in known amounts, one thing for each argument:
 *   brk      grows the heap by stacks of its own, gives some back; anonymous mappings
 *   purge    gives memory back in each way, by stacks of its own, and fails to four times
 *   faults   touches known pages, each way in a function of its own; waits for a byte before,
 *            and prints getrusage's difference
 *   rss      becomes large, then smaller; prints what the kernel tells in smaps_rollup
 *   files    opens FILES files, or as many as the next argument says, and waits for a byte before
 *            and after
 *   flood    waits for a byte, then moves the end of the heap FLOOD times up and down; waits again
 *   large    touches LARGE_MB megabytes three times over
 *   zeros    the same, and all that it writes is zeros
 *   swapped  as large, and prints how many major faults getrusage counted
 * No stdio before the numbers are out: its buffers are memory, too. */
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

enum { PAGE = 4096, FILES = 300, LARGE_MB = 96, MAJOR = 64, FLOOD = 50000 };

static volatile char sink;

static char *pages(size_t n)
{
    char *p = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        exit(1);
    madvise(p, n * PAGE, MADV_NOHUGEPAGE);
    return p;
}

static void wait_byte(void)
{
    char c;
    if (read(STDIN_FILENO, &c, 1) != 1)
        exit(1);
}

static APART void grow_a(void)
{
    for (int i = 0; i < 10; i++)
        if (sbrk(65536) == (void *)-1)
            exit(1);
}

static APART void grow_b(void)
{
    for (int i = 0; i < 5; i++)
        if (sbrk(4096) == (void *)-1)
            exit(1);
}

static APART void shrink(void)
{
    for (int i = 0; i < 2; i++)
        if (sbrk(-32768) == (void *)-1)
            exit(1);
}

static APART void map_some(void)
{
    char *p[20];
    for (int i = 0; i < 20; i++)
        p[i] = pages(256);
    for (int i = 0; i < 10; i++)
        munmap(p[i], 256 * PAGE);
}

static APART void purge_dontneed(void)
{
    char *p = pages(64);
    for (int i = 0; i < 7; i++)
        madvise(p + (size_t)i * 8 * PAGE, 8 * PAGE, MADV_DONTNEED);
    madvise(p, 64 * PAGE, MADV_NORMAL);
    for (int i = 0; i < 4; i++)
        madvise(p + 1, PAGE, MADV_DONTNEED); /* it must begin at a page */
}

static APART void purge_free(void)
{
    char *p = pages(64);
    for (int i = 0; i < 3; i++)
        madvise(p, 16 * PAGE - 100, MADV_FREE);
}

static APART void purge_unmap(void)
{
    char *p = pages(256);
    munmap(p, 200 * PAGE);
    if (mremap(p + 200 * PAGE, 56 * PAGE, 6 * PAGE, 0) == MAP_FAILED)
        exit(1);
}

static APART void touch_write(char *p, int n)
{
    for (int i = 0; i < n; i++)
        p[(size_t)i * PAGE] = 1;
}

static APART void touch_read(const volatile char *p, int n)
{
    for (int i = 0; i < n; i++)
        sink = p[(size_t)i * PAGE];
}

static APART void touch_copy(char *p, int n)
{
    for (int i = 0; i < n; i++)
        p[(size_t)i * PAGE] = 2;
}

static APART void touch_file(const volatile char *p, int n)
{
    for (int i = 0; i < n; i++)
        sink = p[(size_t)i * PAGE];
}

static char *cold_file(void)
{
    char name[] = "memory_victim.XXXXXX", block[PAGE];
    int fd = mkstemp(name);
    unlink(name);
    memset(block, 7, sizeof block);
    for (int i = 0; i < MAJOR; i++)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            exit(1);
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    char *p = mmap(NULL, (size_t)MAJOR * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
    if (p == MAP_FAILED)
        exit(1);
    madvise(p, (size_t)MAJOR * PAGE, MADV_RANDOM);
    return p;
}

static void faults(void)
{
    struct rusage before, after;
    char *written = pages(1000), *looked = pages(200), *file = cold_file();
    int status;
    wait_byte();
    getrusage(RUSAGE_SELF, &before);
    touch_write(written, 1000);
    touch_read(looked, 200);
    touch_file(file, MAJOR);
    getrusage(RUSAGE_SELF, &after);
    pid_t child = fork();
    if (child == 0) {
        touch_copy(written, 100);
        _exit(0);
    }
    waitpid(child, &status, 0);
    printf("%ld %ld\n", after.ru_minflt - before.ru_minflt, after.ru_majflt - before.ru_majflt);
}

static void rss(void)
{
    char text[4096], *p = pages(10240);
    touch_write(p, 10240); /* 40 MB */
    madvise(p, (size_t)2560 * PAGE, MADV_DONTNEED);
    int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    ssize_t n = read(fd, text, sizeof text);
    if (n <= 0 || write(STDOUT_FILENO, text, (size_t)n) != n)
        exit(1);
}

static void files(int count)
{
    const struct rlimit all = {(rlim_t)count + 64, (rlim_t)count + 64};
    if (count > FILES && setrlimit(RLIMIT_NOFILE, &all))
        exit(1);
    wait_byte();
    for (int i = 0; i < count; i++)
        if (open("/dev/null", O_RDONLY) < 0)
            exit(1);
    if (write(STDOUT_FILENO, "open\n", 5) != 5)
        exit(1);
    wait_byte();
}

static void flood(void)
{
    wait_byte();
    for (int i = 0; i < FLOOD; i++)
        if (sbrk(PAGE) == (void *)-1 || sbrk(-PAGE) == (void *)-1)
            exit(1);
    if (write(STDOUT_FILENO, "done\n", 5) != 5)
        exit(1);
    wait_byte();
}

/* Larger than it may be: what it touches anew comes from swap. */
static void large(bool zeros)
{
    char *p = pages((size_t)LARGE_MB * 256);
    for (int i = 0; i < 3; i++)
        for (size_t n = 0; n < (size_t)LARGE_MB * 256; n++)
            p[n * PAGE + (size_t)i * 8] = zeros ? 0 : (char)(n % 255 + 1);
}

/* The same; says how many major faults that made. */
static void swapped(void)
{
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    large(false);
    getrusage(RUSAGE_SELF, &after);
    printf("%ld\n", after.ru_majflt - before.ru_majflt);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    if (!strcmp(what, "brk")) {
        grow_a();
        grow_b();
        shrink();
        map_some();
    } else if (!strcmp(what, "purge")) {
        purge_dontneed();
        purge_free();
        purge_unmap();
        grow_a();
        shrink();
    } else if (!strcmp(what, "faults"))
        faults();
    else if (!strcmp(what, "rss"))
        rss();
    else if (!strcmp(what, "files"))
        files(argc > 2 ? atoi(argv[2]) : FILES);
    else if (!strcmp(what, "flood"))
        flood();
    else if (!strcmp(what, "large") || !strcmp(what, "zeros"))
        large(*what == 'z');
    else if (!strcmp(what, "swapped"))
        swapped();
    else
        return 2;
    return 0;
}
