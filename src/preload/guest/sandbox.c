/* sandbox.c - programs that lock themselves in: seccomp, and the time stamp counter withheld.
 *
 * A filter that kills for a system call of ours would make us kill the program. So every filter
 * that passes by is asked, before it is installed, what it does with each call that the library
 * makes (guest_calls). A verdict other than "allow" and "fail with an errno" closes the door of
 * sys.h: the library prepares what it can (guest_confine), and makes no call any more.
 *
 * Filters that a program installs by an inline `syscall` instruction are not seen, nor is one that
 * was there before the program began; but an exec that passes through exec.c hands on that the door
 * was closed. To ask the kernel would be a system call itself. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "preload/guest.h"
#include "preload/sys.h"

#define STEPS_MAX 4096 /* the kernel's own limit on the length of a filter */

volatile uint32_t sys_closed; /* how many filters closed it */
volatile uint32_t sys_inside;

/* The filter's answer: classic BPF over struct seccomp_data, which the kernel has not checked
 * yet, so nothing is believed. -1 when it is not a filter, or asks where the call comes from: ours
 * come from many places. */
static int64_t verdict(const struct sock_filter *f, size_t n, const struct seccomp_data *data)
{
    uint32_t a = 0, x = 0, memory[BPF_MEMWORDS] = {0};
    for (size_t pc = 0; pc < n; pc++) {
        uint32_t k = f[pc].k, word, operand = BPF_SRC(f[pc].code) == BPF_X ? x : k;
        switch (BPF_CLASS(f[pc].code)) {
        case BPF_LD:
        case BPF_LDX:
            switch (BPF_MODE(f[pc].code)) {
            case BPF_ABS:
                if (k > sizeof *data - 4 ||
                    k / 8 == offsetof(struct seccomp_data, instruction_pointer) / 8)
                    return -1;
                memcpy(&word, (const uint8_t *)data + k, 4);
                break;
            case BPF_IMM: word = k; break;
            case BPF_MEM:
                if (k >= BPF_MEMWORDS)
                    return -1;
                word = memory[k];
                break;
            case BPF_LEN: word = sizeof *data; break;
            default: return -1;
            }
            if (BPF_CLASS(f[pc].code) == BPF_LD)
                a = word;
            else
                x = word;
            break;
        case BPF_ST:
        case BPF_STX:
            if (k >= BPF_MEMWORDS)
                return -1;
            memory[k] = BPF_CLASS(f[pc].code) == BPF_ST ? a : x;
            break;
        case BPF_ALU:
            switch (BPF_OP(f[pc].code)) {
            case BPF_ADD: a += operand; break;
            case BPF_SUB: a -= operand; break;
            case BPF_MUL: a *= operand; break;
            case BPF_OR: a |= operand; break;
            case BPF_AND: a &= operand; break;
            case BPF_XOR: a ^= operand; break;
            case BPF_LSH: a = operand < 32 ? a << operand : 0; break;
            case BPF_RSH: a = operand < 32 ? a >> operand : 0; break;
            case BPF_NEG: a = -a; break;
            case BPF_DIV:
                if (!operand)
                    return 0;
                a /= operand;
                break;
            default: return -1;
            }
            break;
        case BPF_JMP: {
            bool yes;
            switch (BPF_OP(f[pc].code)) {
            case BPF_JA: pc += k; continue;
            case BPF_JEQ: yes = a == operand; break;
            case BPF_JGT: yes = a > operand; break;
            case BPF_JGE: yes = a >= operand; break;
            case BPF_JSET: yes = (a & operand) != 0; break;
            default: return -1;
            }
            pc += yes ? f[pc].jt : f[pc].jf;
            break;
        }
        case BPF_RET: return BPF_RVAL(f[pc].code) == BPF_A ? a : k;
        case BPF_MISC:
            if (BPF_MISCOP(f[pc].code) == BPF_TAX)
                x = a;
            else
                a = x;
            break;
        default: return -1;
        }
    }
    return -1;
}

