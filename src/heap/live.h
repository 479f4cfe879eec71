/* live.h - what target_live.c and snapshot.c share: the threads of a process that are held. */
#ifndef MALLOW_HEAP_LIVE_H
#define MALLOW_HEAP_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "heap/target.h"

struct tracee {
    pid_t tid;
    bool stopped, gone, group_stop;
    int signal; /* that it was about to get when it stopped; 0: none */
    struct user_regs_struct registers;
};

struct live {
    struct tracee *tracees;
    size_t count, room;
    pid_t memory_pid; /* whose memory is read: the process, or its copy */
    int memory_fd;    /* /proc/PID/mem, or -1 */
    pid_t copy;       /* the stopped child of the injected fork; 0: none */
    uint64_t since_ns;
};

void live_registers(const struct user_regs_struct *r, struct target_registers *to);

/* Whether EINTR of this system call, seen at a stop, is to be undone. */
bool live_cures(long call);

#endif
