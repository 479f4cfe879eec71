/* encodings_victim.c - runs each function of first_instructions.py twice, from two states of the
 * flags, and prints a line each: its name, and for each run the signal that ended it, how it ended,
 * and a sum of registers, flags, stack and memory behind it. Linked to fixed addresses: the sums
 * hold some. */
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct encoding {
    void (*run)(void);
    const char *name;
};
/* Those that may have a probe, and those that may not. */
extern const struct encoding cases[], never[];

/* What the assembly below reads and writes. */
uint8_t beside[64] __attribute__((aligned(64))), buffers[2][256] __attribute__((aligned(64)));
uint8_t case_stack[512] __attribute__((aligned(64))), safe_stack[256] __attribute__((aligned(64)));
uint64_t out[18];
uint8_t out_fx[512] __attribute__((aligned(64))), how;
uint64_t there, case_function, in_flags, saved_stack;
uint64_t vectors[32] __attribute__((aligned(64)));
const uint32_t standard_mxcsr = 0x1f80;
void run_case(void), case_goes(void);

/* The last of the thread's own memory, below its pointer. */
static __thread uint8_t own[256] __attribute__((aligned(64)));

__asm__(".text\n.globl run_case\n.type run_case, @function\nrun_case:\n"
        "push %rbx; push %rbp; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, saved_stack(%rip)\n"
        "ldmxcsr standard_mxcsr(%rip)\n"
        "fninit; fld1; fldpi; fldl2t\n"
        ".irp n,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15\n"
        "movaps vectors+16*\\n(%rip), %xmm\\n\n"
        ".endr\n"
        "mov $case_stack+256, %rsp\n"
        "mov $case_goes, %rax; mov $0x35, %rcx; mov $0x1122334455667788, %rdx\n"
        "mov $0xfedcba9876543210, %rbx; mov $case_stack+384, %rbp\n"
        "mov $buffers+128, %rdi; mov $0xa5a5a5a5c3c3c3c3, %rsi\n"
        "mov $case_goes, %r8; mov $0x2b, %r9; mov $0x0102030405060708, %r10\n"
        "mov $0x8000000000000001, %r11; mov $case_stack+256, %r12; mov $-5, %r13; mov $0x7fffffff, "
        "%r14\n"
        "mov $buffers+256+128, %r15\n"
        "push in_flags(%rip); popfq\n"
        "call *case_function(%rip)\n"
        "movb $1, how(%rip)\n"
        "jmp case_ends\n"
        ".globl case_goes\ncase_goes: movb $4, how(%rip)\n"
        ".globl case_ends\ncase_ends:\n"
        "mov %rax, out(%rip); mov %rcx, out+8(%rip); mov %rdx, out+16(%rip)\n"
        "mov %rbx, out+24(%rip); mov %rbp, out+32(%rip); mov %rsi, out+40(%rip)\n"
        "mov %rdi, out+48(%rip); mov %r8, out+56(%rip); mov %r9, out+64(%rip)\n"
        "mov %r10, out+72(%rip); mov %r11, out+80(%rip); mov %r12, out+88(%rip)\n"
        "mov %r13, out+96(%rip); mov %r14, out+104(%rip); mov %r15, out+112(%rip)\n"
        "mov %rsp, out+120(%rip)\n"
        "mov $safe_stack+128, %rsp\n"
        "pushfq; popq out+128(%rip); cld\n"
        "fxsave64 out_fx(%rip)\n"
        "fninit; ldmxcsr standard_mxcsr(%rip)\n"
        "mov saved_stack(%rip), %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbp; pop %rbx\n"
        "ret\n.size run_case, . - run_case\n");

static sigjmp_buf before;
static void ended(int signal) { siglongjmp(before, signal); }

static uint64_t sum(uint64_t h, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        h = (h ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return h;
}

static void fill(uint8_t *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + 3);
}

static void run(const struct encoding *e, uint64_t flags)
{
    fill(beside, sizeof beside);
    fill(buffers[0], sizeof buffers);
    fill(own, sizeof own);
    for (size_t i = 0; i < sizeof case_stack / 8; i++)
        memcpy(case_stack + i * 8, &there, 8);
    memset(out, 0, sizeof out);
    case_function = (uint64_t)(uintptr_t)e->run;
    in_flags = flags;
    how = 0;
    const int signal = sigsetjmp(before, 1);
    if (signal) {
        printf(" signal %d", signal);
        return;
    }
    run_case();
    memset(out_fx + 6, 0, 18); /* where the last x87 instruction stood, and its operand */
    memset(out_fx + 416, 0, 96);
    uint64_t h = 0xcbf29ce484222325;
    h = sum(h, out, sizeof out);
    h = sum(h, out_fx, sizeof out_fx);
    h = sum(h, beside, sizeof beside);
    h = sum(h, buffers, sizeof buffers);
    h = sum(h, case_stack, sizeof case_stack);
    h = sum(h, own, sizeof own);
    printf(" %u %016llx", how, (unsigned long long)h);
}

static void run_all(const struct encoding *all)
{
    for (const struct encoding *e = all; e->run; e++) {
        printf("%s", e->name);
        run(e, 0x2);
        run(e, 0x8d7);
        putchar('\n');
    }
}

int main(void)
{
    static uint8_t stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction a = {.sa_handler = ended, .sa_flags = SA_ONSTACK};
    sigaltstack(&other, NULL);
    const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGTRAP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        sigaction(signals[i], &a, NULL);
    there = (uint64_t)(uintptr_t)case_goes;
    for (size_t i = 0; i < 16; i++) {
        const double numbers[] = {1.5 * (double)i - 3, 1e3 / ((double)i + 1)};
        memcpy(&vectors[i * 2], numbers, sizeof numbers);
    }
    run_all(cases);
    run_all(never);
    return 0;
}
