/* stack.h - the stack that a function is called with. */
#ifndef MALLOW_ARCH_STACK_H
#define MALLOW_ARCH_STACK_H

#if defined __x86_64__
#include "arch/x86_64/stack.h"
#else
#error "src/arch has no stack.h for this processor"
#endif

#endif
