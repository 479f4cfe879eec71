/* registers.h - registers by their meaning: in unwind tables, in a signal's context, of a thread.
 */
#ifndef MALLOW_ARCH_REGISTERS_H
#define MALLOW_ARCH_REGISTERS_H

#if defined __x86_64__
#include "arch/x86_64/registers.h"
#else
#error "src/arch has no registers.h for this processor"
#endif

#endif
