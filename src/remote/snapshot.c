/* snapshot.c - a copy of a stopped process, made by a fork that is injected into one of its
 * threads; see target.h. The process goes on while the copy is read.
 *
 * The copy is a child that never runs. It shares the table of files, so that a descriptor that the
 * process closes is closed; it raises no signal when it ends, and no ordinary wait sees it; when
 * all is read it is killed, and the process is made to reap it.
 *
 * The thread makes system calls that it did not ask for, so everything is prepared for our sudden
 * end: the call is made from libc's own "syscall; ret", on the thread's stack below what it uses,
 * and returns into libc's signal return with a frame that holds all of its registers; and the
 * child's stack leads to libc's exit. While we live, the registers are put back by us. */
#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch/sigframe.h"
#include "base/clock.h"
#include "base/proc.h"
#include "remote/live.h"
#include "remote/restart.h"

enum {
    RED_ZONE = 128,
    STACK_LEFT = 64 << 10,
    XSTATE_MAX = 16 << 10,
    CODE_WINDOW = 1 << 16,
    CODE_MOST = 1 << 26, /* that is looked through: a mapping may be terabytes of nothing */
    CALL_MS = 500,       /* none of the calls waits */
    END_MS = 1000
};

struct injection {
    struct target *t;
    struct thread *tracee;
    struct live_pieces pieces;
    uint64_t mask;  /* the thread's own */
    uint64_t stack; /* where the thread's calls are made: the return address lies there */
    uint64_t child_stack;
    pid_t made;   /* the last child that a call made */
    bool faulted; /* the code that was chosen is none any more: the thread stands where it failed */
};

/* --- finding code --- */

