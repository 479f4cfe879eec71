/* borrow.c - see borrow.h.
 *
 * The thread's stack holds, below its red zone: room for arguments, a copy of its floating-point
 * state, and the frame of a signal handler with its registers and mask. What it is made to do
 * begins below, and returns into libc's signal return. The order of the writes is what makes our
 * death harmless: the stack first, then all registers in one call; and on the way back, the
 * floating-point state and the mask first, while the frame would still restore them, the registers
 * last. */
#include "remote/borrow.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "arch/code.h"
#include "arch/sigframe.h"
#include "base/clock.h"

enum { RED_ZONE = 128, BACK_MS = 10000 };

/* No news comes of what the thread writes. */
#define GLANCE_NS 100000
/* The most of the stack that a function we call may use: below that, a fault is not ours. */
#define CALL_STACK_MOST (1u << 20)

/* ---- system calls that the stop interrupted ---- */

/* True of calls that the kernel lets go on by restart_syscall. */
static bool goes_on(int64_t call)
{
    static const short going_on[] = {SYS_nanosleep, SYS_clock_nanosleep, SYS_poll, SYS_futex};
    for (size_t i = 0; i < sizeof going_on / sizeof *going_on; i++)
        if (call == going_on[i])
            return true;
    return false;
}

/* The call's number is the seventh argument of what calls glibc's entry for cancelable calls: on
 * the stack, right above a return address. -1: not found. */
static int64_t call_above_return(const struct handle *process, const struct user_regs_struct *r)
{
    enum { CALLERS_WORDS = 16 };
    uint64_t words[CALLERS_WORDS];
    uint8_t code[ARCH_CALL_CODE];
    if (!handle_read(process, r->rsp, words, sizeof words))
        return -1;
    for (size_t i = 1; i + 1 < CALLERS_WORDS; i++)
        if (words[i + 1] <= INT16_MAX && goes_on((int64_t)words[i + 1]) &&
            handle_read(process, words[i] - sizeof code, code, sizeof code) &&
            arch_ends_with_call(code))
            return (int64_t)words[i + 1];
    return -1;
}

/* A call that went on after an earlier stop goes by the number of restart_syscall. Returns the
 * original call, by the code before it; -1: not known. */
static int64_t restarted_call(const struct handle *process, const struct user_regs_struct *r)
{
    uint8_t code[ARCH_CALL_CODE];
    if (!handle_read(process, r->rip - sizeof code, code, sizeof code))
        return -1;
    int64_t number = arch_call_number(code);
    const uint32_t above = arch_call_number_at(code);
    if (above && !handle_read(process, r->rsp + above, &number, sizeof number))
        return -1;
    if (arch_call_may_be_canceled(code))
        number = call_above_return(process, r);
    return goes_on(number) ? number : -1;
}

/* The registers of a stopped thread as a signal handler's return restores them. A call that was
 * interrupted begins again, with its arguments: what the kernel keeps of the rest of a sleep
 * (restart_syscall) is void behind a signal return. Where the call is not known, it returns EINTR.
 */
static struct arch_signal_frame frame_of(const struct borrowed *b, uint64_t fpstate)
{
    const struct user_regs_struct *r = &b->thread->registers;
    struct arch_signal_frame f = arch_signal_frame_of(r, b->mask, fpstate);
    if (thread_interrupted(b->thread)) {
        const int64_t call = r->orig_rax == SYS_restart_syscall ? restarted_call(b->process, r)
                                                                : (int64_t)r->orig_rax;
        f.ip -= call < 0 ? 0 : 2;
        f.ax = call < 0 ? (uint64_t)-EINTR : (uint64_t)call;
    }
    return f;
}

/* ---- preparing ---- */

bool borrow_prepare(struct borrowed *b)
{
    struct iovec area = {b->xstate, sizeof b->xstate};
    const pid_t tid = b->thread->tid;
    uint8_t *copy = malloc(sizeof b->xstate + ARCH_SIGNAL_STATE_TAIL);
    b->where = BORROWED_STILL;
    b->made = 0;
    if (!copy || ptrace(PTRACE_GETSIGMASK, tid, sizeof b->mask, &b->mask) ||
        ptrace(PTRACE_GETREGSET, tid, NT_X86_XSTATE, &area) ||
        area.iov_len < ARCH_SIGNAL_STATE_LEAST || area.iov_len > sizeof b->xstate) {
        free(copy);
        return false;
    }
    b->xstate_bytes = area.iov_len;
    memcpy(copy, b->xstate, area.iov_len);
    arch_signal_state(copy, area.iov_len);
    b->room = (b->thread->registers.rsp - RED_ZONE - BORROW_ROOM) & ~(uint64_t)63;
    const uint64_t state = (b->room - area.iov_len - 64) & ~(uint64_t)63;
    const struct arch_signal_frame f = frame_of(b, state);
    const uint64_t frame_at = (state - sizeof f - 128) & ~(uint64_t)15;
    b->stack = frame_at - 8;
    const bool good =
        (!b->errno_at || handle_read(b->process, b->errno_at, &b->errno_was, 4)) &&
        handle_write(b->process, state, copy, area.iov_len + ARCH_SIGNAL_STATE_TAIL) &&
        handle_write(b->process, frame_at, &f, sizeof f) &&
        handle_write(b->process, b->stack, &b->sigreturn, 8);
    free(copy);
    return good;
}

