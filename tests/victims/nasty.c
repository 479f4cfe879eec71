/* nasty.c - programs that do to a process what hosts do and guests do not expect. `nasty MODE
 * [DIRECTORY]`: what each mode does stands above its function. Each prints the same every time,
 * whatever allocator is behind it, checks what is in its blocks, and ends in its own way; what it
 * cannot have here it says, with status 77. Modes that change users, roots and files are in
 * nasty_system.c. */
#include "nasty.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

const char *nasty_self, *nasty_directory;

void broken(const char *what)
{
    fprintf(stderr, "broken: %s (%s)\n", what, strerror(errno));
    _exit(1);
}

void cannot(const char *what)
{
    printf("cannot: %s: %s\n", what, strerror(errno));
    fflush(stdout);
    _exit(77);
}

void churn(unsigned seed, unsigned calls)
{
    enum { SLOTS = 64 };
    unsigned char *p[SLOTS] = {0};
    size_t n[SLOTS] = {0};
    for (unsigned i = 0; i < calls; i++) {
        seed = seed * 1103515245u + 12345u;
        unsigned k = seed >> 8 & (SLOTS - 1);
        size_t bytes = (seed >> 16) % ((seed >> 24 & 7) ? 300 : 20000) + 1;
        if (p[k] && (p[k][0] != (unsigned char)k || p[k][n[k] - 1] != (unsigned char)k))
            broken("a block changed");
        switch (seed >> 28) {
        case 0:
        case 1: p[k] = realloc(p[k], bytes); break;
        case 2: free(p[k]), p[k] = calloc(1, bytes); break;
        case 3:
            free(p[k]);
            if (posix_memalign((void **)&p[k], 256, bytes))
                p[k] = 0;
            break;
        default: free(p[k]), p[k] = malloc(bytes); break;
        }
        if (!p[k])
            broken("no memory");
        n[k] = bytes;
        p[k][0] = p[k][bytes - 1] = (unsigned char)k;
    }
    for (unsigned k = 0; k < SLOTS; k++)
        free(p[k]);
}

int ended(pid_t p)
{
    int status;
    while (waitpid(p, &status, 0) != p)
        if (errno != EINTR)
            broken("waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- signals ---- */

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void *volatile sink;

static void every(long us)
{
    struct itimerval t = {{0, us}, {0, us}};
    if (setitimer(ITIMER_REAL, &t, 0))
        broken("setitimer");
}

static void on(int n, void (*f)(int), int flags)
{
    struct sigaction a = {.sa_handler = f, .sa_flags = flags};
    if (sigaction(n, &a, 0))
        broken("sigaction");
}

static void outer(int n)
{
    (void)n;
    free(malloc(333));
    raise(SIGUSR1);
}

static void inner(int n)
{
    (void)n;
    sink = malloc(44);
    handled = handled + 1;
    siglongjmp(back, 1);
}

/* A timer of 100 us; its handler allocates and raises another signal, whose handler allocates and
 * jumps out of both, 500 times, each on a small stack of its own. */
static int jumps(void)
{
    static char small[65536];
    stack_t s = {.ss_sp = small, .ss_size = sizeof small};
    if (sigaltstack(&s, 0))
        broken("sigaltstack");
    on(SIGALRM, outer, SA_ONSTACK);
    on(SIGUSR1, inner, 0);
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGALRM);
    sigaddset(&both, SIGUSR1);
    /* They stay blocked until the small stack has been left: where a handler takes longer than the
     * timer, the next one would begin on top of it, each time, until the stack is full. */
    sigsetjmp(back, 0);
    if (handled < 500) /* where one always waits, nothing behind this is reached */
        sigprocmask(SIG_UNBLOCK, &both, NULL);
    free(sink);
    if (handled == 0)
        every(100);
    while (handled < 500) {
    }
    every(0);
    return 11;
}

static void counts(int n)
{
    (void)n;
    handled = handled + 1;
}

/* A timer of 100 us interrupts whatever the allocator and the guest do; the handler only counts. */
static int timers(void)
{
    on(SIGALRM, counts, SA_RESTART);
    every(100);
    for (unsigned i = 0; handled < 300; i++)
        churn(i, 1000);
    every(0);
    return 12;
}

/* Every signal ignored and blocked, SIGSEGV and SIGBUS as well. */
static int deaf(void)
{
    sigset_t all;
    sigfillset(&all);
    for (int n = 1; n < 32; n++)
        if (n != SIGKILL && n != SIGSTOP && n != SIGCHLD)
            signal(n, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, 0);
    churn(1, 20000);
    struct sigaction now;
    if (sigaction(SIGSEGV, 0, &now) || now.sa_handler != SIG_IGN)
        broken("SIGSEGV is not ignored any more");
    return 13;
}

static void forks_once(int n)
{
    (void)n;
    pid_t p = fork();
    if (!p) {
        free(malloc(500));
        _exit(5);
    }
    handled = ended(p);
}

/* A handler forks. */
static int fork_in_handler(void)
{
    on(SIGUSR2, forks_once, 0);
    for (int i = 0; i < 20; i++) {
        sink = malloc(100);
        raise(SIGUSR2);
        free(sink);
        if (handled != 5)
            broken("the child");
    }
    return 14;
}

/* A child stops itself, is found stopped, goes on, and is stopped once more while it allocates. */
static int stops(void)
{
    int status;
    pid_t p = fork();
    if (!p) {
        churn(3, 1000);
        raise(SIGSTOP);
        churn(4, 1000);
        raise(SIGSTOP);
        churn(5, 1000);
        _exit(6);
    }
    for (int i = 0; i < 2; i++) {
        if (waitpid(p, &status, WUNTRACED) != p || !WIFSTOPPED(status))
            broken("it did not stop");
        printf("stopped by %d\n", WSTOPSIG(status));
        kill(p, SIGCONT);
    }
    return ended(p);
}

/* Its own handler of SIGSEGV, for pages of its own without access, beside the guest's. */
static char *page;
static void opens(int n, siginfo_t *info, void *context)
{
    (void)n, (void)context;
    if ((char *)info->si_addr != page || mprotect(page, 4096, PROT_READ | PROT_WRITE))
        _exit(1);
    handled = handled + 1;
}

static int own_faults(void)
{
    struct sigaction a = {.sa_sigaction = opens, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &a, 0);
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < 200; i++) {
        churn((unsigned)i, 50);
        *(volatile char *)page = 1;
        mprotect(page, 4096, PROT_NONE);
    }
    printf("%d\n", (int)handled);
    return 15;
}

