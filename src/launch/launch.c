/* launch.c - see launch.h. Between fork and exec only what must be: limits, signals, environment.
 */
#include "launch/launch.h"

#include "base/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static void fill_taken(sigset_t *set)
{
    sigemptyset(set);
    for (const int *s = (const int[]){SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, 0}; *s; s++)
        sigaddset(set, *s);
}

static void block(sigset_t *before)
{
    sigset_t set;
    fill_taken(&set);
    sigprocmask(SIG_BLOCK, &set, before);
}

int signals_open(void)
{
    sigset_t set;
    fill_taken(&set);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

void signals_block(void) { block(NULL); }

void signals_pass(const struct signals_before *before)
{
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

void signals_take(struct signals_before *before)
{
    block(&before->mask);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigaction(SIGPIPE, &ignore, &before->pipe);
    sigaction(SIGXFSZ, &ignore, &before->xfsz);
    sigaction(SIGCHLD, &standard, &before->child); /* ignored, it would reap the program for us */
}

void signals_restore(const struct signals_before *before)
{
    sigaction(SIGPIPE, &before->pipe, NULL);
    sigaction(SIGXFSZ, &before->xfsz, NULL);
    sigaction(SIGCHLD, &before->child, NULL);
    sigprocmask(SIG_SETMASK, &before->mask, NULL);
}

static void lift(int resource, struct rlimit *before)
{
    if (getrlimit(resource, before)) {
        *before = (struct rlimit){RLIM_INFINITY, RLIM_INFINITY};
        return;
    }
    struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY};
    struct rlimit allowed = {before->rlim_max, before->rlim_max};
    if (setrlimit(resource, &unlimited)) /* only root may go above the hard limit */
        (void)setrlimit(resource, &allowed);
}

void limits_lift(struct limits_before *before)
{
    lift(RLIMIT_FSIZE, &before->file_size);
    lift(RLIMIT_AS, &before->address_space);
    lift(RLIMIT_DATA, &before->data);
    /* Not without end: the kernel has a ceiling of its own for open files. */
    if (getrlimit(RLIMIT_NOFILE, &before->open_files))
        before->open_files = (struct rlimit){1024, 1024};
    struct rlimit allowed = {before->open_files.rlim_max, before->open_files.rlim_max};
    (void)setrlimit(RLIMIT_NOFILE, &allowed);
}

void limits_restore(const struct limits_before *before)
{
    setrlimit(RLIMIT_FSIZE, &before->file_size);
    setrlimit(RLIMIT_AS, &before->address_space);
    setrlimit(RLIMIT_DATA, &before->data);
    setrlimit(RLIMIT_NOFILE, &before->open_files);
}

int launch_preload(const char *library, char **value, struct error *err)
{
    if (strpbrk(library, " :\t\n"))
        return error_set(err, ERROR_UNSUPPORTED,
                         "%s: the loader cannot preload a library with a space or a colon in its "
                         "path; install mallow elsewhere",
                         library);
    const char *before = getenv("LD_PRELOAD");
    int n = before && *before ? asprintf(value, "%s:%s", library, before)
                              : asprintf(value, "%s", library);
    return n < 0 ? error_memory(err) : 0;
}

int launch_fork(struct launch *l, struct error *err)
{
    int go[2], status[2];
    if (pipe2(go, O_CLOEXEC))
        return error_system(err, "cannot make a pipe");
    if (pipe2(status, O_CLOEXEC)) {
        error_system(err, "cannot make a pipe");
        close(go[0]);
        close(go[1]);
        return -1;
    }
    l->pid = fork();
    if (l->pid < 0) {
        error_system(err, "cannot start a process");
        close(go[0]);
        close(go[1]);
        close(status[0]);
        close(status[1]);
        return -1;
    }
    if (l->pid == 0) {
        close(go[1]);
        close(status[0]);
        l->go = go[0];
        l->status = status[1];
    } else {
        close(go[0]);
        close(status[1]);
        l->go = go[1];
        l->status = status[0];
    }
    return 0;
}

static ssize_t read_all_bytes(int fd, void *p, size_t n)
{
    ssize_t got;
    do
        got = read(fd, p, n);
    while (got < 0 && errno == EINTR);
    return got;
}

void launch_child_wait(struct launch *l)
{
    char word;
    if (read_all_bytes(l->go, &word, 1) != 1)
        _exit(125); /* the parent gave up or is gone */
    close(l->go);
}

void launch_child_exec(struct launch *l, const struct launch_plan *plan,
                       const char *const *environment)
{
    int number = 0;
    for (; environment[0] && !number; environment += 2)
        if (setenv(environment[0], environment[1], 1))
            number = errno;
    if (!number) {
        limits_restore(plan->limits);
        signals_restore(plan->signals);
        execvp(plan->argv[0], plan->argv);
        number = errno;
    }
    ssize_t ignored = write(l->status, &number, sizeof number);
    (void)ignored;
    _exit(number == ENOENT ? 127 : 126);
}

int launch_go(struct launch *l)
{
    int number = 0;
    ssize_t ignored = write(l->go, "g", 1);
    (void)ignored;
    close(l->go);
    ssize_t n = read_all_bytes(l->status, &number, sizeof number);
    close(l->status);
    l->go = l->status = -1;
    if (n == (ssize_t)sizeof number) {
        waitpid(l->pid, NULL, 0);
        return number ? number : EINVAL;
    }
    return 0;
}

void launch_cancel(struct launch *l)
{
    close(l->go);
    close(l->status);
    waitpid(l->pid, NULL, 0);
}

/* ---- processes that have not joined ---- */

uint64_t launch_cpu_ns(pid_t pid)
{
    struct proc_stat s;
    if (!proc_stat(pid, &s))
        return 0;
    return (s.user_ticks + s.system_ticks) * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK));
}

bool launch_is_starting(pid_t pid, uint64_t before_ns)
{
    enum { ENOUGH_NS = 1000000000 };
    struct proc_stat s;
    return proc_stat(pid, &s) && (s.state == 'R' || s.state == 'D') &&
           launch_cpu_ns(pid) < before_ns + ENOUGH_NS;
}

/* Arguments and environment are empty until the new program's are there; a thread of the kernel,
 * or who has ended, has no program either. */
static bool is_within_exec(pid_t pid)
{
    char byte[2];
    return proc_link(pid, "exe", byte, sizeof byte) > 0 &&
           proc_read(pid, "cmdline", byte, sizeof byte) == 0;
}

static bool is_heir(pid_t pid, const char *assignment)
{
    static char environment[1 << 16];
    ssize_t n = proc_read(pid, "environ", environment, sizeof environment);
    if (n == 0)
        return is_within_exec(pid);
    /* With its final NUL: not a longer value that begins alike. */
    return n > 0 && memmem(environment, (size_t)n, assignment, strlen(assignment) + 1);
}

bool launch_has_heirs(const char *assignment, pid_t above, bool starting,
                      bool (*known)(void *arg, pid_t pid), void *arg)
{
    DIR *d = opendir("/proc");
    bool found = false;
    struct dirent *e;
    while (d && !found && (e = readdir(d))) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= above || pid == getpid() || known(arg, pid))
            continue;
        found = is_heir(pid, assignment) && (!starting || launch_is_starting(pid, 0));
    }
    if (d)
        closedir(d);
    return found;
}
