/* slab.h - `mallow probe slab`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_SLAB_H
#define MALLOW_BPF_SLAB_H

#include "bpf/key.h"

/* probe_key: name is that of the cache, or empty and what the size of a kmalloc; site the caller.
 * With --live all rows have them. Values: calls, bytes requested, bytes allocated in more. */
enum { SLAB_LIVE_MAX = 1 << 18, SLAB_CACHES_MAX = 4096, SLAB_ORIGINS_MAX = 4096 };

struct slab_cache {
    char name[PROBE_NAME_BYTES];
    __u64 given_out;   /* blocks, to processes that are looked at */
    __u64 released;    /* blocks, by any process, as far as the kernel reports it */
    __u64 has_sheaves; /* 1: blocks that kfree_rcu() releases go back by a way without a report */
};

/* The callers whose blocks are released in the same ways: parts of a probe_key. */
struct slab_origin {
    __u64 site;
    __u32 what, zero;
    char name[PROBE_NAME_BYTES];
};

#endif
