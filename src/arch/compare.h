/* compare.h - eight words of a stack, and four tags, compared at once. */
#ifndef MALLOW_ARCH_COMPARE_H
#define MALLOW_ARCH_COMPARE_H

#if defined __x86_64__
#include "arch/x86_64/compare.h"
#else
#error "src/arch has no compare.h for this processor"
#endif

#endif
