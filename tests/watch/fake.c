/* fake.c - a process that says it is watched: it makes the shared memory of format/watch.h with
 * contents that a test chooses, by commands on standard input, and answers each with "ok".
 *
 *     alloc COUNT SIZE WEIGHT AGE_MS SITE TID    live samples
 *     free COUNT KIND LIFETIME_MS TID            releases the latest live ones (KIND 0 free, 1
 * realloc) error KIND OFFSET                          a memory error (enum mlw_watch_error_kind)
 *     torn                                       leaves a sample half written
 *     name NAME                                  the program's, before a reader looks
 *     state STATE STATUS                         enum mlw_watch_state
 *     period BYTES | dropped COUNT | show        show: "PERIOD ENABLED GUARD ON_ERROR READER"
 *
 * At the end of its input it exits with status 7; "crash" is SIGSEGV. Argument: the file to make;
 * without it /dev/shm/mallow-watch-PID-CLOCK. A second argument "damaged" spoils an offset. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "format/watch.h"

enum { MODULES = 4, SITES = 17, SAMPLES = 65536, FREES = 256, ERRORS = 8 };
enum {
    AT_MODULES = 4096,
    AT_SITES = AT_MODULES + MODULES * (int)sizeof(struct mlw_watch_module),
    AT_SAMPLES = AT_SITES + SITES * (int)sizeof(struct mlw_watch_site),
    AT_FREES = AT_SAMPLES + SAMPLES * (int)sizeof(struct mlw_watch_sample),
    AT_ERRORS = AT_FREES + FREES * (int)sizeof(struct mlw_watch_free),
    BYTES = AT_ERRORS + ERRORS * (int)sizeof(struct mlw_watch_error)
};

static char *file;
static struct mlw_watch *head;
static uint32_t live; /* samples [0, live) */

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Names for stacks to have. */
#define NAMED(name)                                                                                \
    __attribute__((noinline)) void name(void);                                                     \
    void name(void) { __asm__ volatile("nop;nop;nop;nop;nop;nop;nop;nop"); }
NAMED(leaks_here)
NAMED(caches_here)
NAMED(xmalloc)
NAMED(serves_requests)
NAMED(runs_the_server)
NAMED(frees_here)
NAMED(many_1)
NAMED(many_2)
NAMED(many_3)
NAMED(many_4)
NAMED(many_5)
NAMED(many_6)
NAMED(many_7)
NAMED(many_8)
NAMED(many_9)
NAMED(many_10)
NAMED(many_11)
NAMED(many_12)
NAMED(many_13)

static void (*const stacks[SITES][4])(void) = {
    {leaks_here, serves_requests, runs_the_server},
    {caches_here, serves_requests, runs_the_server},
    {xmalloc, leaks_here, runs_the_server},
    {frees_here, serves_requests, runs_the_server},
    /* many, for a table that is longer than its screen */
    {many_1, runs_the_server},
    {many_2, runs_the_server},
    {many_3, runs_the_server},
    {many_4, runs_the_server},
    {many_5, runs_the_server},
    {many_6, runs_the_server},
    {many_7, runs_the_server},
    {many_8, runs_the_server},
    {many_9, runs_the_server},
    {many_10, runs_the_server},
    {many_11, runs_the_server},
    {many_12, runs_the_server},
    {many_13, runs_the_server},
};

static uint64_t frame(void (*f)(void)) { return ((uint64_t)(uintptr_t)f + 4) | 1ull << 48; }

static struct mlw_watch_stack stack_of(unsigned site)
{
    struct mlw_watch_stack s = {0};
    while (s.frames < 4 && stacks[site][s.frames]) {
        s.frame[s.frames] = frame(stacks[site][s.frames]);
        s.frames++;
    }
    return s;
}

static struct mlw_watch_site *site(unsigned i)
{
    return (void *)(file + AT_SITES + i * sizeof(struct mlw_watch_site));
}
static struct mlw_watch_sample *sample(unsigned i)
{
    return (void *)(file + AT_SAMPLES + i * sizeof(struct mlw_watch_sample));
}

static void write_module(void)
{
    struct mlw_watch_module *m = (void *)(file + AT_MODULES);
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[4096];
    unsigned long from = 0, to = 0;
    if (maps && fgets(line, sizeof line, maps))
        sscanf(line, "%lx-%lx", &from, &to);
    if (maps)
        fclose(maps);
    m->start = m->bias = from;
    m->end = from + (1u << 20);
    m->state = MLW_WATCH_MODULE_MAPPED;
    snprintf(m->path, sizeof m->path, "%.*s", (int)sizeof m->path - 1, head->exe);
    m->version = 2;
}

