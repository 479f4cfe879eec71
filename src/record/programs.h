/* programs.h - the files of the programs that are recorded, held open until the recording is
 * sealed, so that a program that was removed or replaced by then still has names.
 *
 * Owns: the descriptors, and the lookups of names that are to be kept in the recording. Bounded by
 * number and by bytes, since a removed file takes up its disk as long as it is held: what comes
 * behind that is not held. Files are the program's: hostile. programs_hold and programs_final are
 * for one thread; another may seal meanwhile. */
#ifndef MALLOW_RECORD_PROGRAMS_H
#define MALLOW_RECORD_PROGRAMS_H

#include <stdbool.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "trace/trace.h"

struct programs;

struct programs *programs_new(void); /* NULL without memory; all functions accept NULL */
/* Closes everything. */
void programs_free(struct programs *p);
/* Holds a file that a process maps by this path, by a duplicate of fd. */
void programs_hold(struct programs *p, int fd, const struct stat *st, const char *path);
/* Holds the file of the program that the process runs now. */
void programs_hold_program(struct programs *p, pid_t pid);
/* Notes that all programs have ended: from now on names are kept only for files that are gone.
 * Before that call, files in directories of temporary files count as gone. */
void programs_final(struct programs *p);
/* For sealing; NULL for NULL. Valid as long as p. */
const struct trace_namer *programs_namer(struct programs *p);

#endif
