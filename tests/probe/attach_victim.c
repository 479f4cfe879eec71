/* attach_victim.c - calls of the allocator in known numbers, around a byte that it waits for: what
 * comes before, nobody sees who attaches then. Ends at a second byte, or at the end of its input.
 * Linked statically, too. With an argument more, after the calls:
 *   exec    becomes itself, as a child that only allocates
 *   fork    forks a child, which frees some of what it has from its parent, allocates, exits with 3
 *   spawn   runs itself by posix_spawn, as a child that only allocates; and one that kills itself
 *   leave   forks a child that waits for its input's end, and goes before it */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
#define APART    __attribute__((noipa)) /* nor is one of them another */
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

static int next_byte(void)
{
    char c;
    return read(STDIN_FILENO, &c, 1) == 1;
}

int main(int argc, char **argv)
{
    static void *before[BEFORE], *kept[KEPT];
    pthread_t t[THREADS];
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "child") || !strcmp(how, "dies")) {
        child(NULL);
        return !strcmp(how, "dies") ? raise(SIGKILL) : 0;
    }
    for (int i = 0; i < BEFORE; i++)
        before[i] = make_before();
    if (!next_byte())
        return 1;
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
