/* syscall.h - entering the kernel: the instruction, and how a filter names the processor. */
#ifndef MALLOW_ARCH_SYSCALL_H
#define MALLOW_ARCH_SYSCALL_H

#if defined __x86_64__
#include "arch/x86_64/syscall.h"
#else
#error "src/arch has no syscall.h for this processor"
#endif

#endif
