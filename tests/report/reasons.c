/* reasons.c - holds more memory than it uses, for one reason at a time, or two:
 *
 *   reasons REASON [remedy [trim]]   with `remedy`: the same program after it took the advice; with
 *                                    `trim` it calls malloc_trim(0) then
 *
 * Says "ready", waits for the end of stdin, ends. REASON is a name in the table at the end. */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../victims/apart.h"

enum {
    MB = 1 << 20,
    RECORDS = 160000,
    RECORD_BYTES = 200,
    SMALL_BYTES = 96,
    KEPT_OF = 16,
    THREADS = 8,
    EACH = 5000,
    EACH_BYTES = 1000,
    HOARDERS = 120,
    STACKS = 40,
    STACK_USED = 1000000
};

#define WORK APART

static int remedied;
static char *kept[RECORDS];

/* ---- survivors ---- */

WORK static void *parse(size_t size)
{
    static char *pool;
    static size_t left;
    if (!remedied)
        return malloc(size);
    if (left < size) {
        left = 1 * MB;
        pool = mmap(NULL, left, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
    left -= size;
    return pool + left;
}

WORK static void *scratch(size_t size) { return malloc(size); }

static void survivors(size_t size)
{
    for (int i = 0; i < RECORDS; i++)
        memset(kept[i] = i % KEPT_OF ? scratch(size) : parse(size), 1, size);
    for (int i = 0; i < RECORDS; i++)
        if (i % KEPT_OF)
            free(kept[i]);
}

static void fragmented(void) { survivors(RECORD_BYTES); }

/* ---- threads, one after the other; all stay ---- */

static pthread_barrier_t joined;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *work(void *unused)
{
    char *mine[EACH];
    pthread_barrier_wait(&joined); /* all are there: none gets the arena of one that has ended */
    pthread_mutex_lock(&turn);
    for (int i = 0; i < EACH; i++)
        memset(mine[i] = malloc(EACH_BYTES), 1, EACH_BYTES);
    for (int i = 0; i + 1 < EACH; i++)
        free(mine[i]);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&joined);
    for (;;)
        pause();
    return unused;
}

static void *hoard(void *unused)
{
    enum { KINDS = 64, OF_A_KIND = 7 };
    char *mine[KINDS * OF_A_KIND];
    pthread_barrier_wait(&joined);
    pthread_mutex_lock(&turn);
    for (int i = 0; i < KINDS * OF_A_KIND; i++)
        mine[i] = memset(malloc(24 + i / OF_A_KIND * 16), 1, 24 + i / OF_A_KIND * 16);
    for (int i = 0; i < KINDS * OF_A_KIND; i++)
        free(mine[i]);
    pthread_mutex_unlock(&turn);
    pthread_barrier_wait(&joined);
    for (;;)
        pause();
    return unused;
}

WORK static void deep(void)
{
    volatile char frame[STACK_USED];
    for (size_t i = 0; i < sizeof frame; i += 4096)
        frame[i] = 1;
}

static void *recurse(void *unused)
{
    if (!remedied)
        deep();
    pthread_barrier_wait(&joined);
    pthread_barrier_wait(&joined);
    for (;;)
        pause();
    return unused;
}

static void start(int n, void *(*what)(void *))
{
    pthread_t t;
    pthread_barrier_init(&joined, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++)
        if (pthread_create(&t, NULL, what, NULL))
            exit(2);
    pthread_barrier_wait(&joined);
    pthread_barrier_wait(&joined);
}

static void arenas(void) { start(THREADS, work); }
static void hoards(void) { start(HOARDERS, hoard); }
static void stacks(void) { start(STACKS, recurse); }

/* ---- the heap of one thread ---- */

WORK static void *session(size_t size) { return malloc(size); }

/* A small block above many that are gone. */
static void top(void)
{
    for (int i = 0; i < RECORDS / 4; i++)
        memset(kept[i] = scratch(EACH_BYTES), 1, EACH_BYTES);
    memset(session(EACH_BYTES), 1, EACH_BYTES);
    for (int i = 0; i < RECORDS / 4; i++)
        free(kept[i]);
    if (remedied)
        malloc_trim(0);
}

/* The free raises the size from which blocks have a mapping, and twice that is not given back. */
static void raise_threshold(void) { free(malloc(30 * MB)); }

static void threshold(void)
{
    char *image[8];
    raise_threshold();
    for (int i = 0; i < 8; i++)
        memset(image[i] = malloc(6 * MB), 1, 6 * MB);
    memset(session(EACH_BYTES), 1, EACH_BYTES);
    for (int i = 0; i < 8; i++)
        free(image[i]);
}

static void late(void)
{
    char *image[10];
    raise_threshold();
    for (int i = 0; i < 10; i++)
        memset(image[i] = malloc(4 * MB), 1, 4 * MB);
    for (int i = 0; i < 10; i++)
        free(image[i]);
}

WORK static void *grow(void *p, size_t size) { return realloc(p, size); }

/* Two buffers that grow in turn, so that none has room behind it. */
static void growth(void)
{
    static char *buffer[2];
    raise_threshold();
    for (size_t size = 64 << 10; size <= 16 * MB; size *= 2)
        for (int i = 0; i < 2; i++)
            memset((buffer[i] = grow(buffer[i], size)) + size / 2, 1, size / 2);
}

WORK static void *cache_entry(size_t size) { return malloc(size); }

static void leak(void)
{
    for (int i = 0; i < RECORDS; i++) {
        memset(kept[i] = cache_entry(RECORD_BYTES), 1, RECORD_BYTES);
        if (remedied)
            free(kept[i]);
    }
}

WORK static char *frame_buffer(size_t size) { return malloc(size); }

static void untouched(void)
{
    enum { USED = 6 * MB };
    for (int i = 0; i < 4; i++)
        memset(kept[i] = frame_buffer(remedied ? USED : 48 * MB), 1, USED);
}

/* Small enough for fastbins, which keep them apart from their free neighbors. */
static void fastbins(void)
{
    for (int i = 0; i < RECORDS; i++)
        memset(kept[i] = scratch(SMALL_BYTES), 1, SMALL_BYTES);
    for (int i = 0; i < RECORDS; i++)
        free(kept[i]);
}

/* ---- other ---- */

static void file(void)
{
    enum { LENGTH = 48 * MB };
    char name[] = "reasons-XXXXXX", block[4096] = {1};
    const int fd = mkstemp(name);
    if (fd < 0 || unlink(name))
        exit(2);
    for (int i = 0; i < LENGTH; i += (int)sizeof block)
        if (write(fd, block, sizeof block) != (ssize_t)sizeof block)
            exit(2);
    volatile char *map = mmap(NULL, LENGTH, PROT_READ, MAP_PRIVATE, fd, 0);
    for (int i = 0; i < LENGTH; i += 4096)
        (void)map[i];
    if (remedied)
        madvise((void *)map, LENGTH, MADV_DONTNEED);
}

/* ---- remedies that do not help, or less than addresses alone suggest ---- */

/* The blocks that keep the pages lie among freed ones of their own call site: a pool of it would be
 * as large. */
static void own(void)
{
    for (int i = 0; i < RECORDS; i++)
        memset(kept[i] = parse(RECORD_BYTES), 1, RECORD_BYTES);
    for (int i = 0; i < RECORDS; i++)
        if (i % KEPT_OF)
            free(kept[i]);
}

/* Half of what was freed was the same call site's. */
static void half(void)
{
    for (int i = 0; i < RECORDS; i++)
        memset(kept[i] = i % 2 ? scratch(RECORD_BYTES) : parse(RECORD_BYTES), 1, RECORD_BYTES);
    for (int i = 0; i < RECORDS; i++)
        if (i % KEPT_OF)
            free(kept[i]);
}

/* As `work`, but all at once: one arena would have to hold the same. */
static void *work_together(void *unused)
{
    char *mine[EACH];
    for (int i = 0; i < EACH; i++)
        memset(mine[i] = malloc(EACH_BYTES), 1, EACH_BYTES);
    pthread_barrier_wait(&joined);
    for (int i = 0; i + 1 < EACH; i++)
        free(mine[i]);
    pthread_barrier_wait(&joined);
    for (;;)
        pause();
    return unused;
}

static void together(void) { start(THREADS, work_together); }

/* The threshold was raised, but what is free were small blocks. */
static void small(void)
{
    raise_threshold();
    top();
}

static void two(void)
{
    survivors(RECORD_BYTES);
    start(THREADS / 2, work);
}

static const struct {
    const char *name;
    void (*what)(void);
} table[] = {{"survivors", fragmented},
             {"arenas", arenas},
             {"top", top},
             {"threshold", threshold},
             {"hoards", hoards},
             {"untouched", untouched},
             {"stacks", stacks},
             {"leak", leak},
             {"growth", growth},
             {"late", late},
             {"file", file},
             {"two", two},
             {"own", own},
             {"half", half},
             {"together", together},
             {"small", small},
             {"fastbins", fastbins}};

int main(int argc, char **argv)
{
    remedied = argc > 2;
    for (size_t i = 0; argc > 1 && i < sizeof table / sizeof *table; i++)
        if (!strcmp(argv[1], table[i].name)) {
            table[i].what();
            if (argc > 3)
                malloc_trim(0);
            puts("ready");
            fflush(stdout);
            while (getchar() != EOF)
                ;
            return 0;
        }
    return 2;
}