static void look_for(const uint8_t *code, size_t n, uint64_t at, struct live_pieces *p)
{
    static const uint8_t call[] = {0x0f, 0x05, 0xc3};
    static const uint8_t sigreturn[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    static const uint8_t ends[2][7] = {{0xb8, 0xe7, 0, 0, 0, 0x0f, 0x05},
                                       {0xb8, 0x3c, 0, 0, 0, 0x0f, 0x05}};
    const uint8_t *found;
    if (!p->call && (found = memmem(code, n, call, sizeof call)))
        p->call = at + (uint64_t)(found - code);
    if (!p->sigreturn && (found = memmem(code, n, sigreturn, sizeof sigreturn)))
        p->sigreturn = at + (uint64_t)(found - code);
    for (int i = 0; i < 2; i++)
        if (!p->exit && (found = memmem(code, n, ends[i], sizeof ends[i])))
            p->exit = at + (uint64_t)(found - code);
}

static bool has_all(const struct live_pieces *p) { return p->call && p->sigreturn && p->exit; }

/* In one mapping. */
static bool find_in(struct target *t, const struct target_region *r, uint8_t *code, uint64_t *left,
                    struct live_pieces *p)
{
    struct live_pieces here = {0};
    for (uint64_t at = r->start; at < r->end && *left && !has_all(&here); at += CODE_WINDOW) {
        *left -= CODE_WINDOW;
        uint64_t want = r->end - at < CODE_WINDOW + 16 ? r->end - at : CODE_WINDOW + 16;
        const size_t have = target_read(t, at, code, want);
        if (have && (*code || memcmp(code, code + 1, have - 1) != 0)) /* memmem is slow on zeros */
            look_for(code, have, at, &here);
    }
    if (has_all(&here))
        *p = here;
    return has_all(&here);
}

/* In libc; else in a program that has it inside. Libraries are not looked into one by one: the
 * process stands still meanwhile, and a program can have 100 MB of code. */
static bool find_pieces(struct target *t, struct live_pieces *p)
{
    uint8_t *code = has_all(p) ? NULL : malloc(CODE_WINDOW + 16);
    uint64_t left = CODE_MOST;
    for (int pass = 0; code && pass < 2 && !has_all(p); pass++)
        for (size_t i = 0; i < t->region_count && !has_all(p); i++) {
            const struct target_region *r = &t->regions[i];
            const char *slash = r->file ? strrchr(r->file, '/') : NULL;
            const bool libc =
                slash && (!strncmp(slash, "/libc.", 6) || !strncmp(slash, "/libc-", 6));
            if (r->flags & REGION_EXEC && slash && libc == !pass && !strstr(slash, "ld-linux"))
                find_in(t, r, code, &left, p);
        }
    free(code);
    return has_all(p);
}

/* --- whether it may be --- */

static bool status_says(const struct target *t, const char *field, const char *value)
{
    char text[8192];
    const char *at = proc_read((pid_t)t->pid, "status", text, sizeof text) > 0
                         ? proc_status_field(text, field)
                         : NULL;
    const size_t n = strlen(value);
    return at && !strncmp(at, value, n) && at[n] == '\n';
}

/* A stopped thread that can be borrowed: room on its stack, no signal on its way. */
static struct thread *choose(const struct target *t, struct heap_live *live)
{
    for (size_t i = 0; i < live->count; i++) {
        struct thread *k = &live->tracees[i];
        const struct target_region *r = target_region_at(t, k->registers.rsp);
        if (k->gone || !k->stopped || k->signal || !r || r->flags & REGION_BREAK || r->file ||
            k->registers.cs != 0x33 || k->registers.rsp - r->start < STACK_LEFT ||
            thread_in_sequence(&live->process, k->tid))
            continue;
        return k;
    }
    return NULL;
}

/* --- the thread's stack --- */

static bool put(const struct injection *j, uint64_t at, const void *data, size_t bytes)
{
    const struct heap_live *live = j->t->impl;
    return handle_write(&live->process, at, data, bytes);
}

/* Writes the frame, and what it needs of the floating-point state, below what the thread uses. */
static bool prepare_stack(struct injection *j)
{
    uint8_t *state = calloc(1, XSTATE_MAX + 64);
    struct iovec area = {state, XSTATE_MAX};
    if (!state || ptrace(PTRACE_GETREGSET, j->tracee->tid, NT_X86_XSTATE, &area) ||
        area.iov_len < ARCH_SIGNAL_STATE_LEAST || area.iov_len > XSTATE_MAX) {
        free(state);
        return false;
    }
    arch_signal_state(state, area.iov_len);
    uint64_t top = (j->tracee->registers.rsp - RED_ZONE - area.iov_len - 64) & ~(uint64_t)63;
    const struct heap_live *live = j->t->impl;
    const struct arch_signal_frame f =
        restart_frame(&live->process, &j->tracee->registers, j->mask, top);
    uint64_t frame_at = (top - sizeof f - 128) & ~(uint64_t)15;
    j->stack = frame_at - 8;
    j->child_stack = (j->stack - TARGET_PAGE_BYTES) & ~(uint64_t)15;
    bool good = put(j, top, state, area.iov_len + ARCH_SIGNAL_STATE_TAIL) &&
                put(j, frame_at, &f, sizeof f) && put(j, j->stack, &j->pieces.sigreturn, 8) &&
                put(j, j->child_stack, &j->pieces.exit, 8);
    free(state);
    return good;
}

/* --- calls --- */

static uint64_t call_until(void) { return clock_monotonic_ns() + CALL_MS * 1000000ull; }

/* Resumes the thread until it enters or leaves a system call. */
static bool to_call_stop(struct injection *j, uint64_t until_ns)
{
    struct thread *k = j->tracee;
    for (;;) {
        int status = 0;
        if (ptrace(PTRACE_SYSCALL, k->tid, NULL, NULL)) {
            k->gone = true;
            return false;
        }
        if (!thread_await_status(k, &status, until_ns) || k->gone)
            return false;
        const int event = status >> 16;
        if (WSTOPSIG(status) == THREAD_CALL_STOP)
            return true;
        if (thread_faulted(k, status)) { /* blocked, it would end the process when delivered */
            j->faulted = true;
            k->signal = 0;
            return false;
        }
        if (event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) {
            unsigned long made = 0;
            ptrace(PTRACE_GETEVENTMSG, k->tid, NULL, &made);
            j->made = (pid_t)made;
        }
    }
}

static bool call(struct injection *j, long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d,
                 int64_t *result)
{
    struct user_regs_struct r = j->tracee->registers;
    r.rip = j->pieces.call;
    r.rsp = j->stack;
    r.rax = (unsigned long long)number;
    r.orig_rax = (unsigned long long)-1;
    r.rdi = a;
    r.rsi = b;
    r.rdx = c;
    r.r10 = d;
    r.r8 = 0;
    /* From the registers on, our end does no harm; a blocked signal would stay blocked before. */
    const uint64_t all = UINT64_MAX, until_ns = call_until();
    if (ptrace(PTRACE_SETREGS, j->tracee->tid, NULL, &r) ||
        ptrace(PTRACE_SETSIGMASK, j->tracee->tid, sizeof all, &all) || !to_call_stop(j, until_ns) ||
        !to_call_stop(j, until_ns) || ptrace(PTRACE_GETREGS, j->tracee->tid, NULL, &r))
        return false;
    *result = (int64_t)r.rax;
    return true;
}

/* Puts the thread back: registers where the kernel decides about restarting calls, then signals.
 * One that does not come to a stop goes on by what lies on its stack. */
static void put_back(struct injection *j)
{
    int status = 0;
    struct thread *k = j->tracee;
    if (!j->faulted && !k->gone && k->stopped && !ptrace(PTRACE_INTERRUPT, k->tid, NULL, NULL) &&
        !ptrace(PTRACE_CONT, k->tid, NULL, NULL)) {
        const uint64_t until_ns = call_until();
        while (thread_await_status(k, &status, until_ns) && !k->gone &&
               status >> 16 != PTRACE_EVENT_STOP)
            ptrace(PTRACE_CONT, k->tid, NULL, NULL);
    }
    if (k->gone || !k->stopped)
        return;
    ptrace(PTRACE_SETREGS, k->tid, NULL, &k->registers);
    ptrace(PTRACE_SETSIGMASK, k->tid, sizeof j->mask, &j->mask);
    ptrace(PTRACE_SETOPTIONS, k->tid, NULL, thread_options);
}

static bool take_over(struct injection *j)
{
    const struct heap_live *live = j->t->impl;
    pid_t tid = j->tracee->tid;
    return handle_same(&live->process, tid) &&
           !ptrace(PTRACE_GETSIGMASK, tid, sizeof j->mask, &j->mask) && prepare_stack(j) &&
           !ptrace(PTRACE_SETOPTIONS, tid, NULL,
                   thread_options | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK);
}

static const char *why_not(struct target *t, struct heap_live *live, struct injection *j)
{
    for (size_t i = 0; i < live->count; i++)
        if (live->tracees[i].group)
            return "the process is stopped by a signal";
    if (!status_says(t, "Seccomp:", "0"))
        return "a seccomp filter might kill it for a fork";
    if (!find_pieces(t, &live->pieces))
        return "its libc has not the code that a fork needs";
    j->pieces = live->pieces;
    if (!(j->tracee = choose(t, live)))
        return "no thread of it can be borrowed now";
    return NULL;
}

/* Signals to us wait meanwhile: a terminal's interrupt must not end us in the middle. */
static void hold_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, before);
}

