/* brk.h - `mallow probe brk`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_BRK_H
#define MALLOW_BPF_BRK_H

/* probe_key.what; values: calls, bytes grown, bytes given back. */
enum brk_call { BRK_BRK, BRK_MMAP, BRK_MUNMAP, BRK_MREMAP };

#endif
