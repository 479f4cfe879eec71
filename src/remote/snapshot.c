/* snapshot.c - a copy of a stopped process, made by a fork that is injected into one of its
 * threads; see target.h. The process goes on while the copy is read.
 *
 * The copy is a child that never runs. It shares the table of files, so that a descriptor that the
 * process closes is closed; it raises no signal when it ends, and no ordinary wait sees it; when
 * all is read it is killed, and the process is made to reap it.
 *
 * The thread makes system calls that it did not ask for (borrow.h), from libc's own "syscall; ret".
 * The child's stack leads to libc's exit. */
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/proc.h"
#include "remote/borrow.h"
#include "remote/live.h"
#include "remote/safe.h"

enum {
    CALL_MS = 500, /* none of the calls waits */
    END_MS = 1000
};

/* --- whether it may be --- */

/* A stopped thread that can be borrowed. */
static struct thread *choose(const struct target *t, struct heap_live *live)
{
    for (size_t i = 0; i < live->count; i++) {
        struct thread *k = &live->tracees[i];
        if (!k->gone && k->stopped && !safe_to_call(t, k))
            return k;
    }
    return NULL;
}

/* --- calls --- */

static uint64_t call_until(void) { return clock_monotonic_ns() + CALL_MS * 1000000ull; }

static const char *why_not(struct target *t, struct heap_live *live)
{
    char status[8192];
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].group)
            return "the process is stopped by a signal";
    if (proc_read((pid_t)t->pid, "status", status, sizeof status) <= 0 ||
        !proc_status_is(status, "Seccomp:", "0"))
        return "a seccomp filter might kill it for a fork";
    return code_find_all(t, &live->pieces) ? NULL : "its libc has not the code that a fork needs";
}

/* Where the child of a fork begins, and returns to: libc's exit. */
static uint64_t prepare_child(const struct borrowed *b, const struct code_pieces *p)
{
    const uint64_t stack = (b->stack - TARGET_PAGE_BYTES) & ~(uint64_t)15;
    return handle_write(b->process, stack, &p->exit, sizeof p->exit) ? stack : 0;
}

/* A system call by a thread of the process. NULL with its result; else why there is none. Signals
 * to us wait meanwhile: a terminal's interrupt must not end us in the middle. made: the call is a
 * fork, and the child is wanted. */
static const char *call(struct target *t, struct heap_live *live, long number, const uint64_t a[4],
                        int64_t *result, pid_t *made)
{
    struct borrowed b = {.process = &live->process};
    uint64_t own[4];
    const char *refused = why_not(t, live);
    if (refused)
        return refused;
    if (!(b.thread = choose(t, live)))
        return "no thread of it can be borrowed now";
    memcpy(own, a, sizeof own);
    const bool reports = made && !ptrace(PTRACE_SETOPTIONS, b.thread->tid, NULL,
                                         thread_options | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK);
    b.sigreturn = live->pieces.sigreturn;
    if (!handle_same(&live->process, b.thread->tid) || !borrow_prepare(&b) ||
        (made && (!reports || !(own[1] = prepare_child(&b, &live->pieces)))))
        refused = "its thread could not be prepared";
    else if (!borrow_system_call(&b, live->pieces.call, number, own, CALL_MS * 1000000ull, result))
        refused = "its thread could not be borrowed";
    if (made)
        *made = b.made;
    borrow_put_back(&b);
    if (reports && b.thread->stopped && !b.thread->gone)
        ptrace(PTRACE_SETOPTIONS, b.thread->tid, NULL, thread_options);
    return refused;
}

static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

const char *live_call(struct target *t, long number, const uint64_t a[4], int64_t *result)
{
    sigset_t before;
    hold_signals(&before);
    const char *refused = call(t, t->impl, number, a, result, NULL);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return refused;
}

/* The child of the call stands from the first on, and ends with us at the latest. */
static bool keep_copy(struct heap_live *live, pid_t made)
{
    struct thread copy = {.tid = made};
    int status = 0;
    if (thread_await_status(&copy, &status, call_until(), true) && copy.stopped &&
        !ptrace(PTRACE_SETOPTIONS, made, NULL, PTRACE_O_EXITKILL)) {
        handle_open(&live->copy, made);
        if (live->copy.memory >= 0)
            return true;
    }
    handle_close(&live->copy);
    live->copy.pid = 0;
    kill(made, SIGKILL);
    return false;
}

/* The pool of huge pages may have none left for what the process writes to while there is a copy:
 * one that was forked itself would die of it. */
static bool has_huge_pages(const struct target *t)
{
    for (size_t i = 0; i < t->region_count; i++)
        if (t->regions[i].flags & REGION_HUGE)
            return true;
    return false;
}

void target_snapshot(struct target *t)
{
    struct heap_live *live = t->impl;
    const uint64_t fork[4] = {CLONE_FILES | CLONE_FS};
    int64_t result = -1;
    pid_t made = 0;
    sigset_t before;
    hold_signals(&before);
    t->refused = has_huge_pages(t) ? "a copy may take the last HugetlbPages from it"
                                   : call(t, live, SYS_clone, fork, &result, &made);
    if (!t->refused && (result <= 0 || !made))
        t->refused = "the kernel refused to fork it (limits of processes or memory)";
    if (made && !keep_copy(live, made) && !t->refused)
        t->refused = "its copy ended";
    if (!t->refused)
        live_keep_lacking(t, live);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (t->refused)
        return;
    target_let_go(t);
    t->memory_pid = (uint32_t)made;
    t->source = TARGET_SNAPSHOT;
    resident_free(live->resident);
    live->resident = resident_new(&live->copy, false);
    t->knows_pages = live->resident != NULL;
}

/* Any thread of the process may reap the copy. */
static bool reap(struct target *t, struct heap_live *live, pid_t copy)
{
    enum { WAIT_ALL = 0x40000000 };
    const uint64_t wait[4] = {(uint64_t)copy, 0, WAIT_ALL | WNOHANG};
    int64_t result = -1;
    struct error err;
    bool changed;
    const bool good = !live_stop(t, live, &changed, &err) &&
                      !call(t, live, SYS_wait4, wait, &result, NULL) && result == copy;
    target_let_go(t);
    return good || changed; /* another program's children are its own affair */
}

void live_end_copy(struct target *t, struct heap_live *live)
{
    const uint64_t until_ns = clock_monotonic_ns() + END_MS * 1000000ull;
    int status;
    sigset_t before;
    struct thread copy = {.tid = live->copy.pid};
    if (!copy.tid)
        return;
    handle_close(&live->copy);
    live->copy.pid = 0;
    hold_signals(&before);
    kill(copy.tid, SIGKILL);
    do
        status = 0;
    while (thread_await_status(&copy, &status, until_ns, true) && !copy.gone);
    while (!kill((pid_t)t->pid, 0) && !reap(t, live, copy.tid) && clock_monotonic_ns() < until_ns &&
           !thread_asked_to_end())
        usleep(1000);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
