/* live.h - what target_live.c and snapshot.c share: the threads of a process that are held. */
#ifndef MALLOW_HEAP_LIVE_H
#define MALLOW_HEAP_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "heap/resident.h"
#include "heap/target.h"

struct tracee {
    pid_t tid;
    bool stopped, gone, group_stop;
    int signal; /* that it was about to get when it stopped; 0: none */
    struct user_regs_struct registers;
};

struct heap_live {
    struct tracee *tracees;
    size_t count, room;
    pid_t memory_pid;          /* whose memory is read: the process, or its copy */
    int memory_fd;             /* /proc/PID/mem, or -1 */
    struct resident *resident; /* of its pages; NULL: not known */
    pid_t copy;                /* the stopped child of the injected fork; 0: none */
    uint64_t since_ns;
};

void live_registers(const struct user_regs_struct *r, struct target_registers *to);

/* Whether EINTR of this system call, seen at a stop, is to be undone. */
bool live_cures(long call);

/* /proc/PID/mem, or -1. */
int live_open_memory(pid_t pid);

/* Stops all threads of t->pid, and reads their registers. 0; or -1 with *err, and nothing is held.
 */
int live_stop(struct target *t, struct heap_live *live, struct error *err);

/* snapshot.c: ends the copy and makes the process reap it. */
void live_end_copy(struct target *t, struct heap_live *live);

#endif
