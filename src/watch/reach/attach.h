/* attach.h - `mallow watch -p` of processes that run without the library: it is put into
 * them, and out of use when the watch ends. */
#ifndef MALLOW_WATCH_REACH_ATTACH_H
#define MALLOW_WATCH_REACH_ATTACH_H

#include <stdbool.h>

#include "base/note.h"
#include "watch/follow.h"

enum { WATCH_AUTO, WATCH_INJECT, WATCH_PRELOADED }; /* --how */

struct watch_attach {
    struct note note;
    uint64_t period; /* bytes; 0: the default */
    bool quiet;
    struct attached_process { /* the processes that were attached to */
        pid_t pid;
        uint64_t start_ticks;
    } * seen;
    size_t count, room;
};

/* Attaches to those of the processes that do not carry the library. guard: the value of --guard,
 * or NULL. Returns 0, or -1 with *err. */
int watch_attach(struct watch_attach *a, const pid_t *pids, size_t count, const char *guard,
                 struct error *err);
/* Notes that a process is watched from now on. */
void watch_attach_joined(struct watch_attach *a, const struct watch_process *p);
/* Restores all processes that were attached to. Returns -1 if one could not be restored.
 * interrupted_ns: when the user ended the watch (CLOCK_MONOTONIC), who waits; 0: it ended by
 * itself. */
int watch_attach_end(struct watch_attach *a, uint64_t interrupted_ns);

/* Removes the changes that a killed watch or recording left in the process. quiet: notes
 * nothing. Returns 0, or -1 with *err. */
int watch_detach(pid_t pid, bool quiet, struct note note, struct error *err);

#endif
