/* system.h - `mallow watch -a`: all processes that carry the library, by its static probes.
 *
 * Owns: a process of its own that listens in the kernel (probe/samples.h) and writes what it hears
 * into the watch's directory (watch/written.h), where the watch reads it as it would read what the
 * processes write themselves. */
#ifndef MALLOW_WATCH_REACH_SYSTEM_H
#define MALLOW_WATCH_REACH_SYSTEM_H

#include <sys/types.h>

#include "base/note.h"
#include "watch/run.h"

struct watch_system {
    struct note note;
    const char *library; /* a copy that is listened to in any case */
    bool verbose;
    pid_t pid; /* process id of the listener; 0: none */
};

/* The source for watch_run_new; `s` is to outlive it. */
struct watch_source watch_system_source(struct watch_system *s);

#endif
