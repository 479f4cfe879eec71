/* usdt.h - the instruction and the note of a USDT probe. */
#ifndef MALLOW_ARCH_USDT_H
#define MALLOW_ARCH_USDT_H

#if defined __x86_64__
#include "arch/x86_64/usdt.h"
#else
#error "src/arch has no usdt.h for this processor"
#endif

#endif
