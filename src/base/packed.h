/* packed.h - the bound of a compressed file's contents. */
#ifndef MALLOW_BASE_PACKED_H
#define MALLOW_BASE_PACKED_H

#include <stdint.h>

/* A reader pays for the bytes of the file: so many times their number, and PACKED_LEAST. */
#define PACKED_SHARE 128u
#define PACKED_LEAST ((uint64_t)256 << 20)

static inline uint64_t packed_most(uint64_t bytes) { return PACKED_LEAST + bytes * PACKED_SHARE; }

#endif
