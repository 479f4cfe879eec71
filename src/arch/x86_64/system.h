/* system.h - x86-64 as uname, Debian's multiarch directories and the loader name it. */
#ifndef MALLOW_ARCH_X86_64_SYSTEM_H
#define MALLOW_ARCH_X86_64_SYSTEM_H

#define ARCH_ELF_MACHINE EM_X86_64          /* e_machine of the ELF header */
#define ARCH_MACHINE     "x86_64"           /* uname -m */
#define ARCH_MULTIARCH   "x86_64-linux-gnu" /* below /lib and /usr/lib */

/* The version of what its first glibc had. */
#define ARCH_GLIBC_FIRST "GLIBC_2.2.5"

#endif
