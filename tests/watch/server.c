/* server.c - a small server that leaks, for the tests of `mallow watch`.
 *
 *     server serve FILE      answers lines on a TCP port of 127.0.0.1 (written to FILE) until one
 * says "stop"; each request makes short-lived blocks, fills a bounded cache, and loses one block of
 * 2,000 bytes. Exits with 3. server churn MS LEAK CHURN   for MS milliseconds loses LEAK bytes in
 * blocks of 1,000 while CHURN bytes go through blocks of 32 to 96 KiB. server hold COUNT HOW  loses
 * COUNT blocks of 2,000 bytes, prints "ready", and then: wait (for input), crash, eat (memory
 * until there is none, 512 MB at most), grow (by as many MiB as each line of input says), fork (a
 * child does the same and both end), exec (becomes `server hold COUNT end`), end, raw-end (by a
 * system call of its own) */
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../victims/apart.h"

#define NEVER_INLINE APART

enum { CACHE = 256, LOST = 2000 };

static void *volatile lost; /* the latest; those before are unreachable */
static char *cache[CACHE];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

NEVER_INLINE static void forgets_to_free(size_t size)
{
    char *p = malloc(size);
    if (p)
        memset(p, 1, size);
    lost = p;
}

NEVER_INLINE static void remembers_answer(unsigned n)
{
    char *p = malloc(4000);
    pthread_mutex_lock(&lock);
    char *old = cache[n % CACHE];
    cache[n % CACHE] = p;
    pthread_mutex_unlock(&lock);
    free(old);
}

NEVER_INLINE static void works_on_request(unsigned n)
{
    char *volatile parts[8];
    for (unsigned i = 0; i < 8; i++)
        parts[i] = malloc(100 + (n * 37 + i * 1000) % 5000);
    for (unsigned i = 0; i < 8; i++)
        free(parts[i]);
}

NEVER_INLINE static void handles_request(unsigned n)
{
    works_on_request(n);
    remembers_answer(n);
    forgets_to_free(LOST);
}

static void *serves_connection(void *arg)
{
    int fd = (int)(long)arg;
    FILE *in = fdopen(fd, "r+");
    char line[64];
    static unsigned served;
    while (in && fgets(line, sizeof line, in)) {
        if (!strncmp(line, "stop", 4))
            exit(3);
        unsigned n = __atomic_fetch_add(&served, 1, __ATOMIC_RELAXED);
        handles_request(n);
        if (dprintf(fd, "%u\n", n) < 0)
            break;
    }
    if (in)
        fclose(in);
    return NULL;
}

static int serve(const char *file)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 16) ||
        getsockname(s, (struct sockaddr *)&at, &size))
        return 1;
    FILE *f = fopen(file, "w");
    if (!f)
        return 1;
    fprintf(f, "%d\n", ntohs(at.sin_port));
    fclose(f);
    for (;;) {
        long fd = accept(s, NULL, NULL);
        pthread_t t;
        if (fd < 0 || pthread_create(&t, NULL, serves_connection, (void *)fd))
            return 1;
        pthread_detach(t);
    }
}

static unsigned long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long)t.tv_sec * 1000 + (unsigned long)t.tv_nsec / 1000000;
}

NEVER_INLINE static void *churns(size_t size)
{
    char *volatile p = malloc(size);
    free(p);
    return NULL;
}

/* As much of both as is due, ten times a second or more. */
static int churn(unsigned long ms, unsigned long leak, unsigned long through)
{
    unsigned long start = now_ms(), leaked = 0, churned = 0;
    for (unsigned n = 0; leaked < leak || churned < through;) {
        unsigned long t = now_ms() - start;
        if (t > ms)
            t = ms;
        while (leaked < (unsigned long)((double)leak * (double)t / (double)ms)) {
            forgets_to_free(1000);
            leaked += 1000;
        }
        while (churned < (unsigned long)((double)through * (double)t / (double)ms)) {
            size_t size = 32768 + n++ * 7919 % 65536;
            churns(size);
            churned += size;
        }
        usleep(20000);
    }
    return 0;
}

/* Each line is a number of MiB, up to 512 in all. */
static void grows_as_asked(void)
{
    char line[64];
    for (long all = 0; fgets(line, sizeof line, stdin);) {
        for (long n = strtol(line, NULL, 10); n > 0 && all < 512; n--, all++)
            forgets_to_free(1 << 20);
        puts("grown");
        fflush(stdout);
    }
}

static int hold(int count, const char *how, const char *self)
{
    for (int i = 0; i < count; i++)
        forgets_to_free(LOST);
    if (!strcmp(how, "fork")) {
        if (fork() == 0)
            return hold(count, "end", self);
        int status;
        wait(&status);
        return WEXITSTATUS(status);
    }
    if (!strcmp(how, "exec")) {
        char number[16];
        snprintf(number, sizeof number, "%d", count);
        execl(self, "server", "hold", number, "end", (char *)NULL);
        return 1;
    }
    if (!strcmp(how, "end"))
        return 3;
    puts("ready");
    fflush(stdout);
    if (!strcmp(how, "raw-end"))
        syscall(SYS_exit_group, 3);
    if (!strcmp(how, "wait"))
        getchar();
    if (!strcmp(how, "crash"))
        *(volatile int *)8 = 1;
    for (int i = 0; i < 512 && !strcmp(how, "eat"); i++)
        forgets_to_free(1 << 20);
    if (!strcmp(how, "grow"))
        grows_as_asked();
    return 3;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "serve"))
        return serve(argv[2]);
    if (argc == 5 && !strcmp(argv[1], "churn"))
        return churn(strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                     strtoul(argv[4], NULL, 10));
    if (argc == 4 && !strcmp(argv[1], "hold"))
        return hold((int)strtol(argv[2], NULL, 10), argv[3], "/proc/self/exe");
    return 2;
}
