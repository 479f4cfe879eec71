/* entry.h - first instructions for x86-64 (System V ABI).
 *
 * Each ends in a jump, so that no frame of ours stands between the caller and the unwinder: a
 * function that goes on in C gets the stack and the frame pointer of its caller as two more
 * arguments, behind the `arguments` that it has. Functions with a floating-point result are none of
 * these. Assembly at the top of a file. */
#ifndef MALLOW_ARCH_X86_64_ENTRY_H
#define MALLOW_ARCH_X86_64_ENTRY_H

#include <stdint.h>

/* The registers of arguments, and those of two more behind so many. */
#define ARCH_ARGUMENT_1  "rdi"
#define ARCH_ARGUMENT_2  "rsi"
#define ARCH_ARGUMENT_3  "rdx"
#define ARCH_SP_BEHIND_1 "rsi"
#define ARCH_FP_BEHIND_1 "rdx"
#define ARCH_SP_BEHIND_2 "rdx"
#define ARCH_FP_BEHIND_2 "rcx"
#define ARCH_SP_BEHIND_3 "rcx"
#define ARCH_FP_BEHIND_3 "r8"
#define ARCH_SP_BEHIND_4 "r8"
#define ARCH_FP_BEHIND_4 "r9"

/* Where a function stands in `next`, for the assembler: the macro makes one list of all of them, in
 * their order. */
#define ARCH_ENTRY_OFFSET(name) ".Lnext_" #name
#define ARCH_ENTRY_NEXT_OFFSET(name)                                                               \
    ".set " ARCH_ENTRY_OFFSET(name) ", .Lnext\n.set .Lnext, .Lnext + 8\n"
#define ARCH_ENTRY_OFFSETS(list) __asm__(".set .Lnext, 0\n" list)

/* Each of the functions below is hidden: entry_NAME, which no program can define. This shows it as
 * NAME. */
#define ARCH_ENTRY_SHOWN(name) __asm__(".globl " #name "\n.set " #name ", entry_" #name "\n")

/* ---- libmallow-record.so ---- */

/* An entry of libmallow-record.so: `active` when the word that `wiped` points to has ARCH_ENTRY_BIT
 * set, else *(next + offset). While `wiped` is NULL, entry_wake runs before. */
#define ARCH_ENTRY_BIT 4
#define ARCH_ENTRY_RECORDED(name, offset, active, arguments)                                       \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " name "\n.hidden " name "\n.type " name ", @function\n.p2align 5\n" name      \
            ":\n.cfi_startproc\n"                                                                  \
            "  mov wiped(%rip), %rax\n"                                                            \
            "  test %rax, %rax\n"                                                                  \
            "  jz 2f\n"                                                                            \
            "1:testb $4, (%rax)\n" /* ARCH_ENTRY_BIT */                                            \
            "  jz 3f\n"                                                                            \
            "  mov %rsp, %" ARCH_SP_BEHIND_##arguments "\n"                                        \
                                                       "  mov %rbp, %" ARCH_FP_BEHIND_##arguments  \
            "\n"                                                                                   \
            "  jmp " active "\n"                                                                   \
            "2:call entry_wake\n"                                                                  \
            "  mov wiped(%rip), %rax\n"                                                            \
            "  test %rax, %rax\n"                                                                  \
            "  jnz 1b\n"                                                                           \
            "3:jmp *next+" offset "(%rip)\n"                                                       \
            ".cfi_endproc\n.size " name ", .-" name "\n.popsection\n")

/* entry_wake: `wake` with every argument register kept. */
#define ARCH_ENTRY_WAKE(wake)                                                                      \
    __asm__(".pushsection .text\n"                                                                 \
            ".type entry_wake, @function\n.p2align 4\nentry_wake:\n.cfi_startproc\n"               \
            "  push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"                         \
            "  mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"                                       \
            "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"         \
            "  and $-16, %rsp\n"                                                                   \
            "  call " #wake "\n"                                                                   \
            "  lea -48(%rbp), %rsp\n"                                                              \
            "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"               \
            "  pop %rbp\n.cfi_def_cfa %rsp, 8\n"                                                   \
            "  ret\n.cfi_endproc\n.size entry_wake, .-entry_wake\n.popsection\n")

