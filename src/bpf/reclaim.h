/* reclaim.h - `mallow probe reclaim`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_RECLAIM_H
#define MALLOW_BPF_RECLAIM_H

/* probe_key.what; values: calls, pages reclaimed in bytes, nanoseconds in more, pages scanned in
 * extra. */
enum reclaim_what {
    RECLAIM_DIRECT, /* a program had to look for memory itself */
    RECLAIM_GROUP,  /* the same, at the limit of its control group */
    RECLAIM_DAEMON, /* kswapd, between waking up and going to sleep */
    RECLAIM_WAKES,  /* a program woke kswapd */
    RECLAIM_OTHER,  /* asked for from outside: memory.reclaim, drop_caches */
    RECLAIM_KILL    /* a program that ran out of memory was chosen to be killed */
};

#endif
