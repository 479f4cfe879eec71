/* borrowed.c - a borrowed thread that is given up in the middle of a call, with a stop that was not
 * seen: it goes on by itself, in its own image or in the next one. The program is a fork of this
 * one, so its functions are where ours are. */
#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/clock.h"
#include "remote/borrow.h"
#include "remote/code.h"
#include "remote/image.h"
#include "remote/safe.h"

enum { CALLS = 20, GOES_ON = 7, NEXT_IMAGE = 8 };

static struct {
    atomic_int waits, called;
    struct mlw_attach_answer answer;
} * shared;

static void brief(void) { nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); }

/* Functions that the thread is made to call. */

static void calls(void)
{
    for (shared->called = 0; shared->called < CALLS; shared->called++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void executes(void)
{
    execl("/bin/sh", "sh", "-c", "exit 8", (char *)NULL);
    _exit(1);
}

static pid_t begin(void)
{
    const int before = shared->waits;
    const pid_t pid = fork();
    assert(pid >= 0);
    if (!pid) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (const int first = before + 1; shared->waits - first < CALLS; shared->waits++)
            brief();
        _exit(GOES_ON);
    }
    while (shared->waits == before)
        brief();
    return pid;
}

static struct thread thread;

static void borrow(struct borrowed *b, struct injected *t, pid_t pid)
{
    assert(injected_hold(t, pid));
    assert(!injected_refresh(t));
    struct code_pieces code;
    assert(code_find_return(t->target, &code));
    b->sigreturn = code.sigreturn;
    b->process = target_handle(t->target);
    assert(thread_stop(&thread, b->process, pid) == THREAD_STANDS);
    b->thread = &thread;
    assert(borrow_prepare(b));
}

/* Waits until the thread stands at a stop that no waitpid has returned. */
static void await_stop(pid_t pid)
{
    siginfo_t info;
    do {
        brief();
        info.si_pid = 0;
        assert(!waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT | __WALL));
    } while (!info.si_pid);
    assert(info.si_code == CLD_TRAPPED);
}

/* A program that waits on a stack in memory that brk made, or that mmap made. */
static ucontext_t elsewhere;

static void waits(void)
{
    for (shared->waits = 1;;)
        pause();
}

static pid_t begin_on(bool of_brk)
{
    const pid_t pid = fork();
    assert(pid >= 0);
    if (pid) {
        while (!shared->waits)
            brief();
        shared->waits = 0;
        return pid;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    getcontext(&elsewhere);
    elsewhere.uc_stack.ss_size = 1 << 20;
    elsewhere.uc_stack.ss_sp =
        of_brk ? sbrk(1 << 20)
               : mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    makecontext(&elsewhere, waits, 0);
    setcontext(&elsewhere);
    _exit(1);
}

/* Blocks lie below a stack in the heap. */
static void refuses(bool of_brk)
{
    struct injected t;
    struct thread stopped;
    const pid_t pid = begin_on(of_brk);
    assert(injected_hold(&t, pid) && !injected_refresh(&t));
    assert(thread_stop(&stopped, target_handle(t.target), pid) == THREAD_STANDS);
    const char *why = safe_to_call(t.target, &stopped);
    assert(of_brk ? why && strstr(why, "of its own making") : !why);
    kill(pid, SIGKILL);
    thread_let_go(&stopped, thread_let_go_until());
    injected_close(&t);
    waitpid(pid, NULL, __WALL);
}

static void ends(pid_t pid, int with)
{
    int status;
    assert(waitpid(pid, &status, __WALL) == pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != with)
        fprintf(stderr, "status %#x, not of exit %d\n", (unsigned)status, with);
    assert(WIFEXITED(status) && WEXITSTATUS(status) == with);
}

int main(void)
{
    static struct borrowed b;
    static struct injected t;
    sigset_t news;
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigprocmask(SIG_BLOCK, &news, NULL); /* as the process that attaches has it */
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert(shared != MAP_FAILED);

    /* a call that has not come back in time, at the stop of some system call that it makes */
    pid_t pid = begin();
    borrow(&b, &t, pid);
    assert(!borrow_call(&b, (uint64_t)(uintptr_t)calls, 0, 0, 0));
    await_stop(pid);
    borrow_put_back(&b);
    thread_let_go(&thread, thread_let_go_until());
    injected_close(&t);
    ends(pid, GOES_ON);
    assert(shared->called == CALLS);

    /* the same with a function that would answer, and executes a program */
    pid = begin();
    borrow(&b, &t, pid);
    const struct borrow_request request = {.image = t.target,
                                           .answer_at = (uint64_t)(uintptr_t)&shared->answer,
                                           .token = 1,
                                           .limit_ns = 1};
    struct mlw_attach_answer answer;
    assert(!borrow_call_staying(&b, (uint64_t)(uintptr_t)executes, &request, &answer));
    await_stop(pid);
    borrow_put_back(&b);
    thread_let_go(&thread, thread_let_go_until());
    injected_close(&t);
    ends(pid, NEXT_IMAGE);
    shared->waits = 0;
    refuses(true);
    refuses(false);
    puts("a thread that is given up goes on by itself");
    return 0;
}
