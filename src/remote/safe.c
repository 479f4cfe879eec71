/* safe.c - see safe.h. The whole stack is read, by the tables of the files that its code is in. */
#include "remote/safe.h"

#include <sys/syscall.h>

#include "remote/unwind.h"

enum { FRAMES_MAX = 4096, STACK_LEFT = 64 << 10, RED_ZONE = 128 };

bool safe_call(long number)
{
    static const short waits[] = {SYS_epoll_wait,
                                  SYS_epoll_pwait,
                                  SYS_poll,
                                  SYS_ppoll,
                                  SYS_select,
                                  SYS_pselect6,
                                  SYS_accept,
                                  SYS_accept4,
                                  SYS_recvfrom,
                                  SYS_recvmsg,
                                  SYS_nanosleep,
                                  SYS_wait4,
                                  SYS_clock_nanosleep,
                                  SYS_waitid,
                                  SYS_rt_sigtimedwait,
                                  SYS_rt_sigsuspend,
                                  SYS_pause,
                                  SYS_futex,
                                  SYS_read,
                                  SYS_restart_syscall,
                                  SYS_io_getevents,
                                  SYS_semop,
                                  SYS_semtimedop,
                                  SYS_msgrcv,
                                  SYS_sendto,
                                  SYS_sendmsg};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (waits[i] == number)
            return true;
    return number == 441; /* epoll_pwait2 */
}

/* The same of a thread that was interrupted in one, by its registers. */
static bool safe_wait(const struct user_regs_struct *r)
{
    enum { OPERATION = 0x7f, WAIT_BITSET = 9 };
    const long number = (long)r->orig_rax;
    /* the C library's own locks wait by another operation of futex */
    return safe_call(number) && (number != SYS_futex || (r->rsi & OPERATION) == WAIT_BITSET);
}

/* libc may be innermost in a thread that waits, and is outermost in every thread; a frame of it
 * between others is a function that calls back, perhaps under a lock. */
enum place { INNER, OWN, OUTER };

static const char *judge(struct injected *t, struct unwind_place f, bool waits)
{
    enum place place = waits ? INNER : OWN;
    unsigned own_after = 0;
    for (unsigned n = 0; n < FRAMES_MAX; n++) {
        enum module_kind kind = MODULE_OTHER;
        const struct unwind_row *row = injected_rule(t, f.pc - (n > 0), &kind);
        if (!row || row->rule == UNWIND_NONE)
            return "its stack cannot be read to the end";
        if (kind == MODULE_LINKER && row->rule != UNWIND_END)
            return "it is inside the dynamic linker";
        if (kind == MODULE_UNSAFE)
            return "it is inside a library that locks (exceptions, or mallow's own)";
        if (row->rule == UNWIND_SIGNAL)
            return "it is inside a signal handler";
        if (n == 0 && kind == MODULE_LIBC && !waits)
            return "it is inside the C library";
        if (kind == MODULE_LIBC && place == OWN) {
            place = OUTER;
        } else if (kind != MODULE_LIBC && place == INNER) {
            place = OWN;
        } else if (kind != MODULE_LIBC && place == OUTER && ++own_after > 1) {
            return "the C library called it back";
        }
        if (row->rule == UNWIND_END)
            return place == OUTER && own_after && f.pc && kind == MODULE_LIBC
                       ? "the C library called it back"
                       : NULL;
        const uint64_t below = f.sp;
        if (!unwind_step(t->target, row, &f) || f.sp <= below)
            return "its stack cannot be read to the end";
        if (place == OUTER && own_after)
            return "the C library called it back"; /* only _start is there, which has no caller */
    }
    return "its stack is too deep";
}

const char *safe_to_call(const struct target *t, const struct thread *k)
{
    enum { CODE_64 = 0x33 };
    const uint64_t sp = k->registers.rsp;
    const struct target_region *stack = target_region_at(t, sp);
    if (k->signal)
        return "a signal is on its way to it";
    if (k->registers.cs != CODE_64)
        return "it runs 32-bit code";
    if (!stack || !(stack->flags & REGION_WRITE) || stack->file ||
        stack->flags & (REGION_SHARED | REGION_BREAK | REGION_HUGE))
        return "it runs on a stack of its own making";
    if (sp - stack->start < STACK_LEFT + RED_ZONE && !(stack->flags & REGION_STACK))
        return "it has too little stack left";
    return thread_in_sequence(target_handle(t), k->tid) ? "it is inside a restartable sequence"
                                                        : NULL;
}

const char *safe_to_load(struct injected *t, const struct thread *k)
{
    const struct user_regs_struct *r = &k->registers;
    const bool waits = thread_interrupted(k);
    const char *why = safe_to_call(t->target, k);
    if (why)
        return why;
    if (waits && !safe_wait(r))
        return "it waits, perhaps for or under a lock";
    target_forget(t->target); /* it has run since */
    return judge(t, (struct unwind_place){r->rip, r->rsp, r->rbp}, waits);
}
