/* left.h - the shared memory that processes left behind: they died, and nobody read it.
 *
 * Owns: finding it in /dev/shm, of the own user or, for root, of all; removing it. Refuses: to
 * touch what belongs to a process, or to a watch, that lives, in whatever pid namespace. */
#ifndef MALLOW_WATCH_LEFT_H
#define MALLOW_WATCH_LEFT_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct left_item {
    char path[PATH_MAX];
    pid_t pid;
    uint64_t bytes;       /* of memory that it takes */
    uint64_t realtime_ns; /* when it was made; 0: not known, as it was never finished */
    char exe[256];        /* "": not known */
};

struct left {
    struct left_item *items; /* oldest first */
    size_t count;
    uint64_t bytes; /* of all */
};

/* -1: no memory, or /dev/shm cannot be read. left_release gives the list back. */
int left_find(struct left *l, struct error *err);
void left_release(struct left *l);

/* Removes what is in the list, and directories of watches that ended and are empty then. Returns
 * how many were removed; what could not be is in *err. */
size_t left_clear(const struct left *l, struct error *err);

#endif
