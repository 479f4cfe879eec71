/* false_segment.c - an ordinary process that says of itself that it is watched.
 *   false_segment SEGMENT hold|cut|rewrite|text|tables|laid|full [pid=N] [ppid=N] [start=N]
 * [bytes=N] [modules=N] [sites=N] [samples=N] [frees=N] [errors=N] [namespace=N] [seed=N] Makes
 * SEGMENT (%d in it is this process's id, %p the one and %s the start that it claims), with one
 * live sample of 1 GB, maps it, and holds its lock. hold: no more. cut: the file loses and regains
 * its memory, again and again. rewrite: its numbers change all the time. text: its name is made for
 * terminals. tables: they fill a file of `bytes`. full: tables of so many entries, one behind the
 * other, and all in use. Prints its pid when it is ready. */
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "format/watch.h"

enum {
    MODULES = 64,
    SITES = 256,
    SAMPLES = 1024,
    FREES = 64,
    ERRORS = 16,
    AT_MODULES = 4096,
    AT_SITES = AT_MODULES + MODULES * (int)sizeof(struct mlw_watch_module),
    AT_SAMPLES = AT_SITES + SITES * (int)sizeof(struct mlw_watch_site),
    AT_FREES = AT_SAMPLES + SAMPLES * (int)sizeof(struct mlw_watch_sample),
    AT_ERRORS = AT_FREES + FREES * (int)sizeof(struct mlw_watch_free),
    BYTES = AT_ERRORS + ERRORS * (int)sizeof(struct mlw_watch_error)
};

static uint64_t state = 88172645463325252u;

static uint64_t draw(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state >> 17;
}

static uint64_t number(int argc, char **argv, const char *name, uint64_t otherwise)
{
    size_t n = strlen(name);
    for (int i = 3; i < argc; i++)
        if (!strncmp(argv[i], name, n))
            return strtoull(argv[i] + n, NULL, 10);
    return otherwise;
}

static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t start_ns; /* as it claims */

static void name(char *to, size_t room, int argc, char **argv)
{
    size_t n = 0;
    for (const char *from = argv[1]; *from && n + 32 < room; from++) {
        if (*from != '%') {
            to[n++] = *from;
            continue;
        }
        const uint64_t pid = (uint64_t)getpid();
        from++;
        const uint64_t value = *from == 's'   ? start_ns
                               : *from == 'p' ? number(argc, argv, "pid=", pid)
                                              : pid;
        n += (size_t)snprintf(to + n, room - n, "%llu", (unsigned long long)value);
    }
    to[n] = 0;
}

static void fill(char *p, int argc, char **argv)
{
    struct mlw_watch *w = (void *)p;
    *w = (struct mlw_watch){.version = MLW_WATCH_VERSION,
                            .state = MLW_WATCH_LIVE,
                            .pid = (uint32_t)number(argc, argv, "pid=", (uint64_t)getpid()),
                            .ppid = (uint32_t)number(argc, argv, "ppid=", (uint64_t)getppid()),
                            .start_ns = start_ns,
                            .pid_namespace = number(argc, argv, "namespace=", 0),
                            .held = 1,
                            .file_bytes = number(argc, argv, "bytes=", BYTES),
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
                            .samples_used = 1,
                            .period_now = MLW_WATCH_PERIOD_DEFAULT,
                            .exe = "/bin/invented",
                            .command = "invented"};
    struct mlw_watch_site *s = (void *)(p + AT_SITES);
    *s = (struct mlw_watch_site){.version = 2,
                                 .live = 1,
                                 .samples = 1,
                                 .bytes = 1u << 30,
                                 .weight = 1u << 30,
                                 .blocks_q8 = 256,
                                 .stack = {.frames = 1, .frame = {0x1234}}};
    struct mlw_watch_sample *b = (void *)(p + AT_SAMPLES);
    *b = (struct mlw_watch_sample){.version = 2,
                                   .flags = MLW_WATCH_SAMPLE_LIVE,
                                   .address = 0x7000,
                                   .size = 1u << 30,
                                   .weight = 1u << 30,
                                   .time_ns = w->start_ns,
                                   .site_version = 2};
}

/* As many entries as fit, in tables that lie over one another, as those of a careless reader may.
 */
