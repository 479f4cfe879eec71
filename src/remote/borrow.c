/* borrow.c - see borrow.h.
 *
 * The thread's stack holds, below its red zone: room for arguments, a copy of its floating-point
 * state, and the frame of a signal handler with its registers and mask. Functions begin below, and
 * return into libc's signal return. The order of the writes is what makes our death harmless: the
 * stack first, then all registers in one call; and on the way back, the floating-point state and
 * the mask first, while the frame would still restore them, the registers last. */
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
#include <time.h>

#include "arch/code.h"
#include "arch/sigframe.h"
#include "arch/stop.h"
#include "base/clock.h"
#include "remote/restart.h"

enum {
    RED_ZONE = 128,
    STOP_LIMIT_MS = 1000 /* of a busy machine; then another thread is asked */
};

/* ---- stopping ---- */

/* Threads that have not stopped in time: they are let go when they do. Of this process, which is
 * there for one injection. */
static struct {
    struct thread thread[16];
    unsigned count;
} late;

static bool is_late(pid_t tid)
{
    for (unsigned i = 0; i < late.count; i++)
        if (late.thread[i].tid == tid)
            return true;
    return false;
}

static void look_at_late(void)
{
    for (unsigned i = late.count; i-- > 0;) {
        struct thread *t = &late.thread[i];
        if (!thread_look(t))
            continue;
        if (t->stopped) {
            thread_registers(t);
            thread_let_go(t, 0);
        }
        *t = late.thread[--late.count];
    }
}

/* An exec ends the leader, also one that stands still for us, and gives its id to the thread that
 * executes: registers that are set under that id may be the new image's. A late thread can be in an
 * exec; in any other call, and out of it, it stops first. */
static bool late_may_execute(const struct handle *h)
{
    look_at_late();
    for (unsigned i = 0; i < late.count; i++) {
        const long call = thread_call(h, late.thread[i].tid);
        if (call < 0 || call == SYS_execve || call == SYS_execveat)
            return true;
    }
    return false;
}

/* Each stop of the thread raises SIGCHLD here, which is blocked; if it does not, it is looked at
 * after LOOK_NS. */
#define LOOK_NS 10000000
/* No news comes of what the thread writes. */
#define GLANCE_NS 100000
/* The most of the stack that a function we call may use: below that, a fault is not ours. */
#define CALL_STACK_MOST (1u << 20)

static void await_news(uint64_t limit_ns)
{
    sigset_t news;
    const struct timespec time = {.tv_nsec = limit_ns < LOOK_NS ? (long)limit_ns : LOOK_NS};
    sigemptyset(&news);
    sigaddset(&news, SIGCHLD);
    sigtimedwait(&news, NULL, &time);
    look_at_late();
}

static pid_t wait_until(pid_t tid, int *status, uint64_t limit_ns)
{
    const uint64_t until = clock_monotonic_ns() + limit_ns;
    for (;;) {
        const pid_t got = waitpid(tid, status, __WALL | WNOHANG);
        if (got == tid || (got < 0 && errno != EINTR))
            return got;
        const uint64_t now = clock_monotonic_ns();
        if (now > until || thread_asked_to_end())
            return 0;
        await_news(until - now);
    }
}

enum borrow_stop borrow_stop(struct borrowed *b, const struct injected *t, pid_t tid, bool *waits)
{
    int status = 0;
    b->target = t;
    b->prepared = b->called = b->faulted = b->back = b->stays = false;
    look_at_late();
    if (is_late(tid) || (tid == t->handle.pid && late_may_execute(&t->handle)))
        return BORROW_LATE;
    const int refused = thread_seize(&b->thread, t->handle.pid, tid, late.thread, late.count);
    if (refused) {
        errno = refused;
        return refused == ESRCH ? BORROW_GONE : BORROW_REFUSED;
    }
    b->since_ns = clock_monotonic_ns();
    const pid_t got = wait_until(tid, &status, STOP_LIMIT_MS * 1000000ull);
    if (got == 0) {
        if (late.count == sizeof late.thread / sizeof *late.thread)
            return BORROW_BUSY; /* our end frees it */
        late.thread[late.count++] = b->thread;
        return BORROW_LATE;
    }
    thread_note(&b->thread, got, status);
    if (b->thread.gone)
        return BORROW_GONE;
    if (b->thread.group)
        return BORROW_GROUP;
    if (!thread_registers(&b->thread) || ptrace(PTRACE_GETSIGMASK, tid, sizeof b->mask, &b->mask)) {
        borrow_end(b);
        return BORROW_GONE;
    }
    const struct user_regs_struct *r = &b->thread.registers;
    const long result = (long)r->rax;
    *waits = (long)r->orig_rax >= 0 && result <= -512 && result >= -516;
    return BORROW_STOPPED;
}

