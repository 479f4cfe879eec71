/* code.h - pieces of libc's code, by which a borrowed thread makes calls and returns.
 *
 * Owns: finding them by their bytes, within a bound: a mapping may be terabytes of nothing. No
 * state. The thread of the target. */
#ifndef MALLOW_REMOTE_CODE_H
#define MALLOW_REMOTE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "remote/target.h"

struct code_pieces {    /* addresses in the process; 0: not found */
    uint64_t sigreturn; /* the sigreturn of a signal handler */
    uint64_t call;      /* syscall; ret */
    uint64_t exit;      /* a call of exit or exit_group */
};

/* Where libc returns from signal handlers. False: not found. */
bool code_find_return(struct target *t, struct code_pieces *p);

/* All of them, in one mapping: of libc, or of a program that has it inside. False: not found. */
bool code_find_all(struct target *t, struct code_pieces *p);

#endif
