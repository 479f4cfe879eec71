/* dump.h - `mallow watch --dump-when`: what a process holds, in files, before it is killed.
 *
 * Owns: the names of these files and how many there are. Each is whole when it has its name. One
 * thread, that of the run. */
#ifndef MALLOW_WATCH_OUT_DUMP_H
#define MALLOW_WATCH_OUT_DUMP_H

#include "base/error.h"
#include "watch/view/view.h"
#include "symbol/symbol.h"
#include "watch/run.h"

struct watch_dump {        /* all zero at first, except: */
    const char *directory; /* where they go; NULL: the working directory */
    unsigned written;
};

/* Parses the options --dump-when and --dump-to (NULL: not given). Returns 0, or -1 with *err. */
int watch_dump_check(const char *expression, const char *directory, struct pressure *when,
                     struct error *err);

/* Writes DIR/PROGRAM.PID.N.json and .pb.gz of a process. why: a line for people. symbols may be
 * NULL. *name: the path without its ending. Returns 0; 1 if the bound on dumps is reached and
 * none was written; -1 with *err. */
int watch_dump_write(struct watch_dump *d, struct watch_run *run, struct watch_view *view,
                     struct symbols *symbols, struct watch_process *p, const char *why,
                     char name[PATH_MAX], struct error *err);

#endif