/* ---- libmallow-watch.so, libmallow-attach.so ---- */

/* entry_forwards: jumps to the function at rax, or calls it when string instructions go backwards
 * here, which no C function expects. Once in each library. */
#define ARCH_ENTRY_FORWARDS                                                                        \
    __asm__(".pushsection .text\n.globl entry_forwards\n.hidden entry_forwards\n"                  \
            ".type entry_forwards, @function\n.p2align 4\nentry_forwards:\n.cfi_startproc\n"       \
            "  pushfq\n.cfi_adjust_cfa_offset 8\n"                                                 \
            "  testb $4, 1(%rsp)\n"                                                                \
            "  lea 8(%rsp), %rsp\n.cfi_adjust_cfa_offset -8\n"                                     \
            "  jnz 1f\n"                                                                           \
            "  jmp *%rax\n"                                                                        \
            "1:cld\n"                                                                              \
            "  sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"                                           \
            "  call *%rax\n"                                                                       \
            "  add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"                                          \
            "  std\n"                                                                              \
            "  ret\n.cfi_endproc\n.size entry_forwards, .-entry_forwards\n.popsection\n")

/* Always in C. */
#define ARCH_ENTRY_IN_C(name, slow, arguments)                                                     \
    __asm__(".pushsection .text\n"                                                                 \
            ".globl " name "\n.hidden " name "\n.type " name ", @function\n.p2align 5\n" name      \
            ":\n.cfi_startproc\n"                                                                  \
            "  mov %rsp, %" ARCH_SP_BEHIND_##arguments "\n"                                        \
                                                       "  mov %rbp, %" ARCH_FP_BEHIND_##arguments  \
            "\n"                                                                                   \
            "  lea " slow "(%rip), %rax\n  jmp entry_forwards\n"                                   \
            ".cfi_endproc\n.size " name ", .-" name "\n.popsection\n")

/* Goes to 1 when the address in rdi lies in the range of guarded blocks. Of `guard_range`, its
 * start and its size in bytes are read. */
#define ARCH_RANGE                                                                                 \
    "  mov %rdi, %rax\n"                                                                           \
    "  sub guard_range(%rip), %rax\n"                                                              \
    "  cmp guard_range+8(%rip), %rax\n"                                                            \
    "  jb 1b\n"
/* Goes to 1 when the address in rdi may be that of a sampled block. */
#define ARCH_HELD_AT                                                                               \
    "  shr $4, %rax\n"                                                                             \
    "  movzwl %ax, %eax\n"
#define ARCH_HELD                                                                                  \
    "  mov %rdi, %rax\n" ARCH_HELD_AT "  lea held_filter(%rip), %r11\n"                            \
    "  cmpb $0, (%r11,%rax)\n"                                                                     \
    "  jne 1b\n"