static void claim(char *p, uint64_t bytes)
{
    struct mlw_watch *w = (void *)p;
    w->site_offset = w->sample_offset = AT_MODULES;
    w->sites = (uint32_t)((bytes - AT_MODULES) / sizeof(struct mlw_watch_site));
    w->samples = w->samples_used =
        (uint32_t)((bytes - AT_MODULES) / sizeof(struct mlw_watch_sample));
}

/* The next table, of so many bytes. */
static void place(uint64_t *next, uint32_t *offset, uint64_t bytes)
{
    *offset = (uint32_t)*next;
    *next += bytes;
}

/* As many as are asked for, by as many stacks: each is another one, and as deep as can be. */
static void fill_tables(char *p, struct mlw_watch *w)
{
    struct mlw_watch_module *m = (void *)(p + w->module_offset);
    struct mlw_watch_site *s = (void *)(p + w->site_offset);
    struct mlw_watch_sample *b = (void *)(p + w->sample_offset);
    struct mlw_watch_free *f = (void *)(p + w->free_offset);
    for (uint32_t i = 0; i < w->modules; i++)
        m[i] = (struct mlw_watch_module){.version = 2, .start = i, .end = i + 1, .path = "/none"};
    for (uint32_t i = 0; i < w->sites; i++) {
        s[i] = (struct mlw_watch_site){.version = 2,
                                       .live = 1,
                                       .samples = 1,
                                       .bytes = 64,
                                       .weight = 64,
                                       .blocks_q8 = 256,
                                       .stack.frames = MLW_WATCH_FRAMES};
        for (uint32_t k = 0; k < MLW_WATCH_FRAMES; k++)
            s[i].stack.frame[k] = ((uint64_t)i * MLW_WATCH_FRAMES + k) * 16 + 0x1000;
    }
    for (uint32_t i = 0; i < w->samples; i++)
        b[i] = (struct mlw_watch_sample){.version = 2,
                                         .flags = MLW_WATCH_SAMPLE_LIVE,
                                         .address = 0x7000 + i * 64ull,
                                         .size = 64,
                                         .weight = 64,
                                         .time_ns = w->start_ns,
                                         .site = i % w->sites,
                                         .site_version = 2};
    for (uint32_t i = 0; i < w->frees; i++)
        f[i] = (struct mlw_watch_free){
            .version = 2, .number = i, .site = i % w->sites, .site_version = 2};
}

static void lay(char *p, uint64_t bytes, int argc, char **argv)
{
    struct mlw_watch *w = (void *)p;
    uint64_t next = AT_MODULES;
    w->modules = (uint32_t)number(argc, argv, "modules=", MODULES);
    w->sites = (uint32_t)number(argc, argv, "sites=", SITES);
    w->samples = w->samples_used = (uint32_t)number(argc, argv, "samples=", SAMPLES);
    w->frees = (uint32_t)number(argc, argv, "frees=", FREES);
    w->errors = (uint32_t)number(argc, argv, "errors=", ERRORS);
    w->next_free = w->frees;
    place(&next, &w->module_offset, (uint64_t)w->modules * sizeof(struct mlw_watch_module));
    place(&next, &w->site_offset, (uint64_t)w->sites * sizeof(struct mlw_watch_site));
    place(&next, &w->sample_offset, (uint64_t)w->samples * sizeof(struct mlw_watch_sample));
    place(&next, &w->free_offset, (uint64_t)w->frees * sizeof(struct mlw_watch_free));
    place(&next, &w->error_offset, (uint64_t)w->errors * sizeof(struct mlw_watch_error));
    if (next > bytes)
        exit(1);
}

