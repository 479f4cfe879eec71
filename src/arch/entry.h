/* entry.h - the first instructions of functions that stand in for others. */
#ifndef MALLOW_ARCH_ENTRY_H
#define MALLOW_ARCH_ENTRY_H

#if defined __x86_64__
#include "arch/x86_64/entry.h"
#else
#error "src/arch has no entry.h for this processor"
#endif

#endif