const char *live_call(struct target *t, long number, const uint64_t a[4], int64_t *result)
{
    struct heap_live *live = t->impl;
    struct injection j = {.t = t};
    sigset_t before;
    const char *refused = why_not(t, live, &j);
    if (refused)
        return refused;
    hold_signals(&before);
    if (!take_over(&j))
        refused = "its thread could not be prepared";
    else if (!call(&j, number, a[0], a[1], a[2], a[3], result))
        refused = "its thread could not be borrowed";
    if (j.mask || j.stack)
        put_back(&j);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return refused;
}

/* The child of the call stands from the first on, and ends with us at the latest. */
static bool keep_copy(struct heap_live *live, pid_t made)
{
    struct thread copy = {.tid = made};
    int status = 0;
    if (thread_await_status(&copy, &status, call_until()) && copy.stopped &&
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
    struct injection j = {.t = t};
    int64_t result = -1;
    sigset_t before;
    t->refused =
        has_huge_pages(t) ? "a copy may take the last HugetlbPages from it" : why_not(t, live, &j);
    if (t->refused)
        return;
    hold_signals(&before);
    if (!take_over(&j)) {
        t->refused = "its thread could not be prepared";
    } else if (!call(&j, SYS_clone, CLONE_FILES | CLONE_FS, j.child_stack, 0, 0, &result) ||
               result <= 0 || !j.made) {
        t->refused = "the kernel refused to fork it (limits of processes or memory)";
    }
    if (j.made && !keep_copy(live, j.made))
        t->refused = "its copy ended";
    if (j.mask || j.stack)
        put_back(&j);
    if (!t->refused)
        live_keep_lacking(t, live);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (t->refused)
        return;
    target_let_go(t);
    t->memory_pid = (uint32_t)j.made;
    t->source = TARGET_SNAPSHOT;
    resident_free(live->resident);
    live->resident = resident_new(&live->copy);
    t->knows_pages = live->resident != NULL;
}

/* Any thread of the process may reap the copy. */
static bool reap(struct target *t, struct heap_live *live, pid_t copy)
{
    struct injection j = {.t = t};
    int64_t result = -1;
    struct error err;
    bool good = false, changed;
    if (live_stop(t, live, &changed, &err) == 0 && !why_not(t, live, &j) && take_over(&j)) {
        enum { WAIT_ALL = 0x40000000 };
        good = call(&j, SYS_wait4, (uint64_t)copy, 0, WAIT_ALL | WNOHANG, 0, &result) &&
               result == copy;
        put_back(&j);
    }
    target_let_go(t);
    return good || changed; /* what another program makes of its children is its own */
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
    while (thread_await_status(&copy, &status, until_ns) && !copy.gone);
    while (!kill((pid_t)t->pid, 0) && !reap(t, live, copy.tid) && clock_monotonic_ns() < until_ns &&
           !thread_asked_to_end())
        usleep(1000);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
