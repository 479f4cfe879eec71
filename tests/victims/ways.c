/* ways.c - a call can reach the allocator by many ways; each does the same work by one of them.
 *
 * ways WAY [PLUGIN [hold]]: waits for a line, makes BLOCKS blocks of BYTES bytes by the way,
 * releases those with an odd number by the same way, says "done", and with `hold` waits for another
 * line. What stays alive is held in `kept`. */
#include <dlfcn.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 2000, BYTES = 12345 };

void *__libc_malloc(size_t);
void __libc_free(void *);

struct way {
    void *(*make)(size_t);
    void (*drop)(void *);
};

static void *kept[BLOCKS];

static void must(const void *p, const char *what)
{
    if (p)
        return;
    const char *why = dlerror();
    fprintf(stderr, "ways: %s: %s\n", what, why ? why : "it is not there");
    exit(2);
}

static struct way of_handle(void *handle, const char *make, const char *drop)
{
    struct way w;
    must(handle, "dlopen");
    w.make = (void *(*)(size_t))dlsym(handle, make);
    w.drop = (void (*)(void *))dlsym(handle, drop);
    must((void *)w.make, make);
    must((void *)w.drop, drop);
    return w;
}

/* libc's own call: the block is made inside it. */
static void *by_libc(size_t bytes)
{
    static char text[BYTES + 1];
    memset(text, 'x', bytes - 1);
    text[bytes - 1] = 0;
    return strdup(text);
}

static struct way find(const char *way, const char *plugin, const struct way *before)
{
    const struct way plain = {malloc, free}, libc = {__libc_malloc, __libc_free},
                     self = {by_libc, free};
    if (!strcmp(way, "plain"))
        return plain;
    if (!strcmp(way, "libc"))
        return libc;
    if (!strcmp(way, "self"))
        return self;
    if (!strcmp(way, "pointer"))
        return *before;
    if (!strcmp(way, "handle"))
        return of_handle(dlopen("libc.so.6", RTLD_NOW), "malloc", "free");
    if (!strcmp(way, "deepbind"))
        return of_handle(dlopen(plugin, RTLD_NOW | RTLD_DEEPBIND), "plugin_make", "plugin_drop");
    if (!strcmp(way, "namespace"))
        return of_handle(dlmopen(LM_ID_NEWLM, plugin, RTLD_NOW), "plugin_make", "plugin_drop");
    return of_handle(dlopen(plugin, RTLD_NOW), "plugin_make", "plugin_drop");
}

/* The same program once more, as a child that takes another way. */
static int child(char *self, char *way)
{
    extern char **environ;
    char *argv[] = {self, way, "-", "hold", NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, self, NULL, NULL, argv, environ) || waitpid(pid, &status, 0) != pid)
        return 3;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    char line[8];
    struct way *before = malloc(sizeof *before); /* no binding: memory of the program */
    before->make = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
    before->drop = (void (*)(void *))dlsym(RTLD_DEFAULT, "free");
    puts("ready");
    fflush(stdout);
    if (!fgets(line, sizeof line, stdin) || argc < 2)
        return 2;
    if (!strcmp(argv[1], "child"))
        return child(argv[0], argv[2]);
    if (!strcmp(argv[1], "loader")) {
        for (int i = 0; i < 50; i++)
            dlclose(dlopen(argv[2], RTLD_NOW));
    } else {
        struct way w = find(argv[1], argc > 2 ? argv[2] : "", before);
        for (int i = 0; i < BLOCKS; i++)
            memset(kept[i] = w.make(BYTES), 1, BYTES);
        for (int i = 1; i < BLOCKS; i += 2) {
            w.drop(kept[i]);
            kept[i] = NULL;
        }
    }
    puts("done");
    fflush(stdout);
    if (argc > 3 && !fgets(line, sizeof line, stdin))
        return 2;
    return 0;
}
