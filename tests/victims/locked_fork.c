/* locked_fork.c - forks while another thread is inside dl_iterate_phdr, as one is that throws with
 * an old libgcc, and does in the child what needs no lock of the dynamic linker's: memory, and what
 * daemons and shells call between fork and exec. Usage: locked_fork [waits]: says "ready" first,
 * and waits for a line. Prints what the children ended with. */
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int inside[2], leave[2];
static char *const command[] = {"sh", "-c", "exit 9", NULL};
static char *const environment[] = {"PATH=/usr/bin:/bin", NULL};

static int hold(struct dl_phdr_info *info, size_t size, void *arg)
{
    char byte = 1;
    (void)info;
    (void)size;
    (void)arg;
    return write(inside[1], &byte, 1) != 1 || read(leave[0], &byte, 1) != 1 ? -1 : 1;
}

static void *holds(void *arg)
{
    dl_iterate_phdr(hold, NULL);
    return arg;
}

static void by_end(void)
{
    void *p[100];
    for (int i = 0; i < 100; i++)
        p[i] = malloc((size_t)i * 100 + 1);
    for (int i = 0; i < 100; i++)
        free(p[i]);
    const pid_t next = fork();
    int status = 0;
    if (!next)
        _exit(3);
    if (waitpid(next, &status, 0) != next || WEXITSTATUS(status) != 3)
        _exit(1);
    _exit(7);
}

static void settings(void)
{
    const struct sigaction a = {.sa_handler = SIG_DFL};
    struct rlimit limit;
    if (sigaction(SIGSEGV, &a, NULL) || sigaction(SIGABRT, &a, NULL) ||
        signal(SIGPIPE, SIG_DFL) == SIG_ERR || getrlimit(RLIMIT_CORE, &limit) ||
        setrlimit(RLIMIT_CORE, &limit) || prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) ||
        syscall(SYS_getpid) != getpid())
        _exit(1);
}

static void by_execve(void) { execve("/bin/sh", command, environment); }
static void by_execv(void) { execv("/bin/sh", command); }
static void by_execvp(void) { execvp("sh", command); }
static void by_execvpe(void) { execvpe("sh", command, environment); }
static void by_execl(void) { execl("/bin/sh", "sh", "-c", "exit 9", (char *)NULL); }
static void by_settings(void)
{
    settings();
    by_execve();
}

static void by_spawn(void)
{
    pid_t pid;
    int status;
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, command, environment) ||
        waitpid(pid, &status, 0) != pid)
        _exit(1);
    _exit(WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
    static void (*const ways[])(void) = {by_end,     by_execve, by_execv,    by_execvp,
                                         by_execvpe, by_execl,  by_settings, by_spawn};
    pthread_t thread;
    char byte;
    if (argc > 1 && !strcmp(argv[1], "waits")) {
        puts("ready");
        fflush(stdout);
        getchar();
    }
    if (pipe(inside) || pipe(leave) || pthread_create(&thread, NULL, holds, NULL) ||
        read(inside[0], &byte, 1) != 1)
        return 2;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        int status = 0;
        const pid_t child = fork();
        if (!child) {
            alarm(20); /* it hangs */
            ways[i]();
            _exit(1);
        }
        if (waitpid(child, &status, 0) != child)
            return 2;
        printf("%zu: %s %d\n", i, WIFSIGNALED(status) ? "signal" : "status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    if (write(leave[1], &byte, 1) != 1 || pthread_join(thread, NULL))
        return 2;
    return 0;
}
