/* usdt.h - a nop, and a note of the form that SystemTap made; arguments are in any register. */
#ifndef MALLOW_ARCH_X86_64_USDT_H
#define MALLOW_ARCH_X86_64_USDT_H

#include <stdint.h>

#define PROBE_NOTE(provider, name, semaphore, arguments)                                           \
    "990: nop\n"                                                                                   \
    ".pushsection .note.stapsdt,\"?\",\"note\"\n"                                                  \
    ".balign 4\n"                                                                                  \
    ".4byte 992f-991f, 994f-993f, 3\n"                                                             \
    "991: .asciz \"stapsdt\"\n"                                                                    \
    "992: .balign 4\n"                                                                             \
    "993: .8byte 990b\n"                                                                           \
    ".8byte _.stapsdt.base\n"                                                                      \
    ".8byte " semaphore "\n"                                                                       \
    ".asciz \"" provider "\"\n"                                                                    \
    ".asciz \"" name "\"\n"                                                                        \
    ".asciz \"" arguments "\"\n"                                                                   \
    "994: .balign 4\n"                                                                             \
    ".popsection\n"                                                                                \
    ".ifndef _.stapsdt.base\n"                                                                     \
    ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"                        \
    ".weak _.stapsdt.base\n.hidden _.stapsdt.base\n"                                               \
    "_.stapsdt.base: .space 1\n"                                                                   \
    ".size _.stapsdt.base, 1\n"                                                                    \
    ".popsection\n"                                                                                \
    ".endif\n"

#define PROBE1(provider, name, semaphore, a)                                                       \
    __asm__ volatile(PROBE_NOTE(provider, name, #semaphore, "8@%0")::"r"((uint64_t)(a)))
#define PROBE3(provider, name, semaphore, a, b, c)                                                 \
    __asm__ volatile(PROBE_NOTE(provider, name, #semaphore, "8@%0 8@%1 8@%2")::"r"((uint64_t)(a)), \
                     "r"((uint64_t)(b)), "r"((uint64_t)(c)))
#define PROBE4(provider, name, semaphore, a, b, c, d)                                              \
    __asm__ volatile(                                                                              \
        PROBE_NOTE(provider, name, #semaphore, "8@%0 8@%1 8@%2 8@%3")::"r"((uint64_t)(a)),         \
        "r"((uint64_t)(b)), "r"((uint64_t)(c)), "r"((uint64_t)(d)))
#define PROBE5(provider, name, semaphore, a, b, c, d, e)                                           \
    __asm__ volatile(                                                                              \
        PROBE_NOTE(provider, name, #semaphore, "8@%0 8@%1 8@%2 8@%3 8@%4")::"r"((uint64_t)(a)),    \
        "r"((uint64_t)(b)), "r"((uint64_t)(c)), "r"((uint64_t)(d)), "r"((uint64_t)(e)))

#endif
