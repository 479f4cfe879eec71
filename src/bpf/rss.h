/* rss.h - `mallow probe rss`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_RSS_H
#define MALLOW_BPF_RSS_H

#include <linux/types.h>

/* As the kernel numbers them. */
enum rss_kind { RSS_FILE, RSS_ANONYMOUS, RSS_SWAP, RSS_SHARED, RSS_KINDS };

/* The sizes of a process, under its id. */
struct rss_process {
    __u64 mm;               /* which memory: an exec begins with another */
    __u64 pages[RSS_KINDS]; /* now, or when it ended */
    __u64 peak[RSS_KINDS];
    __u64 peak_resident; /* without swap */
    __u64 peak_reported;
    __u64 changes;
    __u64 reported, reported_ns; /* resident when an event was last sent, and when */
    char command[16];
};

enum { RSS_EVENT = 16 };
struct rss_event {
    __u32 type;
    __u32 pid;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 pages[RSS_KINDS];
};

#endif
