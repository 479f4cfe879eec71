/* confine.c - programs that lock themselves in, then go on allocating: seccomp in several kinds,
 * chroot, a change of user, limits that they set themselves. Each allocates BEFORE blocks of 10 B
 * first, and AFTER blocks of 20 B afterwards, all left. That is more than a buffer's worth of rows.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEFORE 1000
#define AFTER  30000

static void *volatile sink;
static void blocks(int n, size_t size)
{
    for (int i = 0; i < n; i++)
        sink = malloc(size);
}
static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(9);
}

#define NR        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))
#define ON(call)  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1)
#define RETURN(v) BPF_STMT(BPF_RET | BPF_K, (v))

static void install(struct sock_filter *filter, size_t n, int by_syscall)
{
    struct sock_fprog program = {(unsigned short)n, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(8);
    long r = by_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
                        : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (r)
        _exit(8);
}

/* No new files: open and its kin answer with `action`. */
static void no_files(unsigned action, int by_syscall)
{
    struct sock_filter f[] = {NR,
                              ON(SYS_open),
                              RETURN(action),
                              ON(SYS_openat),
                              RETURN(action),
                              ON(SYS_openat2),
                              RETURN(action),
                              ON(SYS_creat),
                              RETURN(action),
                              ON(SYS_memfd_create),
                              RETURN(action),
                              ON(SYS_socket),
                              RETURN(action),
                              RETURN(SECCOMP_RET_ALLOW)};
    install(f, sizeof f / sizeof *f, by_syscall);
}

/* Only these calls; any other kills. This is what browsers' and media decoders' workers do. */
static void only(int by_syscall, int with_write)
{
    struct sock_filter f[] = {NR,
                              ON(SYS_mmap),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_munmap),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_mprotect),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_brk),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_futex),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_madvise),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_rt_sigreturn),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_exit),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(SYS_exit_group),
                              RETURN(SECCOMP_RET_ALLOW),
                              ON(with_write ? SYS_write : SYS_exit),
                              RETURN(SECCOMP_RET_ALLOW),
                              RETURN(SECCOMP_RET_KILL_PROCESS)};
    install(f, sizeof f / sizeof *f, by_syscall);
}

static void limit(int what, rlim_t value)
{
    struct rlimit l = {value, value};
    if (setrlimit(what, &l))
        _exit(7);
}

/* So that the heap need not grow afterwards (strict mode forbids brk). */
static void prepare_heap(void)
{
    static void *p[AFTER + 100], *volatile kept;
    for (int i = 0; i < AFTER + 100; i++)
        p[i] = malloc(20);
    kept = malloc(20); /* glibc 2.43 would give back all that is below, for want of fastbins */
    (void)kept;
    for (int i = 0; i < AFTER + 100; i++)
        free(p[i]);
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    int strict = 0, silent = 0, status = 0;
    blocks(BEFORE, 10);
    if (!strcmp(m, "eperm")) {
        no_files(SECCOMP_RET_ERRNO | EPERM, 0);
    } else if (!strcmp(m, "eperm-syscall")) {
        no_files(SECCOMP_RET_ERRNO | EPERM, 1);
    } else if (!strcmp(m, "kill-files")) {
        no_files(SECCOMP_RET_KILL_PROCESS, 0);
    } else if (!strcmp(m, "only")) {
        only(0, 1);
    } else if (!strcmp(m, "only-syscall")) {
        only(1, 1);
    } else if (!strcmp(m, "silent")) { /* not even write */
        only(0, 0);
        silent = 1;
    } else if (!strcmp(m, "silent-syscall")) {
        only(1, 0);
        silent = 1;
    } else if (!strcmp(m, "strict")) {
        prepare_heap();
        strict = 1;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
            return 8;
    } else if (!strcmp(m, "chroot")) {
        if (chroot(argv[2]) || chdir("/"))
            return 6;
        pid_t p = fork(); /* and the child of a chroot is recorded too */
        if (!p) {
            blocks(77, 30);
            _exit(0);
        }
        waitpid(p, &status, 0);
    } else if (!strcmp(m, "no-clock")) { /* reading the time stamp counter kills from now on */
        if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0))
            return 6;
        pid_t p = fork();
        if (!p) {
            blocks(77, 30);
            _exit(0);
        }
        waitpid(p, &status, 0);
    } else if (!strcmp(m, "eperm-fork")) { /* a filter that harms no call of ours: children too */
        no_files(SECCOMP_RET_ERRNO | EPERM, 0);
        pid_t p = fork();
        if (!p) {
            blocks(77, 30);
            _exit(0);
        }
        waitpid(p, &status, 0);
    } else if (!strcmp(m, "chdir")) {
        if (chdir("/"))
            return 6;
    } else if (!strcmp(m, "nobody")) {
        if (setgid(65534) || setuid(65534))
            return 6;
        pid_t p = fork();
        if (!p) {
            blocks(77, 30);
            _exit(0);
        }
        waitpid(p, &status, 0);
    } else if (!strcmp(m, "fsize")) {
        limit(RLIMIT_FSIZE, 4096); /* SIGXFSZ would kill, were it to come from a write of ours */
    } else if (!strcmp(m, "fsize-handler")) {
        signal(SIGXFSZ, SIG_IGN); /* the program's own handling stays as it was */
        limit(RLIMIT_FSIZE, 4096);
    } else if (!strcmp(m, "files")) {
        limit(RLIMIT_NOFILE, 64);
        while (open("/dev/null", O_RDONLY) >= 0) {
        }
        say(errno == EMFILE ? "no more files\n" : "what?\n");
    } else if (!strcmp(m, "first-file")) {
        char line[32]; /* programs count on the lowest free descriptor being theirs */
        int a = open("/dev/null", O_RDONLY), b = dup(0), pair[2];
        if (pipe(pair))
            return 6;
        snprintf(line, sizeof line, "%d %d %d %d\n", a, b, pair[0], pair[1]);
        say(line);
    } else if (!strcmp(m, "space")) {
        limit(RLIMIT_AS, 512ul << 20);
        int n = 0;
        while (n < 2000 && (sink = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                                        0)) != MAP_FAILED)
            n++;
        say(n < 2000 ? "no more space\n" : "what?\n");
        int got = 0;
        for (int i = 0; i < 100; i++)
            got += malloc(8 << 20) != NULL;
        say(got == 0 ? "none\n" : "some\n");
        return 0;
    } else {
        return 2;
    }
    blocks(AFTER, 20);
    if (!silent)
        say("after\n");
    if (status) /* the child died */
        _exit(4);
    if (strict)
        syscall(SYS_exit, 5);
    _exit(5);
}