/* ---- stacks and threads ---- */

static ucontext_t coroutine, caller;
static void on_heap(void)
{
    for (int i = 0; i < 20; i++) {
        churn((unsigned)i, 30);
        swapcontext(&coroutine, &caller);
    }
}

/* Coroutines whose stacks are blocks of malloc, freed when they are through. */
static int coroutines(void)
{
    for (int k = 0; k < 20; k++) {
        const size_t bytes = 131072;
        char *stack = malloc(bytes);
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = stack;
        coroutine.uc_stack.ss_size = bytes;
        coroutine.uc_link = &caller;
        makecontext(&coroutine, on_heap, 0);
        for (int i = 0; i < 21; i++)
            swapcontext(&caller, &coroutine);
        free(stack);
    }
    return 16;
}

static int shares_memory(void *arg)
{
    void **p = arg;
    for (int i = 0; i < 1000; i++)
        p[i] = malloc((size_t)i + 1);
    return 7;
}

/* clone with CLONE_VM: another process in the same memory, with no thread of libc's own. */
static int clone_vm(void)
{
    enum { BYTES = 1 << 18 };
    static void *p[1000];
    char *stack = mmap(0, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int k = 0; k < 5; k++) {
        pid_t child = clone(shares_memory, stack + BYTES, CLONE_VM | SIGCHLD, p);
        if (child < 0)
            cannot("clone");
        printf("%d\n", ended(child));
        for (int i = 0; i < 1000; i++)
            free(p[i]);
    }
    return 17;
}

static void *busy(void *arg)
{
    for (;;) {
        churn((unsigned)(uintptr_t)arg, 200);
        pthread_testcancel();
    }
    return 0;
}

static void threads(void *(*f)(void *), int n)
{
    pthread_t t;
    for (int i = 0; i < n; i++)
        if (pthread_create(&t, 0, f, (void *)(uintptr_t)i) || pthread_detach(t))
            broken("pthread_create");
}

static void *ends_all(void *arg)
{
    churn(9, 2000);
    __asm__ volatile("syscall" : : "a"(SYS_exit_group), "D"(18) : "rcx", "r11", "memory");
    return arg;
}

