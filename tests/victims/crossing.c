/* crossing.c - blocks that four threads, forked children and children of vfork make, resize and
 * release for one another, by every name that the allocator's functions have. Each block is looked
 * at whole. argv: STEPS [past], past: also by libc's handle and by glibc's names. Prints "whole".
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define SLOTS   512
#define THREADS 4
#define FORKS   10

struct block {
    uint32_t bytes;
    unsigned char fill, data[];
};

static struct block *_Atomic slot[SLOTS];
static void *(*mallocs[3])(size_t) = {malloc};
static void *(*reallocs[3])(void *, size_t) = {realloc};
static void (*frees[3])(void *) = {free};
static uint32_t ways = 1, steps;
static volatile sig_atomic_t ticks;

static void fail(const char *what)
{
    if (write(2, what, strlen(what)) > 0)
        abort();
}

static void look(const struct block *b)
{
    for (uint32_t i = 0; b && i < b->bytes; i++)
        if (b->data[i] != b->fill)
            fail("overwritten\n");
    if (b && malloc_usable_size((void *)b) < sizeof *b + b->bytes)
        fail("too small\n");
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 17;
    *seed ^= *seed << 5;
    return *seed % below;
}

static uint32_t size(uint32_t *seed)
{
    const uint32_t kind = draw(seed, 100);
    return draw(seed, kind < 60 ? 200 : kind < 95 ? 5000 : kind < 99 ? 100000 : 600000);
}

static struct block *taken(uint32_t *seed)
{
    return atomic_exchange(&slot[draw(seed, SLOTS)], NULL);
}

static struct block *resized(struct block *old, uint32_t bytes, uint32_t way)
{
    const uint32_t have = old ? old->bytes : 0;
    look(old);
    struct block *b = reallocs[way](old, sizeof *b + bytes);
    b->bytes = have < bytes ? have : bytes;
    if (old)
        look(b);
    return b;
}

static void step(uint32_t *seed)
{
    const uint32_t bytes = size(seed), way = draw(seed, ways);
    struct block *b = NULL, *old;
    switch (draw(seed, 6)) {
    case 0: b = calloc(1, sizeof *b + bytes); break;
    case 1: b = memalign(64, sizeof *b + bytes); break;
    case 2:
        if (posix_memalign((void **)&b, 4096, sizeof *b + bytes))
            fail("refused\n");
        break;
    case 3: b = resized(taken(seed), bytes, way); break;
    default: b = mallocs[way](sizeof *b + bytes);
    }
    b->bytes = bytes;
    b->fill = (unsigned char)draw(seed, 256);
    memset(b->data, b->fill, bytes);
    old = atomic_exchange(&slot[draw(seed, SLOTS)], b);
    look(old);
    frees[draw(seed, ways)](old);
}

static void *thread(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number * 7919 + 1;
    for (uint32_t i = 0; i < steps; i++)
        step(&seed);
    return NULL;
}

static void on_tick(int n) { ticks += n == SIGALRM; }

static void children(void)
{
    int status = 0;
    const pid_t child = fork();
    if (!child) {
        uint32_t seed = 77;
        for (int i = 0; i < 300; i++)
            step(&seed);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status)
        fail("a child died\n");
    const pid_t other = vfork();
    if (!other) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    if (waitpid(other, &status, 0) != other || status)
        fail("a child of vfork died\n");
}

int main(int argc, char **argv)
{
    static const struct itimerval often = {{0, 900}, {0, 900}};
    const struct sigaction on = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
    pthread_t t[THREADS];
    steps = argc > 1 ? (uint32_t)atol(argv[1]) : 1000;
    if (argc > 2) {
        static const char *const names[2][3] = {{"malloc", "realloc", "free"},
                                                {"__libc_malloc", "__libc_realloc", "__libc_free"}};
        void *libc = dlopen("libc.so.6", RTLD_NOW);
        for (ways = 1; ways < 3; ways++) {
            mallocs[ways] = (void *(*)(size_t))dlsym(libc, names[ways - 1][0]);
            reallocs[ways] = (void *(*)(void *, size_t))dlsym(libc, names[ways - 1][1]);
            frees[ways] = (void (*)(void *))dlsym(libc, names[ways - 1][2]);
        }
    }
    sigaction(SIGALRM, &on, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&t[i], NULL, thread, (void *)(i + 1));
    for (int i = 0; i < FORKS; i++)
        children();
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < SLOTS; i++) {
        look(slot[i]);
        free(slot[i]);
    }
    puts("whole");
    return 0;
}
