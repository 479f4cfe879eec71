/* filtered.c - a program that installs a filter of system calls which kills, and then does with
 * memory whatever programs do: every size, threads, forks, libraries that come and go.
 *
 *   filtered FILTER WORK [PLUGIN]
 *
 * FILTER: `ours`: every call kills that an instruction in a library of mallow's makes, but for
 * exit_group, which is the program's own _exit. `listed`: only what WORK itself needs may be
 * called, and what mallow-record(1) lists. `only`: only what WORK itself needs. `later`: as `only`,
 * after a first filter that does no harm. `refused`: as `ours`, but the kernel refuses it first.
 * `strict`: strict mode, where memory that was released before is all that there is. `starved`: the
 * same by a filter. `exec-kill`: what an exec and the loader need as well, no more. `some`: a few
 * calls kill that mallow's libraries make at the start of a program, and shells never. `mprotect`:
 * that one kills. `threads`: as `only`, for all threads at once, of which three allocate meanwhile.
 * `asks`: what is refused at once. `none`.
 *
 * WORK: `sizes`: one thread, every size class from 1 byte to 8 MB, every function. `all`: the same
 * in threads, and fork, dlopen of PLUGIN, a handler of SIGSEGV, exit handlers. `exec`: becomes
 * `filtered none sizes`. `shell`: other programs, by every way there is. `few`: 20,000 blocks of 20
 * bytes. */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define STATEMENTS 200
#define FEW        20000

static struct sock_filter filter[STATEMENTS];
static unsigned short statements;

static void put(unsigned code, unsigned yes, unsigned no, unsigned k)
{
    if (statements == STATEMENTS)
        _exit(9);
    filter[statements++] =
        (struct sock_filter){(unsigned short)code, (unsigned char)yes, (unsigned char)no, k};
}

static void load(size_t at) { put(BPF_LD | BPF_W | BPF_ABS, 0, 0, (unsigned)at); }
static void answer(unsigned action) { put(BPF_RET | BPF_K, 0, 0, action); }

static void allow(const short *calls)
{
    for (; *calls >= 0; calls++) {
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)*calls);
        answer(SECCOMP_RET_ALLOW);
    }
}

static const short memory_calls[] = {SYS_brk,        SYS_mmap,         SYS_munmap,
                                     SYS_mremap,     SYS_write,        SYS_exit,
                                     SYS_exit_group, SYS_rt_sigreturn, -1};
/* Threads, forks and libraries, as glibc does them. */
static const short other_calls[] = {SYS_mprotect,
                                    SYS_madvise,
                                    SYS_futex,
                                    SYS_clone,
                                    SYS_clone3,
                                    SYS_set_robust_list,
                                    SYS_rseq,
                                    SYS_rt_sigprocmask,
                                    SYS_rt_sigaction,
                                    SYS_wait4,
                                    SYS_openat,
                                    SYS_read,
                                    SYS_pread64,
                                    SYS_fstat,
                                    SYS_newfstatat,
                                    SYS_close,
                                    SYS_gettid,
                                    SYS_getpid,
                                    SYS_tgkill,
                                    SYS_prlimit64,
                                    SYS_sched_getaffinity,
                                    SYS_getrandom,
                                    -1};
static const short loader_calls[] = {SYS_execve,          SYS_arch_prctl, SYS_access,
                                     SYS_set_tid_address, SYS_readlink,   -1};
static const short listed_calls[] = {SYS_fstat, SYS_write, -1};
static const short some_calls[] = {SYS_madvise, SYS_flock, SYS_process_vm_readv, SYS_prctl, -1};
static const short mprotect_call[] = {SYS_mprotect, -1};
static const short starved_calls[] = {SYS_write, SYS_exit, SYS_exit_group, -1};

static void install(int how)
{
    struct sock_fprog program = {statements, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
        _exit(8);
    long r = how == 0   ? prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)
             : how == 1 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
             : how == 3 ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                                  &program)
                        : syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
    if (r)
        _exit(8);
    statements = 0;
}

/* Where the code of a library of mallow's lies. */
static int find_ours(uint64_t *from, uint64_t *to)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512], access[8];
    uint64_t low, high;
    int found = 0;
    while (f && fgets(line, sizeof line, f))
        if (strstr(line, "libmallow-") && sscanf(line, "%lx-%lx %7s", &low, &high, access) == 3 &&
            strchr(access, 'x')) {
            *from = found ? *from : low;
            *to = high;
            found = 1;
        }
    if (f)
        fclose(f);
    return found;
}

