/* find.h - which process an entry of a session is about.
 *
 * A process writes into its entry what it calls itself. In a pid namespace of its own that number
 * is another process's here, or unused. So it is looked for in /proc: it maps the entry's window of
 * the session, which no other process does, and calls itself by that number. One thread. */
#ifndef MALLOW_RECORD_FIND_H
#define MALLOW_RECORD_FIND_H

#include <stdbool.h>
#include <stdint.h>

#include "record/shm.h"
#include "trust/process.h"

struct finder {
    uint64_t
        began_ns; /* when the recording began, CLOCK_MONOTONIC: no process is older; 0: unknown */
    uint64_t pid_namespace;    /* this process's own; 0: not known yet */
    struct trust_process *all; /* processes whose own id differs from ours for them, as of
                                  looked_ns; sorted by their own id */
    size_t count, room;
    uint64_t looked_ns;
    bool blind; /* the latest find_process lacked descriptors or memory: a process that it did not
                   find may run */
};

/* Finds the process of an entry that is STARTING, LIVE or ENDED. now_ns: the time of this look;
 * calls with the same time list /proc once. Returns false if the process has ended, or is a
 * zombie, or if f->blind. */
bool find_process(struct finder *f, const struct shm *shm, const struct mlw_process *entry,
                  uint64_t now_ns, struct trust_process *who);

/* True if the numbers that the entry's process uses are known to be those of this process. */
bool find_is_here(struct finder *f, const struct mlw_process *entry);

void find_release(struct finder *f);

#endif
