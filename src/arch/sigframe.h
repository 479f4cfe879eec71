/* sigframe.h - the frame from which a signal handler's return restores a stopped thread. */
#ifndef MALLOW_ARCH_SIGFRAME_H
#define MALLOW_ARCH_SIGFRAME_H

#if defined __x86_64__
#include "arch/x86_64/sigframe.h"
#else
#error "src/arch has no sigframe.h for this processor"
#endif

#endif
