/* nasty_system.c - the half of nasty.c that changes what the process is and may: descriptors,
 * limits, users, roots, namespaces, its own name and environment, what it executes. */
#include "nasty.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/close_range.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void limit(int what, rlim_t value)
{
    struct rlimit l = {value, value};
    if (setrlimit(what, &l))
        broken("setrlimit");
}

static int child(void (*f)(void), int status)
{
    fflush(stdout);
    pid_t p = fork();
    if (!p) {
        f();
        _exit(status);
    }
    return p < 0 ? -1 : ended(p);
}

static void churns(void) { churn(77, 3000); }

/* Only these bytes are in the file. */
static void holds(int fd, const char *text)
{
    char there[256] = "";
    ssize_t n = pread(fd, there, sizeof there - 1, 0);
    if (n < 0 || strcmp(there, text) != 0)
        broken("something else is in the program's file");
}

/* ---- descriptors ---- */

/* Closes all, more than once, and counts on the lowest number being free. */
static int closes_all(void)
{
    for (int i = 0; i < 5; i++) {
        if (syscall(SYS_close_range, 3u, ~0u, 0u))
            cannot("close_range");
        churn((unsigned)i, 3000);
        int fd = memfd_create("own", 0);
        if (fd != 3)
            broken("the lowest number is not free");
        if (child(churns, 4) != 4)
            broken("the child");
        if (write(fd, "own", 3) != 3)
            broken("write");
        churn((unsigned)i, 3000);
        holds(fd, "own");
    }
    return 31;
}

/* Puts a file of its own over every descriptor that is open: none of it may be written to. */
static int covers_all(void)
{
    int fd = memfd_create("cover", 0);
    if (fd < 0 || write(fd, "cover", 5) != 5)
        cannot("memfd_create");
    for (int n = 3; n < 1024; n++)
        if (n != fd && fcntl(n, F_GETFD) >= 0)
            dup2(fd, n);
    churn(1, 30000);
    int status = child(churns, 4);
    for (int n = 3; n < 1024; n++)
        if (n != fd)
            close(n);
    churn(2, 30000);
    holds(fd, "cover");
    return status == 4 ? 32 : 1;
}

/* ---- limits ---- */

/* No descriptor, no file, no process of its own any more; little memory. */
static int limits(void)
{
    limit(RLIMIT_NOFILE, 0);
    limit(RLIMIT_FSIZE, 0);
    limit(RLIMIT_CORE, 0);
    churn(3, 10000);
    int status = child(churns, 5);
    limit(RLIMIT_NPROC, 1);
    limit(RLIMIT_DATA, 256 << 20);
    churn(4, 10000);
    limit(RLIMIT_AS, 1 << 30);
    churn(5, 10000);
    if (open("/dev/null", O_RDONLY) >= 0 || errno != EMFILE)
        broken("a descriptor where none is allowed");
    return status == 5 ? 33 : 1;
}

/* A child that may write no file: its calls are the same. */
static void without_files(void)
{
    limit(RLIMIT_FSIZE, 0);
    churn(6, 100000);
}

static int limited_child(void)
{
    churn(1, 1000);
    return child(without_files, 34);
}

/* ---- users, roots, namespaces ---- */

/* An empty root, another user, no privilege to come back. */
static int drops(void)
{
    if (chroot(nasty_directory) || chdir("/"))
        cannot("chroot");
    if (setgroups(0, 0) || setresgid(65534, 65534, 65534) || setresuid(65534, 65534, 65534))
        cannot("setresuid");
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    churn(7, 30000);
    return child(churns, 35);
}

/* Neither its memory nor its /proc may be read by its own user any more. */
static int undumpable(void)
{
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
        cannot("PR_SET_DUMPABLE");
    churn(8, 30000);
    return child(churns, 36);
}

/* New namespaces of users, processes, mounts, hosts' names and System V; a first process there. */
static void first_process(void)
{
    if (getpid() != 1)
        broken("it is not the first process");
    churn(9, 3000);
    for (int i = 0; i < 3; i++)
        if (child(churns, 6) != 6)
            broken("a child in the namespace");
}

static int namespaces(void)
{
    churn(10, 1000);
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC))
        cannot("unshare");
    churn(11, 1000);
    return child(first_process, 37);
}

/* ---- what is executed, and with what ---- */

static int run(pid_t p) { return p < 0 ? -1 : ended(p); }

static char *ends[] = {"nasty", "ends", 0};

/* vfork and exec, a hundred times, with an allocation between. */
static int vforks(void)
{
    for (int i = 0; i < 30; i++) {
        void *volatile p = malloc(100);
        pid_t child = vfork();
        if (!child) {
            free(p);
            p = malloc(200);
            execv(nasty_self, ends);
            _exit(1);
        }
        if (run(child) != 21)
            broken("the child");
        free(p);
    }
    return 38;
}

