/* sha256.h - whether the processor computes SHA-256 by itself, and how. Any thread. */
#ifndef MALLOW_ARCH_SHA256_H
#define MALLOW_ARCH_SHA256_H

#if defined __x86_64__
#include "arch/x86_64/sha256.h"
#else
#error "src/arch has no sha256.h for this processor"
#endif

#endif
