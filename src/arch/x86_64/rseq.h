/* rseq.h - two instructions that are never executed, with the signature that must stand before an
 * abort address (RSEQ_SIG). */
#ifndef MALLOW_ARCH_X86_64_RSEQ_H
#define MALLOW_ARCH_X86_64_RSEQ_H

#define ARCH_RSEQ_NEVER_BYTES 2 /* from begin to its end */

/* Defines the code of `begin` and `abort`; at the top of a file. */
#define ARCH_RSEQ_NEVER(begin, abort)                                                              \
    extern const char begin[], abort[];                                                            \
    __asm__(".pushsection .text\n" #begin ": ud2\n"                                                \
            ".long 0x53053053\n" #abort ": ud2\n"                                                  \
            ".popsection\n")

#endif