/* One of many threads ends the process by an instruction of its own, while the others allocate. */
static int raw_exit(void)
{
    threads(busy, 3);
    threads(ends_all, 1);
    pause(); /* it never returns */
    return 1;
}

static void frees(void *p) { free(p); }

static void *cancelled(void *arg)
{
    void *p = malloc(5000);
    pthread_cleanup_push(frees, p);
    busy(arg);
    pthread_cleanup_pop(1);
    return 0;
}

/* Threads are cancelled between their allocations, and free in their cleanup handlers. */
static int cancels(void)
{
    for (int k = 0; k < 20; k++) {
        pthread_t t[4];
        void *result;
        for (int i = 0; i < 4; i++)
            if (pthread_create(&t[i], 0, cancelled, (void *)(uintptr_t)i))
                broken("pthread_create");
        for (int i = 0; i < 4; i++)
            pthread_cancel(t[i]);
        for (int i = 0; i < 4; i++)
            if (pthread_join(t[i], &result) || result != PTHREAD_CANCELED)
                broken("pthread_join");
    }
    return 19;
}

static void *execs(void *arg)
{
    char *argv[] = {"nasty", "ends", 0};
    churn(2, 1000);
    execv(nasty_self, argv);
    return arg;
}

/* A thread other than the first executes a program while the others allocate. */
static int exec_in_thread(void)
{
    threads(busy, 3);
    threads(execs, 1);
    pause(); /* it never returns */
    return 1;
}

static void *forks_and_waits(void *arg)
{
    for (int i = 0; i < 20; i++) {
        pid_t p = fork();
        if (!p) {
            churn((unsigned)(uintptr_t)arg, 100);
            _exit(3);
        }
        if (p < 0 || ended(p) != 3)
            broken("a child");
    }
    return arg;
}

/* Three threads fork, two allocate all the while. */
static int forks(void)
{
    pthread_t t[3];
    threads(busy, 2);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&t[i], 0, forks_and_waits, (void *)(uintptr_t)i))
            broken("pthread_create");
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], 0);
    return 20;
}

/* ---- ends ---- */

static int plain_end(void)
{
    churn(6, 1000);
    return 21;
}

static void aborts(void)
{
    free(malloc(100));
    abort();
}

static void caught(int n)
{
    free(malloc((size_t)n));
    printf("caught %d\n", n);
    fflush(stdout);
}

/* An exit handler aborts; the handler of SIGABRT allocates, prints and returns. */
static int abort_at_exit(void)
{
    on(SIGABRT, caught, 0);
    atexit(aborts);
    return 0;
}

/* ---- blocks ---- */

static void one_usable(size_t n)
{
    char *p = malloc(n);
    size_t room = malloc_usable_size(p);
    if (room < n)
        broken("malloc_usable_size");
    memset(p, 7, room);
    p = realloc(p, room + 1);
    for (size_t i = 0; i < room; i++)
        if (p[i] != 7)
            broken("realloc");
    free(p);
}

/* Uses all that malloc_usable_size grants. */
static int usable(void)
{
    for (size_t n = 1; n < 300000; n += n / 7 + 1)
        for (int i = 0; i < 20; i++)
            one_usable(n);
    return 22;
}

