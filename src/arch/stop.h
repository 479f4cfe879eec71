/* stop.h - what a stop by ptrace does to the system call that it interrupts. */
#ifndef MALLOW_ARCH_STOP_H
#define MALLOW_ARCH_STOP_H

#if defined __x86_64__
#include "arch/x86_64/stop.h"
#else
#error "src/arch has no stop.h for this processor"
#endif

#endif