/* Everything behind the head is numbers at the edges, under versions that are whole. */
static void invent(char *p)
{
    static const char *const paths[] = {"/bin/true", "/etc/shadow", "/dev/zero", "/proc/self/mem",
                                        "/tmp",      "\033[31m",    "/dev/tty",  "fifo"};
    static const uint64_t edges[] = {0,   1,  2,  ~0ull, 1ull << 63,     ~0ull >> 1, 1ull << 32,
                                     ~0u, 56, 57, 256,   0x7ffull << 52, 1ull << 47, 1ull << 48};
    struct mlw_watch *w = (void *)p;
    for (size_t i = AT_MODULES; i < BYTES; i += 8) {
        uint64_t v = draw();
        *(uint64_t *)(p + i) = v & 1 ? edges[(v >> 8) % (sizeof edges / 8)] : (v >> 8) & 0xffff;
    }
    for (unsigned i = 0; i < MODULES; i++) {
        struct mlw_watch_module *m = (void *)(p + AT_MODULES + i * sizeof *m);
        *m = (struct mlw_watch_module){.version = 2, .end = ~0ull};
        snprintf(m->path, sizeof m->path, "%s", paths[i % 8]);
    }
    for (unsigned i = 0; i < SITES; i++) {
        struct mlw_watch_site *s = (void *)(p + AT_SITES + i * sizeof *s);
        s->version = 2;
        s->stack.frames = (uint32_t)draw() % 60;
    }
    for (unsigned i = 0; i < SAMPLES; i++) {
        struct mlw_watch_sample *b = (void *)(p + AT_SAMPLES + i * sizeof *b);
        b->version = b->site_version = 2;
        b->flags = MLW_WATCH_SAMPLE_LIVE;
        b->site = (uint32_t)draw() % (SITES + 9);
    }
    for (unsigned i = 0; i < ERRORS; i++) {
        struct mlw_watch_error *e = (void *)(p + AT_ERRORS + i * sizeof *e);
        e->version = 2;
        e->number = i;
        e->kind = (uint32_t)draw() % 8;
    }
    w->samples_used = SAMPLES;
    w->next_free = FREES + 3;
    w->next_error = ERRORS;
}

/* Does not return. Single words, behind the fields that a reader checks once. */
static void rewrite(char *p)
{
    struct mlw_watch *w = (void *)p;
    for (;;) {
        size_t at = draw() % 4 ? AT_MODULES + draw() % (BYTES - AT_MODULES)
                               : offsetof(struct mlw_watch, samples_used) + draw() % 1024;
        *(volatile uint64_t *)(p + (at & ~7ul)) = draw() % 2 ? draw() : ~0ull - draw() % 3;
        if (draw() % 256 == 0)
            w->next_error++;
        if (draw() % 1024 == 0) {
            invent(p);
            usleep(1000);
        }
    }
}

/* Does not return. */
static void cut(int fd, const char *p)
{
    static char all[BYTES];
    memcpy(all, p, BYTES); /* and never touches p again: it may be without memory */
    for (;;) {
        usleep(700);
        if (ftruncate(fd, (off_t)(draw() % 3 * 4096)))
            exit(1);
        usleep(300);
        if (pwrite(fd, all, BYTES, 0) != BYTES)
            exit(1);
    }
}

int main(int argc, char **argv)
{
    char path[4096];
    if (argc < 3)
        return 2;
    const char *mode = argv[2];
    start_ns = number(argc, argv, "start=", now());
    name(path, sizeof path, argc, argv);
    state ^= number(argc, argv, "seed=", 0) * 0x9e3779b97f4a7c15u;
    const uint64_t bytes = number(argc, argv, "bytes=", BYTES);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) || ftruncate(fd, (off_t)bytes))
        return 1;
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return 1;
    fill(p, argc, argv);
    struct mlw_watch *w = (void *)p;
    if (!strcmp(mode, "text"))
        snprintf(w->exe, sizeof w->exe, "/bin/\033]0;title\007\033[31m\nline\xff\xe2\x80\xae");
    if (!strcmp(mode, "tables"))
        claim(p, bytes);
    if (!strcmp(mode, "rewrite"))
        invent(p);
    if (!strcmp(mode, "laid") || !strcmp(mode, "full"))
        lay(p, bytes, argc, argv);
    if (!strcmp(mode, "full"))
        fill_tables(p, w);
    __atomic_store_n(&w->magic, MLW_WATCH_MAGIC, __ATOMIC_RELEASE);
    printf("%d\n", (int)getpid());
    fflush(stdout);
    if (!strcmp(mode, "cut"))
        cut(fd, p);
    if (!strcmp(mode, "rewrite"))
        rewrite(p);
    for (;;)
        pause();
}
