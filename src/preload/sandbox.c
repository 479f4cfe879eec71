/* sandbox.c - programs that lock themselves in: seccomp, and the time stamp counter withheld.
 *
 * A filter that kills for a system call of ours would make us kill the program. So every filter
 * that passes by is asked, before it is installed, what it does with each call that we make; a
 * verdict other than "allow" and "fail with an errno" puts us in the sandbox: from then on no
 * system call but `write`, and not even that where it is not allowed either. Rows then leave
 * through `mallow record`, which empties the shared buffers, or wait there for a reader. Filters
 * that a program installs by an inline `syscall` instruction are not seen. */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "guest.h"

/* What the filter answers: classic BPF over struct seccomp_data, which the kernel has not checked
 * yet, so nothing is believed. -1 when it is not a filter. */
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
                if (k > sizeof *data - 4)
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
        }
    }
    return -1;
}

bool sandbox_harmless(const struct sock_fprog *program, long number, const uint64_t *arguments)
{
    struct seccomp_data data = {.nr = (int)number, .arch = AUDIT_ARCH_X86_64};
    data.instruction_pointer = (uint64_t)(uintptr_t)&sandbox_harmless;
    if (arguments)
        memcpy(data.args, arguments, sizeof data.args);
    int64_t v = verdict(program->filter, program->len, &data);
    if (v < 0)
        return false;
    uint32_t action = (uint32_t)v & SECCOMP_RET_ACTION_FULL;
    return action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG || action == SECCOMP_RET_ERRNO;
}

EXPORT int prctl(int option, ...);
int prctl(int option, ...)
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
    bool asks = option == PR_SET_SECCOMP &&
                (a == SECCOMP_MODE_STRICT || (a == SECCOMP_MODE_FILTER && b)),
         before = guest_sandboxed();
    if (asks)
        guest_sandbox(a == SECCOMP_MODE_STRICT ? 0 : (const struct sock_fprog *)b);
    int r = real(option, a, b, c, d);
    if (asks && r)
        guest_not_sandboxed(before);
    return r;
}

EXPORT long syscall(long number, ...);
long syscall(long number, ...)
{
    static long (*real)(long, ...);
    va_list ap;
    va_start(ap, number);
    long a = va_arg(ap, long), b = va_arg(ap, long), c = va_arg(ap, long), d = va_arg(ap, long),
         e = va_arg(ap, long), f = va_arg(ap, long);
    va_end(ap);
    if (!real)
        real = (long (*)(long, ...))(uintptr_t)next_symbol("syscall");
    bool strict = (number == SYS_seccomp && a == SECCOMP_SET_MODE_STRICT) ||
                  (number == SYS_prctl && a == PR_SET_SECCOMP && b == SECCOMP_MODE_STRICT),
         filter = (number == SYS_seccomp && a == SECCOMP_SET_MODE_FILTER && c) ||
                  (number == SYS_prctl && a == PR_SET_SECCOMP && b == SECCOMP_MODE_FILTER && c),
         before = guest_sandboxed();
    if (number == SYS_prctl && a == PR_SET_TSC && b == PR_TSC_SIGSEGV)
        guest_clock_withheld();
    if (strict || filter)
        guest_sandbox(strict ? 0 : (const struct sock_fprog *)c);
    guest_asks(number, a, b, c);
    long r = real(number, a, b, c, d, e, f);
    if ((strict || filter) && r < 0)
        guest_not_sandboxed(before);
    return r;
}
