/* control.h - changing a recording from outside while it runs.
 *
 * Owns: `mallow control`: the word in the session that the library reads, marks, and copies of
 * buffers on request. It needs no `mallow record` beside the program: everything goes through the
 * shared memory and the file. */
#ifndef MALLOW_RECORD_CONTROL_H
#define MALLOW_RECORD_CONTROL_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum control_action {
    CONTROL_START,
    CONTROL_STOP,
    CONTROL_PAUSE,
    CONTROL_UNPAUSE,
    CONTROL_SYNC,
    CONTROL_RESET,
    CONTROL_MARK,
    CONTROL_SNAPSHOT,
    CONTROL_DUMP
};

/* Does `action` to the recorded process `pid`, or, if pid is a `mallow record`, to every process
 * of its recording. label: the label of CONTROL_MARK, at most 4,000 bytes; for CONTROL_DUMP the
 * path of the file to write, which holds all processes of the recording. *reached: how many
 * processes (may be NULL). It returns when the next call of every thread obeys (start, stop,
 * pause, unpause, reset), when the result is in the file (sync, mark, snapshot), or when the new
 * file is written (dump). Returns 0, or -1 with *err. */
int control_run(pid_t pid, enum control_action action, const char *label, uint32_t *reached,
                struct error *err);

/* The action of a name, or -1. */
int control_action_named(const char *name);

#endif
