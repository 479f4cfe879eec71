/* misuse.c - one memory error of each kind. argv: KIND [COUNT]. Prints "survived" when it goes on
 * to its end. The functions made, broke and gave_back are where the block is made, misused and
 * freed. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apart.h"

#define STAY __asm__ volatile("" ::: "memory") /* no tail call */

static size_t size = 100;
static volatile int *volatile nowhere = (volatile int *)8;

APART static char *made(void)
{
    char *p = malloc(size);
    memset(p, 1, size);
    STAY;
    return p;
}
APART static void gave_back(void *p)
{
    free(p);
    STAY;
}
APART static void broke_write(char *p, long at)
{
    *(volatile char *)(p + at) = 7;
    STAY;
}
APART static char broke_read(const char *p, long at)
{
    char c = *(const volatile char *)(p + at);
    STAY;
    return c;
}
APART static void broke_free(void *p)
{
    free(p);
    __asm__ volatile("nop" ::: "memory"); /* not the same function as the one above */
}

static sigjmp_buf back;
static volatile sig_atomic_t handled;
static void on_segv(int n)
{
    handled += n == SIGSEGV;
    siglongjmp(back, 1);
}
static void on_segv_info(int n, siginfo_t *info, void *context)
{
    (void)context;
    handled += n == SIGSEGV && info->si_addr == (void *)8;
    siglongjmp(back, 1);
}

/* The program's own faults reach its own handler. */
static int handlers(void)
{
    struct sigaction a, old;
    memset(&a, 0, sizeof a);
    gave_back(made());
    if (signal(SIGSEGV, on_segv) != SIG_DFL)
        return 3;
    if (!sigsetjmp(back, 1))
        *nowhere = 1;
    a.sa_sigaction = on_segv_info;
    a.sa_flags = SA_SIGINFO;
    sigemptyset(&a.sa_mask);
    if (sigaction(SIGSEGV, &a, &old) || old.sa_handler != on_segv)
        return 4;
    if (!sigsetjmp(back, 1))
        *nowhere = 1;
    if (handled != 2)
        return 5;
    a.sa_handler = on_segv;
    a.sa_flags = (int)SA_RESETHAND;
    sigaction(SIGSEGV, &a, &old);
    if (!(old.sa_flags & SA_SIGINFO) || old.sa_sigaction != on_segv_info)
        return 6;
    if (!sigsetjmp(back, 1))
        raise(SIGSEGV);
    if (handled != 3 || sigaction(SIGSEGV, NULL, &old) || old.sa_handler != SIG_DFL)
        return 7;
    gave_back(made());
    a.sa_handler = SIG_IGN;
    a.sa_flags = 0;
    sigaction(SIGSEGV, &a, NULL);
    raise(SIGSEGV);
    a.sa_handler = SIG_DFL;
    sigaction(SIGSEGV, &a, NULL);
    return 0;
}

static void *freeing_thread(void *p)
{
    gave_back(p);
    return NULL;
}

/* false: no such kind */
APART static int misuse(const char *kind)
{
    char *p = made();
    if (!strcmp(kind, "none")) {
        gave_back(p);
    } else if (!strcmp(kind, "overflow-write")) {
        broke_write(p, (long)size);
        gave_back(p);
    } else if (!strcmp(kind, "overflow-read")) {
        (void)broke_read(p, (long)size);
        gave_back(p);
    } else if (!strcmp(kind, "overflow-far")) {
        (void)broke_read(p, 4096);
        gave_back(p);
    } else if (!strcmp(kind, "underflow-write")) {
        broke_write(p, -1);
        gave_back(p);
    } else if (!strcmp(kind, "underflow-read")) {
        (void)broke_read(p, -8);
        gave_back(p);
    } else if (!strcmp(kind, "use-after-free-write")) {
        gave_back(p);
        broke_write(p, 3);
    } else if (!strcmp(kind, "use-after-free-read")) {
        gave_back(p);
        (void)broke_read(p, 5);
    } else if (!strcmp(kind, "use-after-thread-free")) {
        pthread_t t;
        pthread_create(&t, NULL, freeing_thread, p);
        pthread_join(t, NULL);
        (void)broke_read(p, 5);
    } else if (!strcmp(kind, "double-free")) {
        gave_back(p);
        broke_free(p);
    } else if (!strcmp(kind, "free-inside")) {
        broke_free(p + 16);
        gave_back(p);
    } else if (!strcmp(kind, "realloc-freed")) {
        gave_back(p);
        gave_back(realloc(p, 200));
    } else {
        return 0;
    }
    return 1;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "";
    int count = argc > 2 ? atoi(argv[2]) : 1;
    if (argc > 3)
        size = (size_t)atol(argv[3]);
    if (!strcmp(kind, "handlers")) {
        int r = handlers();
        if (r)
            return r;
    } else if (!strcmp(kind, "own-fault")) {
        gave_back(made());
        *nowhere = 1;
    } else {
        for (int i = 0; i < count; i++)
            if (!misuse(kind))
                return 2;
    }
    puts("survived");
    return 0;
}