/* ---- calls ---- */

static bool go_on(struct borrowed *b, long how)
{
    b->thread->gone |= ptrace((enum __ptrace_request)how, b->thread->tid, NULL, NULL) != 0;
    return !b->thread->gone;
}

/* In a call of ours: such a signal is never delivered. All of the thread's are blocked, and the
 * kernel would end the process. */
static bool is_our_fault(const struct borrowed *b, int status)
{
    struct user_regs_struct r;
    return thread_faulted(b->thread, status) && !ptrace(PTRACE_GETREGS, b->thread->tid, NULL, &r) &&
           r.rsp <= b->stack + 8 && b->stack - r.rsp < CALL_STACK_MOST;
}

/* Lets the thread run to its next system call, in or out. */
static bool to_call_stop(struct borrowed *b, uint64_t until_ns, bool whole)
{
    for (long how = PTRACE_SYSCALL;;) {
        int status = 0;
        if (!go_on(b, how) || !thread_await_status(b->thread, &status, until_ns, whole) ||
            b->thread->gone)
            return false;
        if (WSTOPSIG(status) == THREAD_CALL_STOP)
            return true;
        if (is_our_fault(b, status)) {
            b->where = BORROWED_FAULTED;
            return false;
        }
        const int event = status >> 16;
        unsigned long made = 0;
        if ((event == PTRACE_EVENT_CLONE || event == PTRACE_EVENT_FORK) &&
            !ptrace(PTRACE_GETEVENTMSG, b->thread->tid, NULL, &made))
            b->made = (pid_t)made;
        how = b->thread->group ? PTRACE_LISTEN : PTRACE_SYSCALL; /* the process was stopped */
    }
}

/* The thread stands still, and goes on there. From the registers on, our end does no harm; a
 * blocked signal would stay blocked before. */
static bool enter(struct borrowed *b, uint64_t at, long number, const uint64_t a[4])
{
    struct user_regs_struct r = b->thread->registers;
    enum { DIRECTION = 0x400 };
    const uint64_t all = UINT64_MAX;
    r.rip = at;
    r.rsp = b->stack;
    r.rax = (unsigned long long)number;
    r.orig_rax = (unsigned long long)-1;
    r.rdi = a[0];
    r.rsi = a[1];
    r.rdx = a[2];
    r.r10 = a[3];
    r.rcx = r.r8 = r.r9 = 0;
    r.eflags &= ~(unsigned long long)DIRECTION;
    /* The return address may have been overwritten by a call before. */
    if (!handle_write(b->process, b->stack, &b->sigreturn, 8) ||
        ptrace(PTRACE_SETREGS, b->thread->tid, NULL, &r))
        return false;
    b->where = BORROWED_AWAY;
    return !ptrace(PTRACE_SETSIGMASK, b->thread->tid, sizeof all, &all);
}

bool borrow_call(struct borrowed *b, uint64_t function, uint64_t a, uint64_t c, uint64_t limit_ns)
{
    const uint64_t until_ns = clock_monotonic_ns() + limit_ns;
    struct user_regs_struct r;
    if (!enter(b, function, 0, (const uint64_t[4]){a, c}))
        return false;
    do {
        if (!to_call_stop(b, until_ns, false) || ptrace(PTRACE_GETREGS, b->thread->tid, NULL, &r))
            return false;
    } while (r.orig_rax != SYS_rt_sigreturn || r.rsp != b->stack + 8 || r.rip != b->sigreturn + 9 ||
             (long)r.rax != -ENOSYS);
    b->where = BORROWED_BACK;
    return true;
}

bool borrow_system_call(struct borrowed *b, uint64_t call, long number, const uint64_t a[4],
                        uint64_t limit_ns, int64_t *result)
{
    const uint64_t until_ns = clock_monotonic_ns() + limit_ns;
    struct user_regs_struct r;
    if (!enter(b, call, number, a) || !to_call_stop(b, until_ns, true) ||
        !to_call_stop(b, until_ns, true) || ptrace(PTRACE_GETREGS, b->thread->tid, NULL, &r))
        return false;
    *result = (int64_t)r.rax;
    b->where = BORROWED_LEFT;
    return true;
}

