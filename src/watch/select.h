/* select.h - which of all processes are watched. Nothing waits; no state. One thread. */
#ifndef MALLOW_WATCH_SELECT_H
#define MALLOW_WATCH_SELECT_H

#include "watch/process.h"

struct watch_select {         /* all zero: every process; else those for which all of it is so: */
    const char *const *comms; /* /proc/PID/comm is one of these; NULL: whatever it is */
    size_t comm_count;
    const char *cgroup; /* its control group, of either version, is this one or below it, "/a/b" */
    const uint32_t *user; /* its effective user */
};

/* True if the process is selected. For one in another pid namespace only the program's name and
 * the owner of its memory are known, and it belongs to no group. */
bool select_process(const struct watch_select *s, const struct watch_process *p);

#endif
