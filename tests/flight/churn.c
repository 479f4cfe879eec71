/* churn.c - a program whose allocations are known, for tests of `mallow record --last`.
 *
 * churn THREADS ROUNDS [fork] [end=segv|kill|wait|grow] [mark=N] [rest=MICROSECONDS] [pause=FILE]
 *
 * At first it makes 100 blocks of 1000 to 1099 bytes from `early`, which live to the end. Then each
 * thread runs ROUNDS rounds of fixed work: temporary blocks, blocks that live for 64 rounds, blocks
 * that are resized, and every 16th round one that the next thread releases. Every 4096th round each
 * thread keeps a block of 48 bytes from `keep_one`. It rests every 256 rounds. At the end every
 * thread makes 200 blocks of 5000 to 5199 bytes from `late`, in this order, and releases the odd
 * ones.
 *
 * end=wait: the same once more for each byte that it reads; it writes a line before. end=grow: 256
 * blocks of a megabyte from `late`, with the same in between, which is a megabyte, too; after the
 * 32nd, at 64 MB, it waits for FILE. */
#include <mallow.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

#define MAX_THREADS 16
#define HELD        64

static const char *pause_file;
static long threads, rounds, mark_every, rest_us;
static _Atomic(void *) mailbox[MAX_THREADS];
static void *volatile kept[1 << 20];
static atomic_long kept_count;

APART static void *early(size_t n) { return malloc(n); }
APART static void *keep_one(size_t n) { return malloc(n); }
APART static void *late(size_t n) { return malloc(n); }
APART static void *work(size_t n) { return malloc(n); }

static void keep(void *p) { kept[atomic_fetch_add(&kept_count, 1) % (1 << 20)] = p; }

static void *run(void *arg)
{
    const long me = (long)arg;
    void *held[HELD] = {0};
    void *grown = NULL;
    for (long i = 0; i < rounds; i++) {
        free(work(16 + (size_t)(i % 200)));
        free(held[i % HELD]);
        held[i % HELD] = work(100 + (size_t)(i % 50));
        grown = realloc(grown, 64 + (size_t)(i % 32) * 40);
        if (i % 16 == 0)
            free(atomic_exchange(&mailbox[(me + 1) % threads], work(300)));
        if (i % 4096 == 0)
            keep(keep_one(48));
        if (rest_us && i % 256 == 0)
            usleep((useconds_t)rest_us);
        if (mark_every && !me && i % mark_every == 0) {
            char label[32];
            snprintf(label, sizeof label, "round-%ld", i);
            mallow_mark(label);
        }
    }
    for (int i = 0; i < HELD; i++)
        free(held[i]);
    free(grown);
    void *last[200];
    for (size_t i = 0; i < 200; i++)
        last[i] = late(5000 + i);
    for (size_t i = 1; i < 200; i += 2)
        free(last[i]);
    for (size_t i = 0; i < 200; i += 2)
        keep(last[i]);
    return NULL;
}

static void work_all(void)
{
    pthread_t t[MAX_THREADS];
    for (long i = 1; i < threads; i++)
        pthread_create(&t[i], NULL, run, (void *)i);
    run((void *)0);
    for (long i = 1; i < threads; i++)
        pthread_join(t[i], NULL);
    for (long i = 0; i < threads; i++)
        free(atomic_exchange(&mailbox[i], NULL));
}

static void finish(const char *how)
{
    if (!strcmp(how, "segv"))
        raise(SIGSEGV);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "wait")) { /* until its input ends */
        char c;
        while (write(STDOUT_FILENO, "ready\n", 6) == 6 && read(STDIN_FILENO, &c, 1) == 1)
            work_all();
    }
    if (!strcmp(how, "grow")) /* at most 256 MB, whatever the limit */
        for (int i = 0; i < 256; i++) {
            void *p = late(1 << 20);
            memset(p, 1, 1 << 20);
            keep(p);
            work_all();
            while (i == 32 && pause_file && access(pause_file, F_OK))
                usleep(5000);
        }
}

int main(int argc, char **argv)
{
    const char *end = "";
    bool child = false;
    if (argc < 3)
        return 2;
    threads = strtol(argv[1], NULL, 10);
    rounds = strtol(argv[2], NULL, 10);
    for (int i = 3; i < argc; i++) {
        if (!strcmp(argv[i], "fork"))
            child = true;
        else if (!strncmp(argv[i], "end=", 4))
            end = argv[i] + 4;
        else if (!strncmp(argv[i], "mark=", 5))
            mark_every = strtol(argv[i] + 5, NULL, 10);
        else if (!strncmp(argv[i], "pause=", 6))
            pause_file = argv[i] + 6;
        else if (!strncmp(argv[i], "rest=", 5))
            rest_us = strtol(argv[i] + 5, NULL, 10);
    }
    for (size_t i = 0; i < 100; i++)
        keep(early(1000 + i));
    pid_t pid = child ? fork() : -1;
    work_all();
    if (!pid)
        _exit(0);
    finish(end);
    if (child)
        waitpid(pid, NULL, 0);
    return 0;
}
