/* system.h - how systems name this processor: machine, directories, dynamic loader. */
#ifndef MALLOW_ARCH_SYSTEM_H
#define MALLOW_ARCH_SYSTEM_H

#if defined __x86_64__
#include "arch/x86_64/system.h"
#else
#error "src/arch has no system.h for this processor"
#endif

#endif
