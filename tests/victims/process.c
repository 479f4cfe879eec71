/* process.c - processes that make processes, in each way that Linux has. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static void *volatile keep[100000];
static char target[4096]; /* the `api` victim beside us */

static void blocks(int from, int n, size_t size)
{
    for (int i = 0; i < n; i++)
        keep[from + i] = malloc(size);
}
static void release(int from, int n)
{
    for (int i = 0; i < n; i++)
        free(keep[from + i]);
}
static void reap(pid_t p)
{
    int st = -1;
    while (waitpid(p, &st, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(st) || WEXITSTATUS(st))
        printf("child: %#x\n", (unsigned)st);
}

/* Parent: 10 x 1000 B; the child adds 3 x 200 B, frees 5 of the inherited, exits normally. */
static void do_fork(void)
{
    blocks(0, 10, 1000);
    pid_t p = fork();
    if (!p) {
        blocks(10, 3, 200);
        release(0, 5);
        exit(0);
    }
    reap(p);
    release(0, 10);
}

/* Fork of a fork of a fork; each adds one block of 111 B and leaves with _exit. */
static void forks(int depth)
{
    keep[depth] = malloc(111);
    if (depth > 1) {
        pid_t p = fork();
        if (!p) {
            forks(depth - 1);
            _exit(0);
        }
        reap(p);
    }
}

/* n children, one after another, each 2 x 50 B. */
static void children(int n)
{
    for (int i = 0; i < n; i++) {
        pid_t p = fork();
        if (!p) {
            blocks(0, 2, 50);
            _exit(0);
        }
        reap(p);
    }
}

/* n children at once. */
static void brood(int n)
{
    pid_t *p = malloc(sizeof *p * (size_t)n);
    for (int i = 0; i < n; i++) {
        p[i] = fork();
        if (!p[i]) {
            for (int k = 0; k < 100; k++)
                free(keep[0] = malloc(60));
            _exit(0);
        }
    }
    for (int i = 0; i < n; i++)
        reap(p[i]);
    free(p);
}

static void fork_exec(void)
{
    blocks(0, 4, 100);
    pid_t p = fork();
    if (!p) {
        blocks(4, 2, 10);
        execl(target, "api", "peak", (char *)NULL);
        _exit(9);
    }
    reap(p);
}
static void vfork_exec(void)
{
    blocks(0, 4, 100);
    for (int i = 0; i < 3; i++) {
        pid_t p = vfork();
        if (!p) {
            execl(target, "api", "peak", (char *)NULL);
            _exit(9);
        }
        reap(p);
    }
    blocks(4, 6, 100);
}
/* An exec that fails leaves the program as it was, and recorded. */
static void failed_exec(void)
{
    blocks(0, 5, 100);
    execl("/nonexistent/program", "x", (char *)NULL);
    pid_t p = vfork();
    if (!p) {
        execl("/nonexistent/program", "x", (char *)NULL);
        _exit(0);
    }
    reap(p);
    blocks(5, 6, 100);
}
static void spawn(void)
{
    char *argv[] = {"api", "peak", NULL};
    pid_t p;
    blocks(0, 4, 100);
    if (posix_spawn(&p, target, NULL, NULL, argv, environ) == 0)
        reap(p);
    char *none[] = {NULL};
    if (posix_spawn(&p, target, NULL, NULL, argv, none) == 0)
        reap(p);
    if (posix_spawnp(&p, target, NULL, NULL, argv, environ) == 0)
        reap(p);
    blocks(4, 6, 100);
}

/* clone() without sharing memory: a fork that runs no fork handlers. */
static int cloned(void *arg)
{
    (void)arg;
    blocks(20, 7, 70);
    return 0;
}
static void do_clone(void)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    blocks(0, 4, 100);
    pid_t p = clone(cloned, stack + sizeof stack, SIGCHLD, NULL);
    reap(p);
    p = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (!p) {
        blocks(40, 9, 90);
        _exit(0);
    }
    reap(p);
    blocks(4, 6, 100);
}
/* clone() that shares memory and thread-local storage; the parent waits meanwhile. */
static void clone_vm(void)
{
    static char stack[1 << 18] __attribute__((aligned(16)));
    blocks(0, 4, 100);
    pid_t p = clone(cloned, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL);
    reap(p);
    p = clone(cloned, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    reap(p);
    blocks(4, 6, 100);
    printf("%d\n", keep[20] != NULL);
}

static void execs(char **argv)
{
    blocks(0, 4, 100);
    execvp(argv[0], argv);
    _exit(9);
}
static void env_cleared(char **argv)
{
    clearenv();
    blocks(0, 4, 100);
    execv(argv[0], argv);
    _exit(9);
}
static void all_execs(void)
{
    char *argv[] = {"api", "peak", NULL};
    char *env[] = {"A=1", NULL};
    for (int i = 0; i < 8; i++) {
        pid_t p = fork();
        if (!p) {
            int fd;
            switch (i) {
            case 0: execl(target, "api", "peak", (char *)NULL); break;
            case 1: execle(target, "api", "peak", (char *)NULL, env); break;
            case 2: execlp(target, "api", "peak", (char *)NULL); break;
            case 3: execv(target, argv); break;
            case 4: execve(target, argv, env); break;
            case 5: execvp(target, argv); break;
            case 6: execvpe(target, argv, env); break;
            case 7:
                fd = open(target, O_RDONLY | O_CLOEXEC);
                fexecve(fd, argv, env);
                break;
            }
            _exit(9);
        }
        reap(p);
    }
}

/* As daemons do. how: loop, range, or syscall. Then 50 x 123 B, and a word in the file `done`. */
static void daemonise(const char *how, const char *done)
{
    blocks(0, 4, 100);
    pid_t p = fork();
    if (p)
        exit(0);
    setsid();
    p = fork();
    if (p)
        _exit(0);
    if (chdir("/"))
        _exit(1);
    umask(0);
    if (!strcmp(how, "loop")) {
        for (int i = 0; i < 70000; i++)
            close(i);
    } else if (!strcmp(how, "range")) {
        if (close_range(0, ~0u, 0))
            _exit(1);
    } else if (!strcmp(how, "closefrom")) {
        closefrom(0);
    } else {
        syscall(SYS_close_range, 0, ~0u, 0);
    }
    int fd = open("/dev/null", O_RDWR);
    if (dup(fd) != 1 || dup(fd) != 2 || fd != 0) /* what a daemon may rely on */
        _exit(1);
    blocks(100, 50, 123);
    for (int i = 0; i < 30000; i++)
        free(keep[200] = malloc(33));
    fd = open(done, O_CREAT | O_WRONLY, 0644);
    if (fd != 3)
        _exit(1);
    if (write(fd, "done", 4) != 4)
        _exit(1);
    exit(0);
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    ssize_t n = readlink("/proc/self/exe", target, sizeof target - 10);
    if (n > 0) {
        target[n] = 0;
        strcpy(strrchr(target, '/') + 1, "api");
    }
    if (!strcmp(m, "fork"))
        do_fork();
    else if (!strcmp(m, "forks"))
        forks(atoi(argv[2]));
    else if (!strcmp(m, "children"))
        children(atoi(argv[2]));
    else if (!strcmp(m, "brood"))
        brood(atoi(argv[2]));
    else if (!strcmp(m, "fork-exec"))
        fork_exec();
    else if (!strcmp(m, "vfork"))
        vfork_exec();
    else if (!strcmp(m, "failed-exec"))
        failed_exec();
    else if (!strcmp(m, "spawn"))
        spawn();
    else if (!strcmp(m, "clone"))
        do_clone();
    else if (!strcmp(m, "clone-vm"))
        clone_vm();
    else if (!strcmp(m, "exec"))
        execs(argv + 2);
    else if (!strcmp(m, "env-cleared"))
        env_cleared(argv + 2);
    else if (!strcmp(m, "all-execs"))
        all_execs();
    else if (!strcmp(m, "daemon"))
        daemonise(argv[2], argv[3]);
    else
        return 2;
    return 0;
}
