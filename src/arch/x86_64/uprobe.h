/* uprobe.h - the instructions on which the kernel handles a probe rightly. */
#ifndef MALLOW_ARCH_X86_64_UPROBE_H
#define MALLOW_ARCH_X86_64_UPROBE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `push` is emulated by the kernel, `mov` is executed aside. At the top of a file:
 * void emulated(void *), void aside(void *). */
#define ARCH_UPROBE_FUNCTIONS(emulated, aside)                                                     \
    __asm__(".pushsection .text\n"                                                                 \
            ".p2align 4\n"                                                                         \
            ".globl " #emulated "\n.hidden " #emulated "\n.type " #emulated                        \
            ", @function\n" #emulated ":\n"                                                        \
            "    push %rbx\n"                                                                      \
            "    pop %rbx\n"                                                                       \
            "    ret\n"                                                                            \
            ".size " #emulated ", . - " #emulated "\n"                                             \
            ".p2align 4\n"                                                                         \
            ".globl " #aside "\n.hidden " #aside "\n.type " #aside ", @function\n" #aside ":\n"    \
            "    mov %rdi, %rax\n"                                                                 \
            "    ret\n"                                                                            \
            ".size " #aside ", . - " #aside "\n"                                                   \
            ".popsection\n")

enum {
    ARCH_INSTRUCTION_BYTES = 15, /* the longest */
    ARCH_BREAKPOINT = 0xcc       /* the first byte of a function that has a probe */
};

/* The tables below hold what tests/probe/test_encodings.py proves, and nothing else: it compares
 * each encoding alone and under a probe. A row is sixteen opcodes, the lowest bit the first.
 *
 * The kernel emulates nop, push, call, jmp and jcc, and copies anything else to a place where it
 * runs alone. It looks at the opcode byte alone, so it takes some VEX and EVEX instructions (c4,
 * c5, 62) for the old one with that byte: `vmovd` and `vpbroadcastb` are conditional jumps to it.
 * `rep stos` comes back to the probe in each round, and `pushf` stores the trap flag. */

/* After at most 66. */
static const uint16_t arch_uprobe_one[16] = {
    [0x0] = 0x3f3f, [0x1] = 0x3f3f, [0x2] = 0x3f3f, [0x3] = 0x3f3f, /* add ... cmp */
    [0x5] = 0xffff,                                                 /* push, pop */
    [0x6] = 0x0f08,                                                 /* movslq, push, imul */
    [0x7] = 0xffff,                                                 /* jcc */
    [0x8] = 0xaffb,                                                 /* test, xchg, mov, lea, pop */
    [0x9] = 0x03ff,                                                 /* nop, xchg, cltq, cqto */
    [0xa] = 0x0300,                                                 /* test */
    [0xb] = 0xffff,                                                 /* mov */
    [0xc] = 0x02cb,                                                 /* shifts, ret, mov, leave */
    [0xd] = 0x2a0f,                                                 /* shifts, x87 */
    [0xe] = 0x0b00,                                                 /* call, jmp */
    [0xf] = 0xd0c0,                                                 /* not ... idiv, cld, inc ... */
};
/* After 0f and at most 66. */
static const uint16_t arch_uprobe_two[16] = {
    [0x1] = 0x8000, /* nop */
    [0x4] = 0xffff, /* cmovcc */
    [0x8] = 0xffff, /* jcc */
    [0x9] = 0xffff, /* setcc */
    [0xa] = 0xb838, /* bt, shld, bts, shrd, imul */
    [0xb] = 0xfccb, /* cmpxchg, btr, movz, bt*, bsf, movs */
    [0xc] = 0xff03, /* xadd, bswap */
};
/* SSE, after 0f: with no prefix or 66; with 66, as it is MMX without; with f2; with f3. */
static const uint16_t arch_uprobe_sse[16] = {
    [0x1] = 0x00ff,
    [0x2] = 0xff00,
    [0x5] = 0xffff,
    [0xc] = 0x0044,
};
static const uint16_t arch_uprobe_sse_66[16] = {
    [0x6] = 0xffff, [0x7] = 0xc07f, [0xc] = 0x0030, [0xd] = 0xfffe, [0xe] = 0xffff, [0xf] = 0x7f7e,
};
static const uint16_t arch_uprobe_sse_f2[16] = {
    [0x1] = 0x0007, [0x2] = 0x3400, [0x5] = 0xf702, [0x7] = 0x0001, [0xc] = 0x0004, [0xe] = 0x0040,
};
static const uint16_t arch_uprobe_sse_f3[16] = {
    [0x1] = 0x0047, [0x2] = 0x3400, [0x5] = 0xff0e, [0x6] = 0x8000,
    [0x7] = 0xc001, [0xc] = 0x0004, [0xe] = 0x0040,
};

static inline __attribute__((unused)) bool arch_uprobe_in(const uint16_t rows[16], uint8_t opcode)
{
    return rows[opcode >> 4] >> (opcode & 15) & 1;
}

/* The one-byte opcodes whose ModRM byte chooses the instruction. */
static inline __attribute__((unused)) bool arch_uprobe_group(uint8_t opcode, uint8_t modrm)
{
    const unsigned reg = modrm >> 3 & 7;
    const bool memory = modrm >> 6 != 3;
    switch (opcode) {
    case 0x8f:
    case 0xc6:
    case 0xc7: return reg == 0;
    case 0x8d: return memory;
    case 0xc0:
    case 0xc1:
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3: return reg != 6;
    case 0xd9: return memory ? reg == 0 || reg == 7 : reg == 0 || (reg == 5 && modrm != 0xef);
    case 0xdb: return memory && reg == 5;
    case 0xdd: return memory && reg == 0;
    case 0xf6:
    case 0xf7: return reg != 1;
    case 0xfe: return reg < 2;
    case 0xff: return reg < 3 || reg == 4 || reg == 6;
    default: return true;
    }
}

