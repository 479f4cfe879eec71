/* signals.c - signal handlers that allocate, map, jump. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "apart.h"
#include "mallow.h"

static void *volatile sink;
static volatile sig_atomic_t handled, most, busy, skipped;

static void every(long us)
{
    struct itimerval t = {{0, us}, {0, us}};
    setitimer(ITIMER_REAL, &t, NULL);
}
static void on(int sig, void (*f)(int), int flags)
{
    struct sigaction a;
    memset(&a, 0, sizeof a);
    a.sa_handler = f;
    a.sa_flags = flags | SA_RESTART;
    sigaction(sig, &a, NULL);
}

/* The main code never allocates; the handler does, n times and no more, however many signals come
 * before the timer is off: 2 blocks of 120 B freed, and one of 8 B left each tenth time. */
static void allocates(int sig)
{
    (void)sig;
    if (handled == most)
        return;
    if (busy) { /* the program's own lock: it may not allocate inside its own malloc */
        skipped++;
        return;
    }
    int e = errno;
    void *p = malloc(120), *q = malloc(120);
    free(p);
    free(q);
    if (handled % 10 == 0)
        sink = malloc(8);
    handled++;
    errno = e;
}
static void idle(int n, int altstack)
{
    static char stack[16384] __attribute__((aligned(16)));
    if (altstack) {
        stack_t s = {.ss_sp = stack, .ss_size = sizeof stack};
        sigaltstack(&s, NULL);
    }
    most = n;
    on(SIGALRM, allocates, altstack ? SA_ONSTACK : 0);
    every(100);
    while (handled < n) {
    }
    every(0);
}

/* The main code allocates under its own lock; the handler allocates when it is not held. */
static void locked(int n)
{
    most = n;
    on(SIGALRM, allocates, 0);
    every(100);
    long mains = 0;
    while (handled < n) {
        busy = 1;
        void *p = malloc(200);
        sink = p;
        busy = 0;
        busy = 1;
        free(p);
        busy = 0;
        for (volatile int spin = 0; spin < 200; spin++) {
        } /* time for the handler to strike where it may allocate */
        mains++;
    }
    every(0);
    char line[64]; /* the truth of this run: for the test */
    int k = snprintf(line, sizeof line, "mains %ld handled %d\n", mains, (int)handled);
    if (write(1, line, (size_t)k) != k)
        _exit(3);
}

/* The main code allocates without a lock; the handler maps and unmaps (system calls only, so it
 * may), and so interrupts the recorder itself. */
static void maps(int sig)
{
    (void)sig;
    int e = errno;
    void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(p, 4096);
    handled++;
    errno = e;
}
static void mapping(int n)
{
    on(SIGALRM, maps, 0);
    every(50);
    long mains = 0;
    while (handled < n) {
        free(sink = malloc(300));
        mains++;
    }
    every(0);
    char line[64];
    int k = snprintf(line, sizeof line, "mains %ld handled %d\n", mains, (int)handled);
    if (write(1, line, (size_t)k) != k)
        _exit(3);
}

/* The handler marks, wherever it strikes. */
static void marks(int sig)
{
    (void)sig;
    MALLOW_MARK("from a handler");
    handled++;
}
static void marking(int n)
{
    on(SIGALRM, marks, 0);
    every(50);
    while (handled < n)
        free(sink = malloc(300));
    every(0);
}

/* The handler leaves by siglongjmp while the main code maps and unmaps: whatever the recorder was
 * about to do is cut short. Afterwards 500 blocks of 99 B must still be recorded. The timer starts
 * when the place to jump to is set, which is never written again: it would be half written at
 * times. */
static sigjmp_buf back;
static void jumps(int sig)
{
    (void)sig;
    handled++;
    siglongjmp(back, 1);
}
static void jumping(int n)
{
    on(SIGALRM, jumps, 0);
    if (sigsetjmp(back, 1) == 0)
        every(50);
    while (handled < n) {
        void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p != MAP_FAILED)
            munmap(p, 4096);
    }
    every(0);
    for (int i = 0; i < 500; i++)
        sink = malloc(99);
}

/* longjmp over frames that allocated; coroutines whose stacks are unmapped. */
static jmp_buf here;
APART static void deep(int n)
{
    void *p = malloc(45);
    sink = p;
    if (n > 0)
        deep(n - 1);
    else
        longjmp(here, 1);
    __asm__ volatile("");
}
static ucontext_t main_context, coroutine;
static void co(void)
{
    for (int i = 0; i < 5; i++)
        sink = malloc(46);
}
static void coroutines(void);
static void longjumps(void)
{
    static int jumped; /* not in a register: longjmp may lose those */
    for (jumped = 0; jumped < 20; jumped++)
        if (setjmp(here) == 0)
            deep(9); /* 10 blocks */
    coroutines();
}
static void coroutines(void)
{
    for (int i = 0; i < 20; i++) {
        size_t size = 128 * 1024;
        char *stack = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        getcontext(&coroutine);
        coroutine.uc_stack.ss_sp = stack;
        coroutine.uc_stack.ss_size = size;
        coroutine.uc_link = &main_context;
        makecontext(&coroutine, co, 0);
        swapcontext(&main_context, &coroutine);
        munmap(stack, size);
        sink = malloc(47);
    }
}

/* 10,000 frames deep, one block of 32 B each, freed on the way back. */
APART static void recurse(int n)
{
    void *p = malloc(32);
    sink = p;
    if (n > 1)
        recurse(n - 1);
    free(p);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    const char *m = argc > 1 ? argv[1] : "";
    int n = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(m, "idle"))
        idle(n, 0);
    else if (!strcmp(m, "altstack"))
        idle(n, 1);
    else if (!strcmp(m, "locked"))
        locked(n);
    else if (!strcmp(m, "mapping"))
        mapping(n);
    else if (!strcmp(m, "marking"))
        marking(n);
    else if (!strcmp(m, "jumping"))
        jumping(n);
    else if (!strcmp(m, "longjmp"))
        longjumps();
    else if (!strcmp(m, "recursion"))
        recurse(n);
    else
        return 2;
    return 0;
}
