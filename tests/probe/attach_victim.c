/* attach_victim.c - calls of the allocator in known numbers, around a byte that it waits for: what
 * comes before, nobody sees who attaches then. Ends at a second byte, or at the end of its input.
 * Linked statically, too. With an argument more, after the calls:
 *   exec    becomes itself, as a child that only allocates
 *   fork    forks a child, which frees some of what it has from its parent, allocates, exits with 3
 *   spawn   runs itself by posix_spawn, as a child that only allocates; and one that kills itself
 *   turns   allocates 400 blocks and frees them, until the second byte
 *   leader  ends its first thread before the first byte; another does the rest
 *   leave   forks a child that waits for its input's end, and goes before it */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

enum {
    BEFORE = 100,
    KEPT = 1000,
    FREED = 400,
    GROWN = 50,
    CLEARED = 30,
    ALIGNED = 20,
    THREADS = 4,
    EACH = 250,
    IN_CHILD = 200, /* of which it frees a quarter, and half as many of its parent's */
};
#define STAYS(p) __asm__ volatile("" : "+r"(p) : : "memory")

static APART void *make_before(void)
{
    void *p = malloc(64);
    STAYS(p);
    return p;
}

static APART void *make_kept(void)
{
    void *p = malloc(100);
    STAYS(p);
    return p;
}

static APART void *make_cleared(void)
{
    void *p = calloc(10, 300);
    STAYS(p);
    return p;
}

static APART void *make_grown(void *old, size_t bytes)
{
    void *p = realloc(old, bytes);
    STAYS(p);
    return p;
}

static APART void *make_aligned(void)
{
    void *p = NULL;
    if (posix_memalign(&p, 256, 5000))
        exit(1);
    STAYS(p);
    return p;
}

static void *make_pairs(void *arg)
{
    for (int i = 0; i < EACH; i++) {
        void *p = malloc(1000);
        STAYS(p);
        free(p);
    }
    return arg;
}

static APART void *make_in_child(void)
{
    void *p = malloc(64);
    STAYS(p);
    return p;
}

static void child(void **of_parent)
{
    void *p[IN_CHILD];
    for (int i = 0; i < IN_CHILD; i++)
        p[i] = make_in_child();
    for (int i = 0; i < IN_CHILD / 4; i++)
        free(p[i]);
    for (int i = 0; of_parent && i < IN_CHILD / 2; i++)
        free(of_parent[i]);
}

static void forked(void **of_parent)
{
    const pid_t pid = fork();
    if (pid == 0) {
        child(of_parent);
        _exit(3);
    }
    waitpid(pid, NULL, 0);
}

static void spawned(char *self, char *how)
{
    pid_t pid;
    char *const arguments[] = {self, how, "an argument", NULL}, *const environment[] = {NULL};
    if (posix_spawn(&pid, self, NULL, NULL, arguments, environment))
        exit(1);
    waitpid(pid, NULL, 0);
}

static APART void *make_turn(void)
{
    void *p = malloc(200);
    STAYS(p);
    return p;
}

static void *waits(void *stop)
{
    char c;
    if (read(STDIN_FILENO, &c, 1) >= 0)
        __atomic_store_n((int *)stop, 1, __ATOMIC_RELEASE);
    return NULL;
}

static int turns(void)
{
    static int stop;
    pthread_t t;
    void *p[FREED];
    if (pthread_create(&t, NULL, waits, &stop))
        return 1;
    while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
        for (int i = 0; i < FREED; i++)
            p[i] = make_turn();
        for (int i = 0; i < FREED; i++)
            free(p[i]);
    }
    return pthread_join(t, NULL);
}

static int next_byte(void)
{
    char c;
    return read(STDIN_FILENO, &c, 1) == 1;
}

static int run(char **argv, const char *how)
{
    static void *before[BEFORE], *kept[KEPT];
    pthread_t t[THREADS];
    for (int i = 0; i < BEFORE; i++)
        before[i] = make_before();
    if (!next_byte())
        return 1;
    if (!strcmp(how, "turns"))
        return turns();
    for (int i = 0; i < KEPT; i++)
        kept[i] = make_kept();
    for (int i = 0; i < FREED; i++)
        free(kept[i]);
    for (int i = 0; i < BEFORE; i++)
        free(before[i]);
    void *grown = NULL;
    for (int i = 1; i <= GROWN; i++)
        grown = make_grown(grown, (size_t)i * 3000);
    for (int i = 0; i < CLEARED; i++)
        free(make_cleared());
    for (int i = 0; i < ALIGNED; i++)
        free(make_aligned());
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&t[i], NULL, make_pairs, NULL))
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
    if (!strcmp(how, "fork"))
        forked(kept + FREED);
    if (!strcmp(how, "spawn")) {
        spawned(argv[0], "child");
        spawned(argv[0], "dies");
    }
    const pid_t left = !strcmp(how, "leave") ? fork() : 1;
    if (left && write(STDOUT_FILENO, "done\n", 5) != 5)
        return 1;
    if (left && !strcmp(how, "leave"))
        return 0;
    next_byte();
    if (!left)
        child(NULL);
    if (!strcmp(how, "exec"))
        execl(argv[0], "another", "child", (char *)NULL);
    return 0;
}

static void *runs(void *argv)
{
    char path[64], stat[256], *end = stat;
    while (end && (end == stat || end[2] != 'Z')) { /* the first thread is there */
        snprintf(path, sizeof path, "/proc/self/task/%d/stat", getpid());
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = read(fd, stat, sizeof stat - 1);
        close(fd);
        stat[n > 0 ? n : 0] = 0;
        end = strrchr(stat, ')');
        usleep(1000);
    }
    exit(run(argv, "leader"));
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "child") || !strcmp(how, "dies")) {
        child(NULL);
        return !strcmp(how, "dies") ? raise(SIGKILL) : 0;
    }
    pthread_t t;
    if (strcmp(how, "leader") != 0)
        return run(argv, how);
    if (pthread_create(&t, NULL, runs, argv))
        return 1;
    pthread_exit(NULL);
}