/* ---- preparing ---- */

/* Where errno of the thread is, by the code of libc's __errno_location; 0: not known. */
static uint64_t find_errno(const struct borrowed *b)
{
    static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}, load[] = {0x48, 0x8b, 0x05},
                         add[] = {0x64, 0x48, 0x03, 0x04, 0x25, 0, 0, 0, 0};
    uint8_t code[32];
    int32_t distance;
    uint64_t offset, at = injected_function(b->target, MODULE_LIBC, "__errno_location", NULL);
    const uint8_t *c = code;
    if (!at || !injected_read(b->target, at, code, sizeof code))
        return 0;
    if (!memcmp(c, mark, sizeof mark))
        c += sizeof mark;
    if (memcmp(c, load, sizeof load) != 0 || memcmp(c + 7, add, sizeof add) != 0)
        return 0;
    memcpy(&distance, c + 3, 4);
    at += (uint64_t)(c - code) + 7 + (uint64_t)(int64_t)distance;
    return injected_read(b->target, at, &offset, 8) ? b->thread.registers.fs_base + offset : 0;
}

bool borrow_prepare(struct borrowed *b)
{
    struct iovec area = {b->xstate, sizeof b->xstate};
    uint8_t *copy = malloc(sizeof b->xstate + 64);
    if (!copy || ptrace(PTRACE_GETREGSET, b->thread.tid, NT_X86_XSTATE, &area) ||
        area.iov_len < ARCH_SIGNAL_STATE_LEAST || area.iov_len > sizeof b->xstate - 64) {
        free(copy);
        return false;
    }
    b->xstate_bytes = area.iov_len;
    memcpy(copy, b->xstate, area.iov_len);
    arch_signal_state(copy, area.iov_len);
    b->room = (b->thread.registers.rsp - RED_ZONE - BORROW_ROOM) & ~(uint64_t)63;
    const uint64_t state = (b->room - area.iov_len - 64) & ~(uint64_t)63;
    const struct arch_signal_frame f =
        restart_frame(&b->target->handle, &b->thread.registers, b->mask, state);
    const uint64_t frame_at = (state - sizeof f - 128) & ~(uint64_t)15;
    b->stack = frame_at - 8;
    b->errno_at = find_errno(b);
    b->prepared = b->errno_at && injected_read(b->target, b->errno_at, &b->errno_was, 4) &&
                  injected_write(b->target, state, copy, area.iov_len + ARCH_SIGNAL_STATE_TAIL) &&
                  injected_write(b->target, frame_at, &f, sizeof f) &&
                  injected_write(b->target, b->stack, &b->sigreturn, 8);
    free(copy);
    return b->prepared;
}

/* ---- calls ---- */

static bool go_on(struct borrowed *b, long how)
{
    b->thread.gone |= ptrace((enum __ptrace_request)how, b->thread.tid, NULL, NULL) != 0;
    return !b->thread.gone;
}

/* In a call of ours: such a signal is never delivered. All of the thread's are blocked, and the
 * kernel would end the process. */
static bool is_our_fault(const struct borrowed *b, int status)
{
    struct user_regs_struct r;
    return b->called && thread_faulted(&b->thread, status) &&
           !ptrace(PTRACE_GETREGS, b->thread.tid, NULL, &r) && r.rsp <= b->stack + 8 &&
           b->stack - r.rsp < CALL_STACK_MOST;
}

