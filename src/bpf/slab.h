/* slab.h - `mallow probe slab`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_SLAB_H
#define MALLOW_BPF_SLAB_H

/* probe_key: name is that of the cache, or empty and what the size of a kmalloc; site the caller.
 * Values: calls, bytes requested, bytes allocated in more. */
enum { SLAB_LIVE_MAX = 1 << 18 };

#endif
