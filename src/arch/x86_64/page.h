/* page.h - pages of 4 KiB; user addresses of 47 bits (4-level paging, and by default 5). */
#ifndef MALLOW_ARCH_X86_64_PAGE_H
#define MALLOW_ARCH_X86_64_PAGE_H

#define ARCH_PAGE_SHIFT   12
#define ARCH_PAGE_BYTES   4096ul
#define ARCH_HUGE_BYTES   (2ul << 20) /* the smallest huge page */
#define ARCH_ADDRESS_BITS 47
#define ARCH_ADDRESS_END  (1ul << ARCH_ADDRESS_BITS) /* user addresses lie below */

#endif