/* Jumps, calls and what moves the stack pointer: no prefix but the bits of a register. */
static inline __attribute__((unused)) bool arch_uprobe_moves(uint8_t opcode, uint8_t modrm)
{
    return (opcode & 0xf0) == 0x50 || opcode == 0x68 || opcode == 0x6a || opcode == 0x8f ||
           opcode == 0xc3 || opcode == 0xc9 || (opcode & 0xfc) == 0xe8 || (opcode & 0xf0) == 0x70 ||
           (opcode == 0xff && (modrm >> 3 & 7) >= 2);
}

static inline __attribute__((unused)) bool
arch_uprobe_one_right(uint8_t prefix, bool of_thread, uint8_t rex, uint8_t opcode, uint8_t modrm)
{
    if (opcode == 0xc3 && (prefix == 0xf2 || prefix == 0xf3))
        return !rex && !of_thread; /* ret as branch predictors like it */
    if (prefix == 0xf2 || prefix == 0xf3 || !arch_uprobe_in(arch_uprobe_one, opcode) ||
        !arch_uprobe_group(opcode, modrm))
        return false;
    if (of_thread) /* a variable of the thread: its canary, for instance */
        return !prefix && (opcode == 0x8b || opcode == 0x89 || opcode == 0x80 || opcode == 0x83) &&
               (modrm & 0xc7) == 4;
    if (opcode >= 0xd8 && opcode <= 0xdf)
        return !prefix && !rex;
    if (opcode == 0x90)
        return !rex; /* with it, it may be xchg */
    if (!arch_uprobe_moves(opcode, modrm))
        return true;
    if ((opcode & 0xf0) == 0x50)
        return !prefix && (!rex || rex == 0x41);
    return !prefix && (!rex || opcode == 0xff || opcode == 0x8f);
}

/* Linux 6.18 replaces a nop of five bytes by a call. That writes below the stack pointer, which is
 * the red zone of a function unless the nop is its first instruction, and processes that are forked
 * afterwards can crash. */
static inline __attribute__((unused)) bool arch_uprobe_nop_becomes_call(uint8_t prefix,
                                                                        uint8_t modrm)
{
    const unsigned mod = modrm >> 6, rm = modrm & 7;
    const unsigned displacement = mod == 1 ? 1 : mod == 2 || (mod == 0 && rm == 5) ? 4 : 0;
    return (prefix != 0) + 3 + (mod != 3 && rm == 4) + displacement == 5;
}

static inline __attribute__((unused)) bool arch_uprobe_nop_right(uint8_t prefix, uint8_t rex,
                                                                 uint8_t modrm)
{
    return !rex && (modrm >> 3 & 7) == 0 && !arch_uprobe_nop_becomes_call(prefix, modrm);
}

static inline __attribute__((unused)) bool arch_uprobe_two_right(uint8_t prefix, uint8_t rex,
                                                                 uint8_t opcode, uint8_t modrm)
{
    if (prefix == 0xf2)
        return arch_uprobe_in(arch_uprobe_sse_f2, opcode);
    if (prefix == 0xf3) {
        if (opcode == 0x1e)
            return !rex && modrm == 0xfa;                            /* endbr64 */
        return opcode == 0xb8 || opcode == 0xbc || opcode == 0xbd || /* popcnt, tzcnt, lzcnt */
               arch_uprobe_in(arch_uprobe_sse_f3, opcode);
    }
    if (prefix && opcode >= 0x71 && opcode <= 0x73) /* shifts of a register */
        return modrm >> 6 == 3;
    if (arch_uprobe_in(arch_uprobe_sse, opcode) ||
        (prefix && arch_uprobe_in(arch_uprobe_sse_66, opcode)))
        return true;
    if (!arch_uprobe_in(arch_uprobe_two, opcode))
        return false;
    if (opcode == 0x1f)
        return arch_uprobe_nop_right(prefix, rex, modrm);
    if (opcode == 0xba)
        return (modrm >> 3 & 7) >= 4;
    return (opcode & 0xf0) != 0x80 || (!prefix && !rex); /* jcc */
}

/* True: a probe on the instruction at `code` changes nothing of what it does. Bytes behind the
 * last of `bytes` are taken for zeros. */
static inline __attribute__((unused)) bool arch_uprobe_right(const uint8_t *code, size_t bytes)
{
    uint8_t c[ARCH_INSTRUCTION_BYTES] = {0}, prefix = 0, rex = 0;
    bool of_thread = false;
    size_t at = 0;
    for (size_t i = 0; i < bytes && i < sizeof c; i++)
        c[i] = code[i];
    if (c[at] == 0x64) {
        of_thread = true;
        at++;
    }
    if (c[at] == 0x66 || c[at] == 0xf2 || c[at] == 0xf3)
        prefix = c[at++];
    if ((c[at] & 0xf0) == 0x40)
        rex = c[at++];
    if (c[at] != 0x0f)
        return arch_uprobe_one_right(prefix, of_thread, rex, c[at], c[at + 1]);
    return !of_thread && arch_uprobe_two_right(prefix, rex, c[at + 1], c[at + 2]);
}

/* True: `code` is a nop on which a probe becomes a call, see above. */
static inline __attribute__((unused)) bool arch_uprobe_becomes_call(const uint8_t *code,
                                                                    size_t bytes)
{
    const size_t at = bytes > 0 && code[0] == 0x66;
    return bytes >= at + 3 && code[at] == 0x0f && code[at + 1] == 0x1f &&
           arch_uprobe_nop_becomes_call(at, code[at + 2]);
}

#endif
