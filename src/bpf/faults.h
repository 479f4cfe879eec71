/* faults.h - `mallow probe faults`: the data that the kernel side and the tool share. */
#ifndef MALLOW_BPF_FAULTS_H
#define MALLOW_BPF_FAULTS_H

/* probe_key.what with PROBE_BY_ACCESS; values: minor in calls, major in more. */
enum faults_access {
    FAULTS_KERNEL, /* the kernel touched it for the program */
    FAULTS_READ,
    FAULTS_WRITE, /* first touched by a write */
    FAULTS_COPY,  /* written where it was shared or read-only: copied on write */
    FAULTS_FETCH  /* code */
};

#endif
