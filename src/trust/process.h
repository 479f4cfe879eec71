/* process.h - who is this process?
 *
 * Owns: facts of /proc about a process, against which the process's own claims are checked (in an
 * environment, a session, a segment, the name of a file). A process is its id and the time when it
 * started: an id alone may be another process by now. Any thread; no state. */
#ifndef MALLOW_TRUST_PROCESS_H
#define MALLOW_TRUST_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "trust/file.h"

struct trust_process {
    pid_t pid;         /* as this process sees it */
    pid_t inner_pid;   /* as it sees itself, in the innermost pid namespace */
    unsigned levels;   /* how many pid namespaces, from this process's own inwards; 1: the same */
    bool leader_ended; /* its first thread has ended: others may go on, or it is a zombie */
    pid_t ppid;        /* as this process sees it; 0: not visible here */
    uid_t uid[4];      /* real, effective, saved, of file access */
    uint64_t start_ticks; /* since boot, in clock ticks: distinguishes processes of one id */
    uint64_t start_ns;    /* the same on CLOCK_MONOTONIC, to a clock tick */
};

/* 0, or -1 with *err: ESRCH in err->number when there is none, another number when it cannot be
 * looked at. All fields are of one process. */
int trust_process(pid_t pid, struct trust_process *p, struct error *err);

/* Every process there is, until each() returns false. Returns how many were shown. */
unsigned trust_processes(bool (*each)(void *arg, const struct trust_process *p), void *arg);

/* True: it still runs, or is a zombie, and is not another process of its id. False, too, when it
 * cannot be looked at. */
bool trust_process_lives(const struct trust_process *p);

/* True: it is known to run no more. False, too, when it cannot be looked at. */
bool trust_process_has_ended(const struct trust_process *p);

/* Nothing but this user and group: no capabilities, and no other id to change to. */
struct trust_credentials {
    uid_t user;
    gid_t group;
};
/* The credentials of a thread of a process; false: it may do more, or is gone. */
bool trust_credentials_of(pid_t pid, pid_t tid, struct trust_credentials *c);

/* True if a file of this owner may be the process's own: one of its users. */
bool trust_process_is_of(const struct trust_process *p, uid_t owner);

/* True if some thread of the process has this very file open for writing, so that writing to it on
 * the process's behalf does nothing that it could not do. False when that cannot be known. */
bool trust_process_writes(pid_t pid, const struct trust_identity *file);

/* True if the process has this file mapped. True, too, when it lives and its maps may not be read.
 */
bool trust_process_maps(pid_t pid, const struct trust_identity *file);

/* True if any other process has it mapped, as far as that can be seen: whatever ids it goes by.
 * True, too, when one in another pid namespace has maps that may not be read. Looks at all
 * processes. */
bool trust_mapped_anywhere(const struct trust_identity *file);

enum trust_maps {
    TRUST_MAPS_NOTHING, /* it has no memory: it has ended, or is within an exec */
    TRUST_MAPS_UNKNOWN, /* its maps may not be read */
    TRUST_MAPS_OTHERS,  /* not this one */
    TRUST_MAPS_FILE
};
/* True if a mapping of the process begins at this offset of the file. */
enum trust_maps trust_process_maps_at(pid_t pid, const struct trust_identity *file,
                                      uint64_t offset);

#endif