static void kill_ours(void)
{
    uint64_t from = 0, to = 0;
    const size_t ip = offsetof(struct seccomp_data, instruction_pointer);
    if (!find_ours(&from, &to) || from >> 32 != to >> 32)
        return;
    load(offsetof(struct seccomp_data, nr));
    put(BPF_JMP | BPF_JEQ | BPF_K, 6, 0, SYS_exit_group);
    load(ip + 4);
    put(BPF_JMP | BPF_JEQ | BPF_K, 0, 4, (unsigned)(from >> 32));
    load(ip);
    put(BPF_JMP | BPF_JGE | BPF_K, 0, 2, (unsigned)from);
    put(BPF_JMP | BPF_JGE | BPF_K, 1, 0, (unsigned)to);
    answer(SECCOMP_RET_KILL_PROCESS);
    answer(SECCOMP_RET_ALLOW);
}

static void kill_others(int all, const short *more)
{
    load(offsetof(struct seccomp_data, nr));
    allow(memory_calls);
    if (all)
        allow(other_calls);
    if (more)
        allow(more);
    answer(SECCOMP_RET_KILL_PROCESS);
}

static void kill_for(const short *calls)
{
    load(offsetof(struct seccomp_data, nr));
    for (; *calls >= 0; calls++) {
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, (unsigned)*calls);
        answer(SECCOMP_RET_KILL_PROCESS);
    }
    answer(SECCOMP_RET_ALLOW);
}

/* ---- what it does ---- */

static void *volatile sink;

static void fill(unsigned char *p, size_t n)
{
    if (!p)
        _exit(7);
    p[0] = (unsigned char)n;
    p[n - 1] = (unsigned char)n;
}

static void check(const unsigned char *p, size_t n)
{
    if (p[0] != (unsigned char)n || p[n - 1] != (unsigned char)n)
        _exit(6);
}

static void one_size(size_t n)
{
    enum { KEPT = 8 };
    unsigned char *kept[KEPT] = {0};
    unsigned rounds = (unsigned)((n <= 64 ? 1u << 16 : 1u << 18) / n) + 6;
    for (unsigned i = 0; i < rounds; i++) {
        unsigned char **at = &kept[i % KEPT], *p = *at;
        if (p)
            check(p, n);
        switch (i % 6) {
        case 0: free(p), p = malloc(n); break;
        case 1: free(p), p = calloc(1, n); break;
        case 2: free(p), p = memalign(64, n); break;
        case 3:
            free(p);
            if (posix_memalign((void **)&p, 4096, n))
                _exit(7);
            break;
        case 4:
            p = realloc(p, n * 2);
            fill(p, n * 2);
            p = realloc(p, n);
            break;
        default: free(p), p = malloc(n); break;
        }
        fill(p, n);
        *at = p;
    }
    for (unsigned i = 0; i < KEPT; i++)
        free(kept[i]);
}

static void *sizes(void *most)
{
    for (size_t n = 1; n <= *(const size_t *)most; n += n / 3 + 1)
        one_size(n);
    return 0;
}

static const size_t large = 8u << 20, medium = 300000;

static void in_threads(void)
{
    for (int wave = 0; wave < 2; wave++) {
        pthread_t t[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&t[i], 0, sizes, (void *)(uintptr_t)&medium))
                _exit(5);
        for (int i = 0; i < 4; i++)
            pthread_join(t[i], 0);
    }
}

static sigjmp_buf back;
static void on_fault(int n) { siglongjmp(back, n); }

static void faults(void)
{
    volatile char *volatile nowhere = (volatile char *)8;
    struct sigaction a = {.sa_handler = on_fault, .sa_flags = SA_NODEFER};
    if (sigaction(SIGSEGV, &a, 0))
        _exit(5);
    for (int i = 0; i < 3; i++)
        if (!sigsetjmp(back, 0))
            *nowhere = 1;
    signal(SIGSEGV, SIG_DFL);
}

static void forks(void)
{
    int status = 1;
    pid_t p = fork();
    if (!p) {
        sizes((void *)(uintptr_t)&medium);
        _exit(3);
    }
    if (waitpid(p, &status, 0) != p || !WIFEXITED(status) || WEXITSTATUS(status) != 3)
        _exit(4);
}

static void plugins(const char *path)
{
    for (int i = 0; path && i < 3; i++) {
        void *handle = dlopen(path, RTLD_NOW);
        if (!handle)
            _exit(3);
        one_size(100);
        dlclose(handle);
    }
}

static void *never_ends(void *arg)
{
    for (;;)
        sizes((void *)(uintptr_t)&medium);
    return arg;
}

static void ended(int status)
{
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 3)
        _exit(4);
}

