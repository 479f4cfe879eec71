/* unseen.h - what of a process the preloaded recorder cannot see, found from outside: modules with
 * an allocator of their own, a second C library. And why a program did not load the recorder at
 * all.
 *
 * Owns: looks at /proc/PID/maps, rarer the longer a process runs, and the inspection of each file,
 * once in a recording. Files are the program's, so they are opened and read as hostile. One thread.
 */
#ifndef MALLOW_RECORD_UNSEEN_H
#define MALLOW_RECORD_UNSEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "trace/trace.h"

enum { UNSEEN_NOTES = 8, UNSEEN_WHY_BYTES = 512 };

/* Notes, each once; later ones are left out. */
struct unseen_notes {
    char *note[UNSEEN_NOTES];
    uint32_t count;
};
void unseen_add(struct unseen_notes *n, const char *note);
void unseen_release(struct unseen_notes *n);

/* Files that were looked into, by device and inode. All 0 to begin with. */
struct programs;
struct unseen_files {
    struct unseen_file *at;
    size_t count, room;
    struct programs *programs; /* gets the files as well; may be NULL */
};
void unseen_files_release(struct unseen_files *f);

/* One process's state. All 0 to begin with. */
struct unseen_process {
    uint64_t next_ns;
    struct unseen_notes notes;
};

/* Looks at the modules of the process if a look is due. first_ns: when the process was first
 * seen. Both times are of CLOCK_MONOTONIC. */
void unseen_look(struct unseen_files *f, struct unseen_process *p, pid_t pid, uint64_t first_ns,
                 uint64_t now_ns);

/* Finds why a process has not loaded the library (a path) that it should have, from its /proc;
 * "" if that does not show it. */
void unseen_why_process(pid_t pid, const char *library, char why[UNSEEN_WHY_BYTES]);
/* Finds the same from the program's file, for a process that has ended. */
void unseen_why_file(const char *path, char why[UNSEEN_WHY_BYTES]);

#endif
