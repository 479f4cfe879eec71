/* all.h - `mallow watch -a`: which processes, and by which way they are known. One thread. */
#ifndef MALLOW_WATCH_REACH_ALL_H
#define MALLOW_WATCH_REACH_ALL_H

#include "base/note.h"
#include "base/text_list.h"
#include "watch/reach/system.h"
#include "watch/select.h"

struct watch_all_options { /* zero: not given */
    struct text_list comms;
    const char *cgroup, *user;
};

struct watch_all { /* private; to outlive the run */
    struct watch_system system;
    struct watch_source source;
    struct watch_select select;
    uint32_t user;
    char library[PATH_MAX];
};

/* Checks that the options go together: -a, --how auto, --how inject, settings for the processes.
 * -1 with *err. */
int watch_all_check(bool all, bool automatic, bool inject, bool settings, struct error *err);

/* Fills the run's options. preloaded: find processes by their shared memory; else by probes,
 * where these can be used. note: gets the listener's lines and, unless quiet, the reason why
 * probes cannot be used. Returns 0, or -1 with *err. */
int watch_all_open(struct watch_all *a, const struct watch_all_options *o, bool preloaded,
                   bool quiet, struct note note, struct watch_options *options, struct error *err);

#endif