bool sandbox_harmless(const struct sock_fprog *program, int number, const uint64_t argument[4])
{
    struct seccomp_data data = {.nr = number, .arch = ARCH_AUDIT};
    if (!program)
        return false;
    memcpy(data.args, argument, 4 * sizeof *argument);
    int64_t v = verdict(program->filter, program->len, &data);
    if (v < 0)
        return false;
    uint32_t action = (uint32_t)v & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO;
}

bool sandbox_inherited(void)
{
    if (!guest_setting("MALLOW_CONFINED"))
        return false;
    __atomic_fetch_add(&sys_closed, 1, __ATOMIC_SEQ_CST);
    return true;
}

static bool all_harmless(const struct sock_fprog *program)
{
    unsigned count;
    const struct guest_call *calls = guest_calls(&count);
    for (unsigned i = 0; i < count; i++)
        if (!sandbox_harmless(program, calls[i].number, calls[i].argument))
            return false;
    return true;
}

/* Other threads that have looked at the door before it closed make their calls first. Such a thread
 * is ready to run; one that is not has entered the kernel. This thread may be one of them itself,
 * in a signal handler. */
static void wait_for_calls(void)
{
    for (unsigned i = 0; i < 2000 && sys_inside; i++)
        sys_decided(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

/* Strict mode, or the filter, is about to be installed; everywhere: in all threads. Whether the
 * door was closed for it. */
static bool about_to_confine(bool strict, bool everywhere, const struct sock_fprog *program)
{
    if (!strict && (!program->filter || !program->len || program->len > STEPS_MAX))
        return false; /* refused by the kernel */
    if (!strict && all_harmless(program))
        return false;
    guest_confine(strict ? 0 : program);
    if (!sys_closed)
        guest_leave_environment();
    if (!__atomic_fetch_add(&sys_closed, 1, __ATOMIC_SEQ_CST) && everywhere)
        wait_for_calls();
    return true;
}

/* Another thread's filter may have come into force meanwhile. */
static void was_refused(void)
{
    if (__atomic_sub_fetch(&sys_closed, 1, __ATOMIC_SEQ_CST))
        return;
    guest_not_confined();
    guest_return_to_environment();
}

INTERPOSED(int, prctl, int option, ...)
{
    static int (*real)(int, ...);
    va_list ap;
    va_start(ap, option);
    unsigned long a = va_arg(ap, unsigned long), b = va_arg(ap, unsigned long),
                  c = va_arg(ap, unsigned long), d = va_arg(ap, unsigned long);
    va_end(ap);
    if (!real)
        real = (int (*)(int, ...))(uintptr_t)next_symbol("prctl");
    if (option == PR_SET_TSC && a == PR_TSC_SIGSEGV)
        guest_clock_withheld();
    bool strict = option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT,
         filter = option == PR_SET_SECCOMP && a == SECCOMP_MODE_FILTER && b,
         closed =
             (strict || filter) && about_to_confine(strict, false, (const struct sock_fprog *)b);
    int r = real(option, a, b, c, d);
    if (closed && r)
        was_refused();
    return r;
}

long sandbox_syscall(guest_real_syscall *real, long number, const long a[6])
{
    if (number == SYS_execve || number == SYS_execveat)
        return guest_exec_syscall(real, number, a);
    /* libseccomp asks for strict mode with flags, which are refused, to learn what the kernel has
     */
    bool strict = (number == SYS_seccomp && a[0] == SECCOMP_SET_MODE_STRICT && !a[1] && !a[2]) ||
                  (number == SYS_prctl && a[0] == PR_SET_SECCOMP && a[1] == SECCOMP_MODE_STRICT),
         filter =
             (number == SYS_seccomp && a[0] == SECCOMP_SET_MODE_FILTER && a[2]) ||
             (number == SYS_prctl && a[0] == PR_SET_SECCOMP && a[1] == SECCOMP_MODE_FILTER && a[2]),
         everywhere = number == SYS_seccomp && a[1] & SECCOMP_FILTER_FLAG_TSYNC,
         closed = (strict || filter) &&
                  about_to_confine(strict, everywhere, (const struct sock_fprog *)a[2]);
    if (number == SYS_prctl && a[0] == PR_SET_TSC && a[1] == PR_TSC_SIGSEGV)
        guest_clock_withheld();
    long r = real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
    if (closed && r < 0)
        was_refused();
    return r;
}