/* Lets the thread run to its next system call, in or out. */
static bool to_call_stop(struct borrowed *b, uint64_t until_ns)
{
    long how = PTRACE_SYSCALL;
    for (;;) {
        int status;
        const uint64_t now = clock_monotonic_ns();
        if (!go_on(b, how))
            return false;
        const pid_t got = wait_until(b->thread.tid, &status, now < until_ns ? until_ns - now : 0);
        if (got == 0)
            return false;
        thread_note(&b->thread, got, status);
        if (b->thread.gone)
            return false;
        if (WSTOPSIG(status) == THREAD_CALL_STOP)
            return true;
        if ((b->faulted = is_our_fault(b, status)))
            return false;
        how = b->thread.group ? PTRACE_LISTEN : PTRACE_SYSCALL; /* the process was stopped */
    }
}

/* The thread stands still, and goes on in the function. */
static bool enter(struct borrowed *b, uint64_t function, uint64_t a, uint64_t c)
{
    struct user_regs_struct r = b->thread.registers;
    enum { DIRECTION = 0x400 };
    r.rip = function;
    r.rsp = b->stack;
    r.rax = 0;
    r.orig_rax = (unsigned long long)-1;
    r.rdi = a;
    r.rsi = c;
    r.rdx = r.rcx = r.r8 = r.r9 = 0;
    r.eflags &= ~(unsigned long long)DIRECTION;
    /* The return address may have been overwritten by a call before. */
    if (!injected_write(b->target, b->stack, &b->sigreturn, 8) ||
        ptrace(PTRACE_SETREGS, b->thread.tid, NULL, &r))
        return false;
    b->called = true;
    b->back = false;
    const uint64_t all = UINT64_MAX;
    return !ptrace(PTRACE_SETSIGMASK, b->thread.tid, sizeof all, &all);
}

bool borrow_call(struct borrowed *b, uint64_t function, uint64_t a, uint64_t c, uint64_t limit_ns)
{
    const uint64_t until_ns = clock_monotonic_ns() + limit_ns;
    struct user_regs_struct r;
    if (!enter(b, function, a, c))
        return false;
    do {
        if (!to_call_stop(b, until_ns) || ptrace(PTRACE_GETREGS, b->thread.tid, NULL, &r))
            return false;
    } while (r.orig_rax != SYS_rt_sigreturn || r.rsp != b->stack + 8 || r.rip != b->sigreturn + 9 ||
             (long)r.rax != -ENOSYS);
    return b->back = true;
}

/* Whether the library has answered. */
static bool answered(const struct borrowed *b, uint64_t at, uint64_t token,
                     struct mlw_attach_answer *to)
{
    return injected_read(b->target, at, to, sizeof *to) && to->token == token;
}

/* Lets the thread go on after a stop that was not awaited. Its signals are blocked while it is in
 * the library: one that comes anyway is for its own code, in which it is again. */
static bool let_go_on(struct borrowed *b, int status)
{
    if (status >> 16 == PTRACE_EVENT_EXEC) {
        thread_note(&b->thread, b->thread.tid, status);
        return false;
    }
    const bool signal = status >> 16 != PTRACE_EVENT_STOP,
               group = !signal && thread_stops(WSTOPSIG(status));
    b->thread.gone |= ptrace(group ? PTRACE_LISTEN : PTRACE_CONT, b->thread.tid, NULL,
                             (void *)(intptr_t)(signal ? WSTOPSIG(status) : 0)) != 0; // NOLINT
    return !b->thread.gone;
}

/* Stops the thread that stays where the library has done what it was asked for. One that has gone
 * on by itself may have ended since, or have no processor: then our end lets it go. */
static void stop_again(struct borrowed *b, uint64_t until_ns)
{
    int status;
    b->thread.gone = ptrace(PTRACE_INTERRUPT, b->thread.tid, NULL, NULL) != 0;
    while (!b->thread.gone) {
        const uint64_t clock = clock_monotonic_ns();
        const pid_t got =
            wait_until(b->thread.tid, &status, clock < until_ns ? until_ns - clock : 0);
        b->thread.gone = got != b->thread.tid || !WIFSTOPPED(status);
        if (b->thread.gone || status >> 16 == PTRACE_EVENT_STOP)
            break;
        let_go_on(b, status);
    }
}