static void shells(char **environment)
{
    char *argv[] = {"sh", "-c", "exit 3", 0};
    int status = 1;
    pid_t p;
    ended(system("exit 3"));
    FILE *f = popen("exit 3", "r");
    if (!f)
        _exit(5);
    ended(pclose(f));
    if (posix_spawn(&p, "/bin/sh", 0, 0, argv, environment) || waitpid(p, &status, 0) != p)
        _exit(5);
    ended(status);
    for (int i = 0; i < 4; i++) {
        p = i == 2 ? vfork() : fork();
        if (!p) {
            if (i == 0)
                execv("/bin/sh", argv);
            else if (i == 3)
                syscall(SYS_execve, "/bin/sh", argv, environment);
            else
                execve("/bin/sh", argv, environment);
            _exit(5);
        }
        if (waitpid(p, &status, 0) != p)
            _exit(5);
        ended(status);
    }
}

static void at_end(void) { one_size(300); }

static void *volatile kept;

static void few(void)
{
    static void *p[FEW];
    for (int i = 0; i < FEW; i++)
        p[i] = malloc(20);
    kept = malloc(20); /* glibc 2.43 would give back all that is below, for want of fastbins */
    for (int i = 0; i < FEW; i++)
        free(p[i]);
}

static void say(const char *text)
{
    if (write(1, text, strlen(text)) < 0)
        _exit(9);
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[1] : "", *work = argc > 2 ? argv[2] : "";
    int all = !strcmp(work, "all"), strict = !strcmp(how, "strict");
    size_t variables = 0;
    while (environ[variables])
        variables++;
    char **before = calloc(variables + 1, sizeof *before);
    for (size_t i = 0; i < variables; i++)
        before[i] = strdup(environ[i]);
    atexit(at_end);
    sizes((void *)(uintptr_t)&medium); /* samples of before */
    few();
    if (!strcmp(how, "asks")) { /* as libseccomp asks what the kernel has */
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, 0) != -1 ||
            syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 0) != -1)
            return 8;
        how = "none";
    }
    if (!strcmp(how, "refused")) {
        filter[0] = (struct sock_filter)BPF_STMT(0xffff, 0);
        statements = 1;
        struct sock_fprog program = {1, filter};
        if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
            return 8;
        statements = 0;
        one_size(1000);
    }
    if (!strcmp(how, "later")) {
        load(offsetof(struct seccomp_data, nr));
        put(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_acct);
        answer(SECCOMP_RET_ERRNO | 1);
        answer(SECCOMP_RET_ALLOW);
        install(1);
        one_size(1000);
    }
    if (!strcmp(how, "ours") || !strcmp(how, "refused")) {
        kill_ours();
        if (statements)
            install(0);
    } else if (!strcmp(how, "listed") || !strcmp(how, "only") || !strcmp(how, "later")) {
        kill_others(all, !strcmp(how, "listed") ? listed_calls : 0);
        install(*how == 'l' ? 1 : 2);
    } else if (!strcmp(how, "threads")) {
        pthread_t t;
        for (int i = 0; i < 3; i++)
            if (pthread_create(&t, 0, never_ends, 0))
                return 8;
        sizes((void *)(uintptr_t)&medium);
        kill_others(1, 0);
        install(3);
    } else if (!strcmp(how, "exec-kill")) {
        kill_others(1, loader_calls);
        install(0);
    } else if (!strcmp(how, "some") || !strcmp(how, "mprotect")) {
        kill_for(*how == 's' ? some_calls : mprotect_call);
        install(0);
    } else if (!strcmp(how, "starved")) {
        load(offsetof(struct seccomp_data, nr));
        allow(starved_calls);
        answer(SECCOMP_RET_KILL_PROCESS);
        install(0);
    } else if (strict) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
            return 8;
    } else if (strcmp(how, "none") != 0) {
        return 2;
    }
    if (!strcmp(work, "sizes")) {
        sizes((void *)(uintptr_t)&large);
    } else if (all) {
        sizes((void *)(uintptr_t)&large);
        in_threads();
        faults();
        forks();
        plugins(argc > 3 ? argv[3] : 0);
        in_threads();
    } else if (!strcmp(work, "exec")) {
        char *next[] = {argv[0], "none", "sizes", 0};
        say("before\n");
        execv("/proc/self/exe", next);
        return 3;
    } else if (!strcmp(work, "shell")) {
        /* as it is, and as it was before the filter came */
        shells(environ);
        shells(before);
    } else if (!strcmp(work, "few")) {
        for (int i = 0; i < FEW - 50; i++)
            if (!(sink = malloc(20)))
                _exit(7);
    } else {
        return 2;
    }
    say("done\n");
    if (strict)
        syscall(SYS_exit, 0);
    if (!strcmp(how, "starved"))
        _exit(0);
    return 0;
}
