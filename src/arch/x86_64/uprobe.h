/* uprobe.h - `push` is emulated by the kernel, `mov` is executed aside. */
#ifndef MALLOW_ARCH_X86_64_UPROBE_H
#define MALLOW_ARCH_X86_64_UPROBE_H

/* At the top of a file: void emulated(void *), void aside(void *). */
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

#endif