/* A jump to *other_NAME; or, with a block that may be sampled or guarded, to `slow`. */
#define ARCH_ENTRY_PASSES(name, slow, arguments)                                                   \
    extern const char entry_##name[] __attribute__((visibility("hidden")));                        \
    __asm__(".hidden entry_" #name "\n.pushsection .text\n.p2align 5\n"                            \
            "1:mov %rsp, %" ARCH_SP_BEHIND_##arguments "\n"                                        \
                                                       "  mov %rbp, %" ARCH_FP_BEHIND_##arguments  \
            "\n"                                                                                   \
            "  lea " slow "(%rip), %rax\n  jmp entry_forwards\n.type entry_" #name                 \
            ", @function\n.globl entry_" #name "\n.p2align 4\nentry_" #name                        \
            ":\n.cfi_startproc\n" ARCH_RANGE ARCH_HELD "  jmp *other_" #name "(%rip)\n"            \
            ".cfi_endproc\n.size entry_" #name ", .-entry_" #name "\n.popsection\n");

/* The same for functions whose further arguments matter: `asks` gets the block, the stack and the
 * frame pointer, and answers whether the call has been dealt with. */
#define ARCH_ENTRY_ASKS(name, asks)                                                                \
    extern const char entry_##name[] __attribute__((visibility("hidden")));                        \
    __asm__(".hidden entry_" #name "\n.pushsection .text\n.p2align 5\n.cfi_startproc\n"            \
            "1:push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"                         \
            "  mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"                                       \
            "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n"         \
            "  and $-16, %rsp\n"                                                                   \
            "  lea 8(%rbp), %rsi\n  mov (%rbp), %rdx\n"                                            \
            "  lea " asks "(%rip), %rax\n  call entry_forwards\n"                                  \
            "  lea -48(%rbp), %rsp\n"                                                              \
            "  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"               \
            "  pop %rbp\n.cfi_def_cfa %rsp, 8\n"                                                   \
            "  test %al, %al\n"                                                                    \
            "  jz 2f\n"                                                                            \
            "  ret\n"                                                                              \
            "2:jmp *other_" #name "(%rip)\n.cfi_endproc\n.type entry_" #name                       \
            ", @function\n.globl entry_" #name "\n.p2align 4\nentry_" #name                        \
            ":\n.cfi_startproc\n" ARCH_RANGE ARCH_HELD "  jmp *other_" #name "(%rip)\n"            \
            ".cfi_endproc\n.size entry_" #name ", .-entry_" #name "\n.popsection\n");

/* An entry in two forms (watch/direct.c): the general one goes on at 2, finds everything through
 * memory and leaves for the allocator at 3, for `slow` at 1; the fast one, a template with places
 * to fill in, is written over it. Both begin with the same instruction, which puts rdi into rax: a
 * tracer that puts a breakpoint on the function runs the first instruction, and later puts back its
 * first byte, as the library's file has them. */
enum arch_fix { /* how a place is filled in, of four bytes but for one */
                ARCH_FIX_END = 0,
                ARCH_FIX_THREAD = 1, /* watch_thread, from the thread pointer */
                ARCH_FIX_START = 2,  /* the start of the range, in units of its size */
                ARCH_FIX_SHIFT = 3,  /* one byte: bits of that size behind the lowest four */
                ARCH_FIX_TARGET = 4, /* the allocator, from behind the place */
                ARCH_FIX_FILTER = 5  /* the filter of addresses; the same */
};
/* The first bytes of an entry, unless a debugger put a breakpoint there. */
#define ARCH_ENTRY_FIRST                                                                           \
    {                                                                                              \
        0x48, 0x89, 0xf8, 0xe9                                                                     \
    }

#define ARCH_FIX(kind, back)                                                                       \
    "6:.pushsection .rodata.fixes,\"a\"\n.byte 6b - " back " - 7b, " kind "\n.popsection\n"

#define ARCH_ENTRY_SAMPLED(name, general, fast, offset, slow, arguments)                           \
    __asm__(".pushsection .rodata.fixes,\"a\"\n5:\n.popsection\n"                                  \
            ".pushsection .rodata.fast,\"a\"\n7:mov %rdi, %rax\n" fast "8:\n.popsection\n"         \
            ".pushsection .rodata.fixes,\"a\"\n.byte 0, 0\n.popsection\n"                          \
            ".pushsection .text\n"                                                                 \
            ".globl " name "\n.hidden " name "\n.type " name ", @function\n.p2align 5\n" name      \
            ":\n.cfi_startproc\n4:mov %rdi, %rax\n.byte 0xe9\n.long 2f - . - 4\n"                  \
            ".skip 8b - 7b - 8, 0xcc\n"                                                            \
            "1:mov %rsp, %" ARCH_SP_BEHIND_##arguments "\n"                                        \
                                                       "  mov %rbp, %" ARCH_FP_BEHIND_##arguments  \
            "\n"                                                                                   \
            "  lea " slow "(%rip), %rax\n  jmp entry_forwards\n"                                   \
            ".cfi_endproc\n.size " name ", .-" name "\n"                                           \
            ".pushsection .text.general,\"ax\"\n.p2align 4\n2:.cfi_startproc\n" general            \
            "3:jmp *next+" offset "(%rip)\n.cfi_endproc\n.popsection\n"                            \
            ".pushsection .rodata.entries,\"a\"\n"                                                 \
            ".long 4b - ., 7b - ., 8b - 7b, 5b - ., " offset "\n.popsection\n.popsection\n")

/* Takes the register's value off; goes to 1 when that is more than there is. */
#define ARCH_SPEND(size_register)                                                                  \
    "  mov watch_thread@gottpoff(%rip), %rax\n"                                                    \
    "  sub %" size_register ", %fs:(%rax)\n"                                                       \
    "  jb 1b\n"
#define ARCH_SPEND_FAST(size_register) "  sub %" size_register ", %fs:0\n" ARCH_FIX("1", "4")
#define ARCH_NOT_LESS                  "  .byte 0x0f, 0x83\n  .long 0\n" ARCH_FIX("4", "4") /* jae */
/* The fast forms find rdi in rax. Both questions, with rcx, which is no argument here: goes to 8
 * when the address in rdi lies in the range; then as ARCH_HELD_FAST. Of the range, whose start is a
 * multiple of its size, the upper bits are compared. */
#define ARCH_OURS_FAST                                                                             \
    "  shr $4, %rax\n"                                                                             \
    "  movzwl %ax, %ecx\n"                                                                         \
    "  shr $0x7f, %rax\n" ARCH_FIX("3", "1") "  cmp $0x7fffffff, %eax\n" ARCH_FIX(                 \
        "2", "4") "  je 8f\n"                                                                      \
                  "  .byte 0x4c, 0x8d, 0x1d\n  .long 0\n" ARCH_FIX("5", "4") /* lea */             \
        "  cmpb $0, (%r11,%rcx)\n"
#define ARCH_HELD_FAST                                                                             \
    ARCH_HELD_AT                                                                                   \
    "  .byte 0x4c, 0x8d, 0x1d\n  .long 0\n" ARCH_FIX("5", "4") /* lea */                           \
        "  cmpb $0, (%r11,%rax)\n"
#define ARCH_NOT_HELD "  .byte 0x0f, 0x84\n  .long 0\n" ARCH_FIX("4", "4") /* je */
#define ARCH_IS_HELD  "  jne 8f\n"

/* n * size in rax; what overflows goes on as it is, and fails. */
#define ARCH_SPEND_PRODUCT                                                                         \
    "  mov %rdi, %rax\n"                                                                           \
    "  mul %rsi\n"                                                                                 \
    "  jo 3f\n"                                                                                    \
    "  mov watch_thread@gottpoff(%rip), %rcx\n"                                                    \
    "  sub %rax, %fs:(%rcx)\n"                                                                     \
    "  jb 1b\n"
#define ARCH_SPEND_PRODUCT_FAST                                                                    \
    "  mul %rsi\n"                                                                                 \
    "  .byte 0x0f, 0x80\n  .long 0\n" ARCH_FIX("4", "4") /* jo */ ARCH_SPEND_FAST("rax")

/* Around the entries of the two forms, so that they lie in one page: 2048 bytes, which .org holds
 * to; and around their table, entries_first to entries_end. */
#define ARCH_ENTRIES_BEGIN                                                                         \
    __asm__(".pushsection .text\n.p2align 11\nentries_code:\n.popsection\n"                        \
            ".pushsection .rodata.entries,\"a\"\n.p2align 2\n"                                     \
            ".globl entries_first\n.hidden entries_first\nentries_first:\n.popsection\n")
#define ARCH_ENTRIES_END                                                                           \
    __asm__(".pushsection .rodata.entries,\"a\"\n"                                                 \
            ".globl entries_end\n.hidden entries_end\nentries_end:\n.popsection\n"                 \
            ".pushsection .text\n.org entries_code + 2048, 0xcc\n.popsection\n")

#endif
