/* stops.c - a thread that is asked to stop and cannot: it is let go when it can, and another thread
 * may be asked meanwhile. The program is a fork of this one: a thread of it waits in vfork for a
 * child that sleeps, another one waits for events. */
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "remote/thread.h"

static struct {
    atomic_int forker, waiter; /* threads */
    atomic_int release[2];     /* a pipe: its end lets the child go */
    atomic_int forks, wrong, waits;
} * shared;

static void *forks(void *arg)
{
    shared->forker = gettid();
    for (;;) {
        const pid_t child = vfork();
        if (!child) {
            char byte;
            _exit(read(shared->release[0], &byte, 1) == 1 ? 0 : 1);
        }
        waitpid(child, NULL, 0);
        shared->forks++;
    }
    return arg;
}

static void program(void)
{
    pthread_t thread;
    struct epoll_event event;
    const int e = epoll_create1(0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pthread_create(&thread, NULL, forks, NULL);
    for (shared->waiter = gettid();; shared->waits++)
        shared->wrong += epoll_wait(e, &event, 1, 20) != 0;
}

static char state_of(pid_t pid, pid_t tid, long *tracer)
{
    char name[64], text[4096];
    snprintf(name, sizeof name, "task/%d/status", (int)tid);
    assert(proc_read(pid, name, text, sizeof text) > 0);
    *tracer = strtol(strstr(text, "\nTracerPid:") + 11, NULL, 10);
    return *(strstr(text, "\nState:\t") + 8);
}

static void brief(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

int main(void)
{
    struct thread late, other;
    struct handle process;
    long tracer;
    int ends[2];
    sigset_t news;
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigprocmask(SIG_BLOCK, &news, NULL); /* as the process that attaches has it */
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(shared != MAP_FAILED && !pipe(ends));
    shared->release[0] = ends[0];
    const pid_t pid = fork();
    assert(pid >= 0);
    if (!pid) {
        close(ends[1]);
        program();
    }
    while (!shared->forker || !shared->waiter || state_of(pid, shared->forker, &tracer) != 'D')
        brief();

    handle_open(&process, pid);
    assert(thread_stop(&late, &process, shared->forker) == THREAD_LATE);
    assert(state_of(pid, shared->forker, &tracer) == 'D' && tracer == getpid());
    const uint64_t began_ns = clock_monotonic_ns();
    assert(thread_stop(&late, &process, shared->forker) == THREAD_LATE);
    assert(clock_monotonic_ns() - began_ns < 500000000u); /* it was not waited for again */
    assert(thread_stop(&other, &process, shared->waiter) == THREAD_STANDS);
    thread_let_go(&other, thread_let_go_until());

    const int forked = shared->forks;
    thread_leave_late(0); /* it is still there */
    state_of(pid, shared->forker, &tracer);
    assert(tracer == getpid() && write(ends[1], "x", 1) == 1);
    thread_leave_late(60000000000u);
    state_of(pid, shared->forker, &tracer);
    assert(!tracer);
    assert(write(ends[1], "x", 1) == 1);
    while (shared->forks < forked + 2)
        brief();
    const int waited = shared->waits;
    while (shared->waits < waited + 5)
        brief();
    assert(!shared->wrong);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    puts("a thread that does not stop is let go");
    return 0;
}
