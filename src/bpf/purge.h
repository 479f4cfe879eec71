/* purge.h - `mallow probe purge`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_PURGE_H
#define MALLOW_BPF_PURGE_H

/* probe_key.what; values: calls, bytes of addresses given back, calls that failed in more,
 * nanoseconds within the calls in extra. */
enum purge_call { PURGE_DONTNEED, PURGE_FREE, PURGE_MUNMAP, PURGE_MREMAP, PURGE_BRK };

#endif
