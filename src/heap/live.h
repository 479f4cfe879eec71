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

struct live_pieces {    /* of libc's code; see snapshot.c */
    uint64_t call;      /* syscall; ret */
    uint64_t sigreturn; /* of a signal handler */
    uint64_t exit;      /* a call of exit or exit_group */
};

/* By what one image of a process differs from every other: its auxiliary vector, and the 16 random
 * bytes that the kernel gave it when it was executed. */
struct live_image {
    size_t bytes; /* of the vector; 0: not known */
    uint8_t vector[1024];
    uint64_t random_at, random[2];
};

struct live_kept { /* memory of the process that its copy has not */
    uint64_t start, end;
    uint8_t *data;
};

struct heap_live {
    struct tracee *tracees;
    size_t count, room;
    pid_t memory_pid;          /* whose memory is read: the process, or its copy */
    int memory_fd;             /* /proc/PID/mem, or -1 */
    struct resident *resident; /* of its pages; NULL: not known */
    struct live_file *file;    /* that was read last, where its pages are not in memory */
    pid_t copy;                /* the stopped child of the injected fork; 0: none */
    struct live_kept *kept;    /* by address, apart */
    size_t kept_count, kept_room;
    bool copy_lacks;           /* more than could be kept */
    struct live_image image;   /* that all of this, and the mappings, were learned from */
    struct live_pieces pieces; /* once they were looked for; all 0: not yet */
    uint64_t since_ns;
    bool leaves; /* threads that do not stop are left: the kernel lets go of them at our end */
};

void live_registers(const struct user_regs_struct *r, struct target_registers *to);

/* /proc/PID/mem, or -1. */
int live_open_memory(pid_t pid);

/* Stops all threads of t->pid, and reads their registers. 0; or -1 with *err, and nothing is held.
 */
int live_stop(struct target *t, struct heap_live *live, struct error *err);

/* snapshot.c: the image of the process, of which this thread stands still. bytes 0: not known. */
void live_read_image(const struct target *t, pid_t tid, struct live_image *to);

/* Compares the mappings of the process that stands with those of its copy, and keeps the pages that
 * the copy lacks (MADV_DONTFORK); copy_lacks: there are too many. */
void live_keep_lacking(struct target *t, struct heap_live *live, pid_t copy);

/* snapshot.c: makes a thread of the process that stands make a system call, which must not wait.
 * NULL with its result (-errno: the kernel refused); else why none was made. */
const char *live_call(struct target *t, long number, const uint64_t arguments[4], int64_t *result);

/* snapshot.c: ends the copy and makes the process reap it. */
void live_end_copy(struct target *t, struct heap_live *live);

#endif
