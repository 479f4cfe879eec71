/* code.h - what machine code looks like, and how a word of it is replaced. */
#ifndef MALLOW_ARCH_CODE_H
#define MALLOW_ARCH_CODE_H

#if defined __x86_64__
#include "arch/x86_64/code.h"
#else
#error "src/arch has no code.h for this processor"
#endif

#endif