static void make(const char *path, const char *spoil)
{
    char name[64];
    uint64_t start = now();
    snprintf(name, sizeof name, MLW_WATCH_FILE_PREFIX "%d-%llu", (int)getpid(),
             (unsigned long long)start);
    int fd = open(path ? path : name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, BYTES))
        exit(1);
    file = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (file == MAP_FAILED)
        exit(1);
    head = (void *)file;
    *head = (struct mlw_watch){.version = MLW_WATCH_VERSION,
                               .state = MLW_WATCH_LIVE,
                               .pid = (uint32_t)getpid(),
                               .ppid = (uint32_t)getppid(),
                               .start_ns = start,
                               .start_realtime_ns = (uint64_t)time(NULL) * 1000000000u,
                               .file_bytes = BYTES,
                               .modules = MODULES,
                               .module_offset = AT_MODULES,
                               .sites = SITES,
                               .site_offset = AT_SITES,
                               .samples = SAMPLES,
                               .sample_offset = AT_SAMPLES,
                               .frees = FREES,
                               .free_offset = AT_FREES,
                               .errors = ERRORS,
                               .error_offset = AT_ERRORS,
                               .settings = {.enabled = 1, .period = MLW_WATCH_PERIOD_DEFAULT}};
    ssize_t n = readlink("/proc/self/exe", head->exe, sizeof head->exe - 1);
    head->exe[n > 0 ? n : 0] = 0;
    memcpy(head->command, "fake\0argument", 14);
    for (unsigned i = 0; i < SITES; i++) {
        site(i)->stack = stack_of(i);
        site(i)->hash = i + 1;
        site(i)->version = 2;
    }
    write_module();
    if (spoil)
        head->sample_offset = BYTES - 64;
    __atomic_store_n(&head->magic, MLW_WATCH_MAGIC, __ATOMIC_RELEASE);
}

/* The sums change last, and at once: who looks meanwhile must not see a footprint that no test
 * asked for. */
static void alloc(unsigned count, uint64_t size, uint64_t weight, uint64_t age_ms, unsigned at,
                  unsigned tid)
{
    const uint32_t before = live;
    for (unsigned i = 0; i < count && live < SAMPLES; i++, live++) {
        struct mlw_watch_sample *s = sample(live);
        uint32_t version = s->version;
        __atomic_store_n(&s->version, version + 1, __ATOMIC_RELEASE);
        *s = (struct mlw_watch_sample){.version = version + 1,
                                       .flags = MLW_WATCH_SAMPLE_LIVE,
                                       .address = 0x10000000 + (uint64_t)live * 4096,
                                       .size = size,
                                       .weight = weight,
                                       .time_ns = now() - age_ms * 1000000,
                                       .site = at,
                                       .tid = tid,
                                       .site_version = site(at)->version};
        __atomic_store_n(&s->version, version + 2, __ATOMIC_RELEASE);
        site(at)->live++;
        site(at)->samples++;
        site(at)->bytes += size;
        site(at)->weight += weight;
        site(at)->blocks_q8 += 256 * weight / size;
    }
    if (live > head->samples_used)
        __atomic_store_n(&head->samples_used, live, __ATOMIC_RELEASE);
    head->counters.samples += live - before;
    head->counters.sample_bytes += (live - before) * size;
    __atomic_fetch_add(&head->counters.sample_weight, (live - before) * weight, __ATOMIC_RELEASE);
}

