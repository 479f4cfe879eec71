/* restart.c - system calls that a stop interrupted. See restart.h. */
#include "remote/restart.h"

#include <errno.h>
#include <sys/syscall.h>

#include "arch/code.h"

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

struct arch_signal_frame restart_frame(const struct handle *process,
                                       const struct user_regs_struct *r, uint64_t mask,
                                       uint64_t fpstate)
{
    struct arch_signal_frame f = arch_signal_frame_of(r, mask, fpstate);
    const int64_t result = (int64_t)r->rax;
    if ((int64_t)r->orig_rax >= 0 && result <= -512 && result >= -516 && result != -515) {
        const int64_t call =
            r->orig_rax == SYS_restart_syscall ? restarted_call(process, r) : (int64_t)r->orig_rax;
        f.ip -= call < 0 ? 0 : 2;
        f.ax = call < 0 ? (uint64_t)-EINTR : (uint64_t)call;
    }
    return f;
}