/* True if the library has answered. */
static bool answered(const struct borrow_request *q, struct mlw_attach_answer *to)
{
    return target_get(q->image, q->answer_at, to, sizeof *to) && to->token == q->token;
}

/* Lets the thread go on after a stop that was not awaited. Its signals are blocked while it is in
 * the library: one that comes anyway is for its own code, in which it is again. */
static void let_go_on(struct borrowed *b)
{
    struct thread *t = b->thread;
    t->gone |= ptrace(t->group ? PTRACE_LISTEN : PTRACE_CONT, t->tid, NULL,
                      (void *)(intptr_t)t->signal) != 0; // NOLINT
    t->signal = 0;
}

/* Stops the thread that stays where the library has done what it was asked for. One that has gone
 * on by itself may have ended since, or have no processor: then our end lets it go. */
static void stop_again(struct borrowed *b, uint64_t until_ns)
{
    struct thread *t = b->thread;
    int status = 0;
    t->gone = ptrace(PTRACE_INTERRUPT, t->tid, NULL, NULL) != 0;
    while (!t->gone) {
        t->gone |= !thread_await_status(t, &status, until_ns, false);
        if (t->gone || status >> 16 == PTRACE_EVENT_STOP)
            break;
        let_go_on(b);
    }
}

/* Takes the thread back, once it has nothing open. */
static void take_back(struct borrowed *b, const struct borrow_request *q, uint64_t until_ns)
{
    struct mlw_attach_answer now = {0};
    for (;;) {
        stop_again(b, until_ns);
        if (b->thread->gone || !answered(q, &now) || now.done != MLW_ATTACH_LOOKS ||
            !go_on(b, PTRACE_CONT))
            break;
        thread_nap(GLANCE_NS);
    }
    if (!b->thread->gone && now.token == q->token && now.done == MLW_ATTACH_STAYS)
        b->where = BORROWED_STAYS;
}

bool borrow_call_staying(struct borrowed *b, uint64_t function, const struct borrow_request *q,
                         struct mlw_attach_answer *answer)
{
    const uint64_t until_ns = clock_monotonic_ns() + q->limit_ns;
    if (!enter(b, function, 0, (const uint64_t[4]){q->argument}) || !go_on(b, PTRACE_CONT))
        return false;
    while (clock_monotonic_ns() < until_ns && !thread_asked_to_end()) {
        int status = 0;
        if (answered(q, answer)) {
            take_back(b, q, until_ns);
            return true;
        }
        if (thread_await_status(b->thread, &status, 0, false) && !b->thread->gone) {
            if (is_our_fault(b, status)) {
                b->where = BORROWED_FAULTED;
                return false;
            }
            let_go_on(b);
        }
        if (b->thread->gone) /* it may have gone on by itself, and ended */
            return answered(q, answer);
        thread_nap(GLANCE_NS);
    }
    return false;
}

/* ---- putting back ---- */

/* To a stop at which the kernel decides about restarting calls; from the entry of the signal return
 * without making that. If we die on the way it is made. */
static bool to_event_stop(struct borrowed *b)
{
    const uint64_t until_ns = clock_monotonic_ns() + BACK_MS * 1000000ull;
    const pid_t tid = b->thread->tid;
    int status = 0;
    struct user_regs_struct r;
    if (b->where == BORROWED_BACK) {
        if (ptrace(PTRACE_GETREGS, tid, NULL, &r))
            return false;
        r.orig_rax = (unsigned long long)-1;
        r.rip -= 2;
        r.rax = SYS_rt_sigreturn;
        if (ptrace(PTRACE_SETREGS, tid, NULL, &r))
            return false;
    }
    if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL))
        return false;
    do
        if (!go_on(b, PTRACE_CONT) || !thread_await_status(b->thread, &status, until_ns, true) ||
            b->thread->gone)
            return false;
    while (status >> 16 != PTRACE_EVENT_STOP);
    return true;
}

void borrow_put_back(struct borrowed *b)
{
    struct iovec area = {b->xstate, b->xstate_bytes};
    if (b->where == BORROWED_STILL || b->where == BORROWED_AWAY || b->thread->gone)
        return;
    const pid_t tid = b->thread->tid;
    if (b->where == BORROWED_FAULTED) /* where the kernel decides about signals, as at an event */
        b->thread->signal = 0;
    else if (b->where != BORROWED_STAYS && !to_event_stop(b))
        return; /* it goes on by what lies on its stack */
    if (b->errno_at)
        handle_write(b->process, b->errno_at, &b->errno_was, 4);
    if (ptrace(PTRACE_SETREGSET, tid, NT_X86_XSTATE, &area) ||
        ptrace(PTRACE_SETSIGMASK, tid, sizeof b->mask, &b->mask))
        return;
    ptrace(PTRACE_SETREGS, tid, NULL, &b->thread->registers);
}
