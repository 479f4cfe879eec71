/* samples.h - `mallow watch -a`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_SAMPLES_H
#define MALLOW_BPF_SAMPLES_H

#include <linux/types.h>

/* The probes of libmallow-watch.so (docs/probes.md), and what becomes of a process. */
enum samples_what {
    SAMPLES_SAMPLE,  /* address, size, weight, drawn */
    SAMPLES_FREE,    /* address, size, weight */
    SAMPLES_REALLOC, /* address, size, weight, new size */
    SAMPLES_ERROR,   /* kind, access address, block address, block size, flags */
    SAMPLES_PROBES,
    SAMPLES_EXEC = SAMPLES_PROBES, /* any process becomes another program */
    SAMPLES_EXIT                   /* its exit code, as of waitpid */
};

enum { SAMPLES_EVENT = 16, SAMPLES_ARGUMENTS = 5, SAMPLES_SITES_MAX = 256 };

/* For a place where a probe is: which one, and the words of struct pt_regs that hold its arguments.
 */
struct samples_site {
    __u32 what; /* enum samples_what */
    __u32 arguments;
    __u32 word[SAMPLES_ARGUMENTS];
};

struct samples_event {
    __u32 type; /* SAMPLES_EVENT */
    __u32 what; /* enum samples_what */
    __u32 pid, tid, ppid;
    __u32 zero;
    __u64 start_ns; /* when the process started, CLOCK_MONOTONIC: with the pid, its identity */
    __u64 time_ns;
    __u64 stack; /* id; 0: none */
    __u64 argument[SAMPLES_ARGUMENTS];
};

#endif
