/* own_names.c - a program that defines names of libc, and makes one of another: as BEAM does with
 * sigaction, and shells and runtimes with exec. libc's own functions never come back to it; a
 * library that calls its own by those names does, without end. `own_names MODE`. */
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

int __sigaction(int n, const struct sigaction *a, struct sigaction *old);
void mallow_init(void);
int entry_malloc(size_t n);

static int depth, initialized;

static void enter(const char *name)
{
    if (++depth < 100)
        return;
    fprintf(stderr, "%s calls itself without end\n", name);
    _exit(99);
}

static void *next(const char *name) { return dlsym(RTLD_NEXT, name); }

/* ---- BEAM's: the internal name, and the public one behind it ---- */

int __sigaction(int n, const struct sigaction *a, struct sigaction *old)
{
    enter("__sigaction");
    int r = ((int (*)(int, const void *, void *))next("__sigaction"))(n, a, old);
    depth--;
    return r;
}

int sigaction(int n, const struct sigaction *a, struct sigaction *old)
    __attribute__((alias("__sigaction")));

/* ---- each exec made of a simpler one ---- */

int execve(const char *path, char *const argv[], char *const envp[])
{
    enter("execve");
    environ = (char **)envp;
    return ((int (*)(const char *, char *const[]))next("execv"))(path, argv);
}

int execvpe(const char *file, char *const argv[], char *const envp[])
{
    enter("execvpe");
    environ = (char **)envp;
    return ((int (*)(const char *, char *const[]))next("execvp"))(file, argv);
}

int execv(const char *path, char *const argv[])
{
    enter("execv");
    return ((int (*)(const char *, const char *, ...))next("execl"))(path, argv[0], argv[1],
                                                                     (char *)0);
}

int execvp(const char *file, char *const argv[])
{
    enter("execvp");
    return ((int (*)(const char *, const char *, ...))next("execlp"))(file, argv[0], argv[1],
                                                                      (char *)0);
}

/* ---- limits: by the names for 64 bits ---- */

int setrlimit(__rlimit_resource_t what, const struct rlimit *limit)
{
    enter("setrlimit");
    int r = ((int (*)(int, const void *))next("setrlimit64"))((int)what, limit);
    depth--;
    return r;
}

int prlimit(pid_t pid, enum __rlimit_resource what, const struct rlimit *limit, struct rlimit *old)
{
    enter("prlimit");
    int r =
        ((int (*)(pid_t, int, const void *, void *))next("prlimit64"))(pid, (int)what, limit, old);
    depth--;
    return r;
}

/* ---- names of mallow's own, which the program has used first ---- */

void mallow_init(void) { initialized++; }

int entry_malloc(size_t n)
{
    (void)n;
    initialized += 100;
    return 0;
}

static void handler(int n) { (void)n; }

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    char *args[] = {"echo", (char *)mode, 0};
    for (int i = 0; i < 1000; i++)
        free(realloc(malloc((size_t)i + 1), 3000));
    if (initialized)
        return 98;
    if (!strcmp(mode, "sigaction")) {
        struct sigaction a = {.sa_handler = handler}, old;
        for (int n = 1; n < 32; n++)
            if (n != SIGKILL && n != SIGSTOP &&
                (__sigaction(n, &a, 0) || sigaction(n, 0, &old) || old.sa_handler != handler))
                return 97;
        raise(SIGUSR1);
    } else if (!strcmp(mode, "limits")) {
        struct rlimit limit;
        getrlimit(RLIMIT_AS, &limit);
        if (setrlimit(RLIMIT_AS, &limit) || prlimit(0, RLIMIT_DATA, 0, &limit))
            return 97;
    } else if (!strcmp(mode, "execve")) {
        return execve("/bin/echo", args, environ);
    } else if (!strcmp(mode, "execvpe")) {
        return execvpe("echo", args, environ);
    } else if (!strcmp(mode, "execv")) {
        return execv("/bin/echo", args);
    } else if (!strcmp(mode, "execvp")) {
        return execvp("echo", args);
    }
    puts("done");
    return 0;
}