static void by_descriptor(void)
{
    char *none[] = {0};
    int fd = open(nasty_self, O_RDONLY | O_CLOEXEC);
    syscall(SYS_execveat, fd, "", ends, none, AT_EMPTY_PATH);
}

static void by_function(void)
{
    int fd = open(nasty_self, O_RDONLY | O_CLOEXEC);
    execveat(fd, "", ends, environ, AT_EMPTY_PATH);
}

static void by_instruction(void)
{
    long r;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "0"(SYS_execve), "D"(nasty_self), "S"(ends), "d"(environ)
                     : "rcx", "r11", "memory");
}

static void from_memory(void)
{
    char buffer[65536];
    int from = open(nasty_self, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
    for (ssize_t n; (n = read(from, buffer, sizeof buffer)) > 0;)
        if (write(to, buffer, (size_t)n) != n)
            _exit(1);
    fexecve(to, ends, environ);
}

/* Programs by descriptor, by an instruction, from memory, with and without an environment. */
static int executes(void)
{
    void (*const ways[])(void) = {by_descriptor, by_function, by_instruction, from_memory};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        printf("%d\n", child(ways[i], 1));
    return 39;
}

/* posix_spawn with every attribute, a closed descriptor, and no environment. */
static int spawns(void)
{
    posix_spawnattr_t a;
    posix_spawn_file_actions_t f;
    sigset_t mask;
    pid_t p;
    char *none[] = {0};
    sigfillset(&mask);
    posix_spawnattr_init(&a);
    posix_spawnattr_setflags(&a, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                     POSIX_SPAWN_SETPGROUP);
    posix_spawnattr_setsigmask(&a, &mask);
    sigdelset(&mask, SIGKILL);
    sigdelset(&mask, SIGSTOP);
    posix_spawnattr_setsigdefault(&a, &mask);
    posix_spawn_file_actions_init(&f);
    posix_spawn_file_actions_addclose(&f, 2);
    for (int i = 0; i < 5; i++) {
        if (posix_spawn(&p, nasty_self, &f, &a, ends, i & 1 ? none : environ))
            broken("posix_spawn");
        printf("%d\n", ended(p));
    }
    posix_spawn_file_actions_destroy(&f);
    posix_spawnattr_destroy(&a);
    return 40;
}

/* Overwrites its arguments and environment, clears it, has none; children and shells after that. */
static int forgets(void)
{
    for (char **e = environ; *e; e++)
        memset(*e, 'x', strlen(*e));
    churn(1, 1000);
    printf("%d\n", child(by_function, 1));
    clearenv();
    printf("%d\n", WEXITSTATUS(system("exit 9")));
    churn(2, 1000);
    environ = 0;
    printf("%d\n", child(churns, 8));
    setenv("A", "b", 1);
    printf("%d\n", child(by_function, 1));
    return 41;
}

/* Without randomized addresses, with readable memory executable, again as itself. */
static int persona(void)
{
    if (personality(ADDR_NO_RANDOMIZE | READ_IMPLIES_EXEC) < 0)
        cannot("personality");
    churn(3, 1000);
    printf("%d\n", child(by_function, 1));
    return 42;
}

/* ---- locked memory ---- */

static void *locked(void *arg)
{
    churn(4, 20000);
    return arg;
}

/* All memory locked, that of later as well. */
static int locks(void)
{
    pthread_t t;
    if (mlockall(MCL_CURRENT | MCL_FUTURE))
        cannot("mlockall");
    churn(12, 20000);
    if (pthread_create(&t, 0, locked, 0))
        cannot("pthread_create");
    pthread_join(t, 0);
    return child(churns, 43);
}

/* ---- standard error ---- */

/* A double free is what a guest has to say something about; nobody reads standard error. */
static int deaf_reader(void)
{
    int fd[2];
    if (pipe(fd) || dup2(fd[1], 2) < 0)
        broken("pipe");
    close(fd[0]);
    close(fd[1]);
    churn(5, 30000);
    return 44;
}

const struct nasty nasty_system[] = {{"closes-all", closes_all},
                                     {"covers-all", covers_all},
                                     {"limits", limits},
                                     {"limited-child", limited_child},
                                     {"drops", drops},
                                     {"undumpable", undumpable},
                                     {"namespaces", namespaces},
                                     {"vforks", vforks},
                                     {"executes", executes},
                                     {"spawns", spawns},
                                     {"forgets", forgets},
                                     {"persona", persona},
                                     {"locks", locks},
                                     {"deaf-reader", deaf_reader},
                                     {0, 0}};
