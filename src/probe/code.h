/* code.h - the mappings of a process in which code of one file lies.
 *
 * Owns: asking the kernel for them (PROCMAP_QUERY, Linux 6.11) or reading all mappings, within a
 * bound; recognizing the file by its inode and device. One thread. */
#ifndef MALLOW_PROBE_CODE_H
#define MALLOW_PROBE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "base/proc.h"

/* Mappings are looked at until there were so many, which takes less than a second: processes may
 * have any number of them. */
enum { CODE_MAPPINGS_MAX = 1 << 20 };

struct code_walk {
    struct proc_maps maps;
    pid_t pid;
    struct stat file;
    uint64_t behind; /* the end of the last mapping */
    bool reads;      /* the kernel cannot be asked for one */
};

/* False: the process has none, or may not be looked at. */
bool code_open(struct code_walk *w, pid_t pid, const struct stat *file);
/* The next one; path is not set. *budget: mappings that may still be looked at. False: there is no
 * more, or no budget. */
bool code_next(struct code_walk *w, size_t *budget, struct proc_mapping *m);
void code_close(struct code_walk *w);

#endif
