/* safe.c - see safe.h. The whole stack is read, by the tables of the files that its code is in. */
#include "remote/safe.h"

#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>

enum { FRAMES_MAX = 4096, STACK_LEFT = 64 << 10, STACK_MOST = 256 << 10, RED_ZONE = 128 };

bool safe_wait(const struct user_regs_struct *r)
{
    enum { OPERATION = 0x7f, WAIT_BITSET = 9 };
    const long number = (long)r->orig_rax;
    /* the C library's own locks wait by another operation of futex */
    return safe_call(number) && (number != SYS_futex || (r->rsi & OPERATION) == WAIT_BITSET);
}

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

/* A copy of the thread's stack, from the red zone on. */
struct stack {
    uint64_t at, end;
    uint8_t *bytes;
};

static bool word(const struct injected *t, const struct stack *s, uint64_t at, uint64_t *value)
{
    if (at >= s->at && at + 8 <= s->end && at + 8 > at) {
        memcpy(value, s->bytes + (at - s->at), 8);
        return true;
    }
    return injected_read(t, at, value, 8);
}

struct frame {
    uint64_t pc, sp, bp;
};

/* The next outer frame. False: the stack cannot be read there. */
static bool step(const struct injected *t, const struct stack *s, const struct unwind_row *row,
                 struct frame *f)
{
    uint64_t cfa, bp = f->bp, ra;
    switch (row->rule) {
    case UNWIND_SP: cfa = f->sp + (uint64_t)(int64_t)row->cfa_offset; break;
    case UNWIND_BP: cfa = f->bp + (uint64_t)(int64_t)row->cfa_offset; break;
    case UNWIND_PLT: cfa = f->sp + 8 + ((f->pc & 15) >= 11 ? 8 : 0); break;
    case UNWIND_REALIGNED:
        if (!word(t, s, f->bp + (uint64_t)(int64_t)row->cfa_offset, &cfa))
            return false;
        break;
    default: return false;
    }
    if (row->rule == UNWIND_REALIGNED
            ? !word(t, s, f->bp, &bp)
            : row->bp_offset && !word(t, s, cfa + (uint64_t)(int64_t)row->bp_offset, &bp))
        return false;
    if (cfa <= f->sp || !word(t, s, cfa - 8, &ra))
        return false;
    *f = (struct frame){ra, cfa, bp};
    return true;
}

/* libc may be innermost in a thread that waits, and is outermost in every thread; a frame of it
 * between others is a function that calls back, perhaps under a lock. */
enum place { INNER, OWN, OUTER };

static const char *judge(struct injected *t, const struct stack *s, struct frame f, bool waits)
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
        if (!step(t, s, row, &f))
            return "its stack cannot be read to the end";
        if (place == OUTER && own_after)
            return "the C library called it back"; /* only _start is there, which has no caller */
    }
    return "its stack is too deep";
}

const char *safe_not(struct injected *t, const struct user_regs_struct *r, bool waits)
{
    enum { CODE_64 = 0x33 };
    const struct region *stack = injected_region(t, r->rsp);
    if (r->cs != CODE_64)
        return "it runs 32-bit code";
    if (!stack || !stack->write || stack->shared || stack->module >= 0)
        return "it runs on a stack of its own making";
    if (r->rsp - stack->start < STACK_LEFT + RED_ZONE && !stack->stack)
        return "it has too little stack left";
    struct stack copy = {.at = r->rsp, .end = stack->end};
    if (copy.end - copy.at > STACK_MOST)
        copy.end = copy.at + STACK_MOST;
    copy.bytes = malloc(copy.end - copy.at);
    if (!copy.bytes || !injected_read(t, copy.at, copy.bytes, copy.end - copy.at)) {
        free(copy.bytes);
        return "its stack cannot be read";
    }
    const char *why = judge(t, &copy, (struct frame){r->rip, r->rsp, r->rbp}, waits);
    free(copy.bytes);
    return why;
}
