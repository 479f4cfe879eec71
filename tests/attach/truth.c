/* A program that writes down what it allocates. It says "ready"; then it answers each line of its
 * standard input: "make" (four threads, and a library that it loads then, allocate and release),
 * "release" (what it had at the beginning), "room" (addresses above all that is mapped later are
 * free again), "fork", "exec": with counts of the calls since the last answer; "map" (3 MB, less 1
 * MB in the middle, by syscall(2)). It allocates nothing else: no stdio. Argument: a library with
 * plugin_make. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../victims/apart.h"

enum { BEFORE = 1000, EACH = 500, THREADS = 4, ROOM = 1 << 30 };
static void *before[BEFORE];
static void *volatile kept;
static void *(*plugin_make)(size_t);

APART static void *makes_here(size_t n) { return kept = malloc(n); }

static void *work(void *arg)
{
    void *mine[EACH];
    for (size_t i = 0; i < EACH; i++)
        mine[i] = makes_here(40 + i);
    for (size_t i = 0; i < EACH; i += 2)
        mine[i] = realloc(mine[i], 1000 + i);
    for (size_t i = 0; i < EACH; i++)
        free(mine[i]);
    return arg;
}

static void say(const char *text) { (void)!write(1, text, strlen(text)); }

static void make(void)
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; plugin_make && i < 100; i++)
        free(plugin_make(333));
    say("made 2000 resized 1000 plugin 100\n");
}

APART static void map_by_syscall(void)
{
    char *p = (char *)syscall(SYS_mmap, NULL, 3 << 20, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L);
    memset(p, 1, 3 << 20);
    syscall(SYS_munmap, p + (1 << 20), 1 << 20);
}

static void child(const char *path)
{
    const pid_t pid = fork();
    if (!pid) {
        for (size_t i = 0; i < 7; i++)
            free(makes_here(5555));
        if (path)
            execl(path, path, "child", (char *)NULL);
        _exit(0);
    }
    waitpid(pid, NULL, 0);
    say("done\n");
}

int main(int argc, char **argv)
{
    char line[64];
    ssize_t n;
    if (argc < 2 || !strcmp(argv[1], "child")) { /* executed by itself */
        for (size_t i = 0; i < 9; i++)
            free(makes_here(6666));
        return 0;
    }
    void *room = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (size_t i = 0; i < BEFORE; i++)
        before[i] = malloc(200);
    say("ready\n");
    while ((n = read(0, line, sizeof line - 1)) > 0) {
        line[n] = 0;
        if (!strncmp(line, "make", 4)) {
            make();
        } else if (!strncmp(line, "load", 4)) {
            void *library = dlopen(argv[1], RTLD_NOW);
            plugin_make = library ? (void *(*)(size_t))dlsym(library, "plugin_make") : NULL;
            say(plugin_make ? "done\n" : "WRONG\n");
        } else if (!strncmp(line, "release", 7)) {
            for (size_t i = 0; i < BEFORE; i++)
                free(before[i]);
            say("done\n");
        } else if (!strncmp(line, "room", 4)) {
            munmap(room, ROOM);
            say("done\n");
        } else if (!strncmp(line, "map", 3)) {
            map_by_syscall();
            say("done\n");
        } else if (!strncmp(line, "fork", 4) || !strncmp(line, "exec", 4)) {
            child(*line == 'e' ? argv[0] : NULL);
        } else {
            break;
        }
    }
    say("bye\n");
    return 0;
}