/* Takes the thread back, once it has nothing open. */
static void take_back(struct borrowed *b, uint64_t at, uint64_t token, uint64_t until_ns)
{
    struct mlw_attach_answer now = {0};
    for (;;) {
        stop_again(b, until_ns);
        if (b->thread.gone || !answered(b, at, token, &now) || now.done != MLW_ATTACH_LOOKS ||
            !go_on(b, PTRACE_CONT))
            break;
        await_news(GLANCE_NS);
    }
    b->stays = !b->thread.gone && now.token == token && now.done == MLW_ATTACH_STAYS;
}

bool borrow_call_staying(struct borrowed *b, uint64_t function, const struct borrow_request *q,
                         struct mlw_attach_answer *answer)
{
    const uint64_t until_ns = clock_monotonic_ns() + q->limit_ns;
    if (!enter(b, function, q->argument, 0) || !go_on(b, PTRACE_CONT))
        return false;
    while (clock_monotonic_ns() < until_ns && !thread_asked_to_end()) {
        int status;
        if (answered(b, q->answer_at, q->token, answer)) {
            take_back(b, q->answer_at, q->token, until_ns);
            return true;
        }
        const pid_t got = wait_until(b->thread.tid, &status, 0);
        const bool stopped = got == b->thread.tid && WIFSTOPPED(status);
        if (stopped && (b->faulted = is_our_fault(b, status)))
            return false;
        if (stopped)
            let_go_on(b, status);
        else
            b->thread.gone = got != 0;
        if (b->thread.gone) /* it may have gone on by itself, and ended */
            return answered(b, q->answer_at, q->token, answer);
        await_news(GLANCE_NS);
    }
    return false;
}

/* ---- letting go ---- */

/* From the entry of the signal return, which is not made, to a stop at which the kernel decides
 * about restarting calls. If we die on the way it is made. */
static bool to_event_stop(struct borrowed *b)
{
    int status;
    struct user_regs_struct r;
    if (ptrace(PTRACE_GETREGS, b->thread.tid, NULL, &r))
        return false;
    r.orig_rax = (unsigned long long)-1;
    r.rip -= 2;
    r.rax = SYS_rt_sigreturn;
    if (ptrace(PTRACE_SETREGS, b->thread.tid, NULL, &r) ||
        ptrace(PTRACE_INTERRUPT, b->thread.tid, NULL, NULL) ||
        ptrace(PTRACE_CONT, b->thread.tid, NULL, NULL))
        return false;
    while (wait_until(b->thread.tid, &status, 10000000000ull) == b->thread.tid &&
           WIFSTOPPED(status)) {
        if (status >> 16 == PTRACE_EVENT_STOP)
            return true;
        if (WSTOPSIG(status) != THREAD_CALL_STOP)
            b->thread.signal = WSTOPSIG(status);
        if (ptrace(PTRACE_CONT, b->thread.tid, NULL, NULL))
            return false;
    }
    return false;
}

static void put_back(struct borrowed *b)
{
    struct iovec area = {b->xstate, b->xstate_bytes};
    if (b->faulted) /* it stands where the kernel decides about signals, as at an event stop */
        b->thread.signal = 0;
    else if (b->back ? !to_event_stop(b) : !b->stays)
        return; /* it goes on by what lies on its stack, wherever it is: it may have a stop that we
                   have not seen, also in another image */
    injected_write(b->target, b->errno_at, &b->errno_was, 4);
    if (ptrace(PTRACE_SETREGSET, b->thread.tid, NT_X86_XSTATE, &area) ||
        ptrace(PTRACE_SETSIGMASK, b->thread.tid, sizeof b->mask, &b->mask))
        return;
    ptrace(PTRACE_SETREGS, b->thread.tid, NULL, &b->thread.registers);
}

void borrow_end(struct borrowed *b)
{
    if (b->called && !b->thread.gone)
        put_back(b);
    const uint64_t wait_ms = thread_asked_to_end() ? 0 : THREAD_LET_GO_MS;
    thread_let_go(&b->thread, clock_monotonic_ns() + wait_ms * 1000000ull);
}

void borrow_leave(uint64_t limit_ns)
{
    const uint64_t until_ns = clock_monotonic_ns() + limit_ns;
    for (look_at_late(); late.count && clock_monotonic_ns() < until_ns && !thread_asked_to_end();)
        await_news(LOOK_NS);
}
