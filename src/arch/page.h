/* page.h - the size of a page and where user addresses end. Constants, for the kernel's side as
 * well. */
#ifndef MALLOW_ARCH_PAGE_H
#define MALLOW_ARCH_PAGE_H

#if defined __x86_64__ || defined __TARGET_ARCH_x86
#include "arch/x86_64/page.h"
#else
#error "src/arch has no page.h for this processor"
#endif

#endif