static void release(unsigned count, unsigned kind, uint64_t lifetime_ms, unsigned tid)
{
    const uint64_t time_ns = now();
    for (; count && live; count--) {
        struct mlw_watch_sample *s = sample(--live);
        struct mlw_watch_free *f =
            (void *)(file + AT_FREES + head->next_free % FREES * sizeof(struct mlw_watch_free));
        struct mlw_watch_site *from = site(s->site);
        uint32_t version = f->version;
        f->version = version + 1;
        *f = (struct mlw_watch_free){.version = version + 1,
                                     .kind = kind,
                                     .number = head->next_free,
                                     .address = s->address,
                                     .size = s->size,
                                     .weight = s->weight,
                                     .allocated_ns = time_ns - lifetime_ms * 1000000,
                                     .freed_ns = time_ns,
                                     .new_size = kind ? 2 * s->size : 0,
                                     .site = s->site,
                                     .site_version = s->site_version,
                                     .free_site = 3,
                                     .free_site_version = site(3)->version,
                                     .allocated_tid = s->tid,
                                     .freed_tid = tid};
        __atomic_store_n(&f->version, version + 2, __ATOMIC_RELEASE);
        __atomic_store_n(&head->next_free, head->next_free + 1, __ATOMIC_RELEASE);
        from->live--;
        from->freed_samples++;
        from->freed_bytes += s->size;
        from->freed_weight += s->weight;
        from->freed_blocks_q8 += 256 * s->weight / s->size;
        from->freed_byte_us += s->weight * lifetime_ms * 1000;
        from->freed_elsewhere += tid != s->tid;
        head->counters.frees++;
        head->counters.free_weight += s->weight;
        s->version++;
        s->flags = 0;
        __atomic_store_n(&s->version, s->version + 1, __ATOMIC_RELEASE);
    }
}

static void catch_error(unsigned kind, long offset)
{
    struct mlw_watch_error *e =
        (void *)(file + AT_ERRORS + head->next_error % ERRORS * sizeof(struct mlw_watch_error));
    uint32_t version = e->version;
    const uint64_t time_ns = now();
    *e = (struct mlw_watch_error){
        .version = version + 1,
        .kind = kind,
        .number = head->next_error,
        .flags = MLW_WATCH_ERROR_BLOCK | MLW_WATCH_ERROR_WRITE |
                 (kind >= MLW_WATCH_USE_AFTER_FREE ? MLW_WATCH_ERROR_FREED : 0),
        .time_ns = time_ns,
        .address = 0x20000000,
        .access_address = 0x20000000 + (uint64_t)offset,
        .size = 100,
        .offset = offset,
        .allocated_ns = time_ns - 1000000000,
        .freed_ns = time_ns - 500000000,
        .tid = 11,
        .allocated_tid = 12,
        .freed_tid = 13,
        .access = stack_of(1),
        .allocation = stack_of(0)};
    if (kind >= MLW_WATCH_USE_AFTER_FREE)
        e->release = stack_of(3);
    __atomic_store_n(&e->version, version + 2, __ATOMIC_RELEASE);
    __atomic_store_n(&head->next_error, head->next_error + 1, __ATOMIC_RELEASE);
    head->counters.errors++;
}

static void obey(const char *line)
{
    unsigned a, b, c, d;
    unsigned long long size, weight, age;
    long offset;
    if (sscanf(line, "alloc %u %llu %llu %llu %u %u", &a, &size, &weight, &age, &b, &c) == 6)
        alloc(a, size, weight, age, b, c);
    else if (sscanf(line, "free %u %u %llu %u", &a, &b, &age, &c) == 4)
        release(a, b, age, c);
    else if (sscanf(line, "error %u %ld", &a, &offset) == 2)
        catch_error(a, offset);
    else if (sscanf(line, "state %u %u", &a, &d) == 2) {
        head->exit_status = d;
        __atomic_store_n(&head->state, a, __ATOMIC_RELEASE);
    } else if (sscanf(line, "period %llu", &size) == 1)
        head->settings.period = size;
    else if (sscanf(line, "dropped %llu", &size) == 1)
        head->counters.dropped_full = size;
    else if (!strncmp(line, "name ", 5))
        snprintf(head->command, sizeof head->command, "%.*s", (int)strcspn(line + 5, "\n"),
                 line + 5);
    else if (!strncmp(line, "torn", 4)) {
        alloc(1, 100, 1000, 0, 0, 1);
        sample(live - 1)->version |= 1;
    } else if (!strncmp(line, "show", 4))
        printf("%llu %u %u %u %u ", (unsigned long long)head->settings.period,
               head->settings.enabled, head->settings.guard_share, head->settings.on_error,
               head->settings.reader_pid);
    else if (!strncmp(line, "crash", 5))
        raise(SIGSEGV);
    else
        exit(2);
}

int main(int argc, char **argv)
{
    char line[256];
    make(argc > 1 && *argv[1] ? argv[1] : NULL, argc > 2 ? argv[2] : NULL);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        obey(line);
        puts("ok");
        fflush(stdout);
    }
    return 7;
}
