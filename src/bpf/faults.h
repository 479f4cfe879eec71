/* faults.h - `mallow probe faults`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_FAULTS_H
#define MALLOW_BPF_FAULTS_H

#include <linux/types.h>

/* probe_key.what with PROBE_BY_ACCESS; values: minor in calls, major in more. */
enum faults_access {
    FAULTS_KERNEL, /* the kernel touched it for the program */
    FAULTS_READ,
    FAULTS_WRITE, /* first touched by a write */
    FAULTS_COPY,  /* written where it was shared or read-only: copied on write */
    FAULTS_FETCH  /* code */
};

/* In a stream: one of these for each fault. */
enum faults_place {
    FAULTS_BUSY, /* the map of the process was being changed */
    FAULTS_HEAP,
    FAULTS_STACK,
    FAULTS_FILE,
    FAULTS_ANONYMOUS,
    FAULTS_OWN /* a file of the recorder */
};
enum { FAULTS_EVENT = 16 };
struct faults_event {
    __u32 type;
    __u32 pid, tid;
    __u8 major, access, place, zero;
    __u64 time_ns; /* CLOCK_MONOTONIC */
    __u64 address;
};

#endif
