/* uprobe.h - two functions whose first instructions a uprobe treats differently: see
 * src/probe/cost.c. */
#ifndef MALLOW_ARCH_UPROBE_H
#define MALLOW_ARCH_UPROBE_H

#if defined __x86_64__
#include "arch/x86_64/uprobe.h"
#else
#error "src/arch has no uprobe.h for this processor"
#endif

#endif
