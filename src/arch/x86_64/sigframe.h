/* sigframe.h - the kernel's struct rt_sigframe, and the floating-point state that it points to. */
#ifndef MALLOW_ARCH_X86_64_SIGFRAME_H
#define MALLOW_ARCH_X86_64_SIGFRAME_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/user.h>

/* From uc on; what ucontext_t has of it. */
struct arch_signal_frame {
    uint64_t flags, link, stack[3];
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15, di, si, bp, bx, dx, ax, cx, sp, ip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t err, trapno, oldmask, cr2, fpstate, reserved[8];
    uint64_t mask;
};

/* The frame that restores these registers, this signal mask, and the floating-point state that
 * stands at the address `fpstate`. */
static inline __attribute__((unused)) struct arch_signal_frame
arch_signal_frame_of(const struct user_regs_struct *r, uint64_t mask, uint64_t fpstate)
{
    return (struct arch_signal_frame){.flags = 6 | 1,
                                      .stack = {0, UINT32_MAX, 0},
                                      .r8 = r->r8,
                                      .r9 = r->r9,
                                      .r10 = r->r10,
                                      .r11 = r->r11,
                                      .r12 = r->r12,
                                      .r13 = r->r13,
                                      .r14 = r->r14,
                                      .r15 = r->r15,
                                      .di = r->rdi,
                                      .si = r->rsi,
                                      .bp = r->rbp,
                                      .bx = r->rbx,
                                      .dx = r->rdx,
                                      .ax = r->rax,
                                      .cx = r->rcx,
                                      .sp = r->rsp,
                                      .ip = r->rip,
                                      .eflags = r->eflags,
                                      .cs = (uint16_t)r->cs,
                                      .ss = (uint16_t)r->ss,
                                      .fpstate = fpstate,
                                      .mask = mask};
}

/* The least size of NT_X86_XSTATE, and of the bytes behind a frame's state. */
enum { ARCH_SIGNAL_STATE_LEAST = 576, ARCH_SIGNAL_STATE_TAIL = 4 };

/* Makes `bytes` bytes of NT_X86_XSTATE a frame's state, ARCH_SIGNAL_STATE_TAIL bytes longer. */
static inline __attribute__((unused)) void arch_signal_state(uint8_t *state, size_t bytes)
{
    enum { SOFTWARE_AT = 464, MAGIC1 = 0x46505853, MAGIC2 = 0x46505845 };
    uint64_t features;
    memcpy(&features, state + SOFTWARE_AT, sizeof features); /* where the kernel stores XCR0 */
    const struct {
        uint32_t magic, extended;
        uint64_t features;
        uint32_t size, pad[7];
    } own = {MAGIC1, (uint32_t)bytes + ARCH_SIGNAL_STATE_TAIL, features, (uint32_t)bytes, {0}};
    const uint32_t end = MAGIC2;
    memcpy(state + SOFTWARE_AT, &own, sizeof own);
    memcpy(state + bytes, &end, sizeof end);
}

#endif
