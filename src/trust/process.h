/* process.h - who is this process?
 *
 * Owns: what /proc says of a process, against which everything is checked that a process says of
 * itself (in an environment, a session, a segment, the name of a file). A process is its id and the
 * time when it started: an id alone may be another process by now. Any thread; no state. */
#ifndef MALLOW_TRUST_PROCESS_H
#define MALLOW_TRUST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "trust/file.h"

struct trust_process {
    pid_t pid;            /* as this process sees it */
    pid_t inner_pid;      /* as it sees itself, in the innermost pid namespace */
    pid_t ppid;           /* as this process sees it; 0: not visible here */
    uid_t uid[4];         /* real, effective, saved, of file access */
    uint64_t start_ticks; /* since boot, in clock ticks: tells processes of one id apart */
    uint64_t start_ns;    /* the same on CLOCK_MONOTONIC, to a clock tick */
};

/* 0, or -1 with *err (ESRCH in err->number when there is none). All fields are of one process. */
int trust_process(pid_t pid, struct trust_process *p, struct error *err);

/* Whether it still runs, or is a zombie: not another process of its id. */
bool trust_process_lives(const struct trust_process *p);

/* Whether a file of this owner may be the process's own: one of its users. */
bool trust_process_is_of(const struct trust_process *p, uid_t owner);

/* Whether some thread of the process has this very file open for writing, so that whoever writes to
 * it on the process's behalf does nothing that it could not do. False when that cannot be known. */
bool trust_process_writes(pid_t pid, const struct trust_identity *file);

/* Whether the process has this file mapped. True, too, when it lives and its maps may not be read.
 */
bool trust_process_maps(pid_t pid, const struct trust_identity *file);

#endif
