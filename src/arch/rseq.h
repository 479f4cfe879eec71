/* rseq.h - a critical section of rseq that nothing enters: see src/replay/execute.c. */
#ifndef MALLOW_ARCH_RSEQ_H
#define MALLOW_ARCH_RSEQ_H

#if defined __x86_64__
#include "arch/x86_64/rseq.h"
#else
#error "src/arch has no rseq.h for this processor"
#endif

#endif