/* Blocks as pages: made executable and run, mapped over by a file, thrown away, locked. */
static int pages(void)
{
    static const unsigned char code[] = {0xb8, 0x2a, 0, 0, 0, 0xc3}; /* mov $42, %eax; ret */
    int file = memfd_create("over", 0);
    if (file < 0 || ftruncate(file, 65536))
        cannot("memfd_create");
    for (int i = 0; i < 60; i++) {
        unsigned char *p;
        if (posix_memalign((void **)&p, 4096, 65536))
            broken("posix_memalign");
        memcpy(p, code, sizeof code);
        if (mprotect(p, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
            cannot("mprotect");
        int (*f)(void);
        memcpy(&f, &p, sizeof f);
        if (f() != 42 || mprotect(p, 4096, PROT_READ | PROT_WRITE))
            broken("the code");
        if (mmap(p, 65536, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) != p)
            broken("mmap over a block");
        p[65535]++;
        if (mmap(p, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) != p)
            broken("mmap back");
        if (p[0] || p[65535])
            broken("fresh pages");
        memset(p, 1, 65536);
        if (madvise(p, 65536, MADV_DONTNEED) || p[0] || madvise(p, 65536, MADV_DONTFORK) ||
            madvise(p, 65536, MADV_DOFORK))
            broken("madvise");
        free(p);
    }
    unsigned char last;
    if (pread(file, &last, 1, 65535) != 1)
        broken("pread");
    printf("%d\n", last);
    return 23;
}

/* The kernel reads and writes blocks, to the last byte. */
static int kernel_writes(void)
{
    int fd[2];
    if (pipe(fd))
        broken("pipe");
    for (size_t n = 1; n < 60000; n += n / 3 + 1) {
        char *from = malloc(n), *to = malloc(n);
        memset(from, (int)n, n);
        if (write(fd[1], from, n) != (ssize_t)n)
            broken("write");
        for (size_t got = 0; got < n;) {
            ssize_t r = read(fd[0], to + got, n - got);
            if (r <= 0)
                broken("read");
            got += (size_t)r;
        }
        if (memcmp(from, to, n))
            broken("what was read");
        free(from);
        free(to);
    }
    return 24;
}

/* Sizes and alignments that cannot be had, and those of nothing. */
static int extremes(void)
{
    volatile size_t huge = SIZE_MAX / 2;
    for (int i = 0; i < 50; i++) {
        void *p = malloc(0), *q = malloc(0);
        if (!p || !q || p == q)
            broken("malloc(0)");
        free(p);
        free(q);
        errno = 0;
        if (malloc(huge) || errno != ENOMEM)
            broken("malloc of half of everything");
        if (calloc(huge, 3) || reallocarray(0, huge, 3))
            broken("a product that overflows");
        p = malloc(10);
        strcpy(p, "same");
        if (realloc(p, huge) || strcmp(p, "same"))
            broken("realloc");
        free(p);
        p = memalign(1 << 20, 10);
        if ((uintptr_t)p & ((1 << 20) - 1))
            broken("memalign");
        free(p);
        free(0);
    }
    return 25;
}

/* A library's blocks outlive it; it is loaded and unloaded while threads allocate. */
static int libraries(void)
{
    char path[4096];
    void *kept[50];
    snprintf(path, sizeof path, "%s/plug_a.so", nasty_directory);
    threads(busy, 2);
    for (int i = 0; i < 50; i++) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!handle)
            cannot("dlopen");
        void *(*f)(size_t);
        *(void **)&f = dlsym(handle, "alloc_in_plug_a");
        if (!f)
            broken("dlsym");
        kept[i] = f(100);
        dlclose(handle);
    }
    for (int i = 0; i < 50; i++)
        free(kept[i]);
    return 26;
}

static void *early;
static void before_all(int argc, char **argv, char **env)
{
    (void)argc, (void)argv, (void)env;
    early = malloc(1000);
}
/* Before any constructor, those of preloaded libraries, too. */
__attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **,
                                                                        char **) = before_all;
__attribute__((destructor)) static void after_all(void) { free(malloc(2000)); }

/* What was allocated before all constructors is used and freed late. */
static int before_constructors(void)
{
    memset(early, 1, 1000);
    early = realloc(early, 5000);
    free(early);
    churn(8, 500);
    return 27;
}

static const struct nasty modes[] = {{"jumps", jumps},
                                     {"timers", timers},
                                     {"deaf", deaf},
                                     {"fork-in-handler", fork_in_handler},
                                     {"stops", stops},
                                     {"own-faults", own_faults},
                                     {"coroutines", coroutines},
                                     {"clone-vm", clone_vm},
                                     {"raw-exit", raw_exit},
                                     {"cancels", cancels},
                                     {"exec-in-thread", exec_in_thread},
                                     {"forks", forks},
                                     {"ends", plain_end},
                                     {"abort-at-exit", abort_at_exit},
                                     {"usable", usable},
                                     {"pages", pages},
                                     {"kernel-writes", kernel_writes},
                                     {"extremes", extremes},
                                     {"libraries", libraries},
                                     {"before-constructors", before_constructors},
                                     {0, 0}};

int main(int argc, char **argv)
{
    static char self[4096];
    const char *mode = argc > 1 ? argv[1] : "";
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    nasty_self = n > 0 ? self : argv[0];
    nasty_directory = argc > 2 ? argv[2] : ".";
    for (const struct nasty *m = modes; m->name; m++)
        if (!strcmp(m->name, mode))
            return m->run();
    for (const struct nasty *m = nasty_system; m->name; m++)
        if (!strcmp(m->name, mode))
            return m->run();
    return 2;
}
