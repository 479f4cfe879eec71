/* left.h - the shared memory that processes left behind: they died, and it was not read.
 *
 * Owns: finding it in /dev/shm, of the own user or, for root, of all; removing it. Refuses: to
 * touch what belongs to a process, or to a watch, that lives, in whatever pid namespace. */
#ifndef MALLOW_WATCH_LEFT_H
#define MALLOW_WATCH_LEFT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "trust/file.h"

struct left_item {
    char path[PATH_MAX];
    pid_t pid;       /* for a session the watch that made it */
    bool is_session; /* the directory of a watch that was killed; its content precedes it in the
                        list */
    uint64_t bytes;  /* the bytes of memory that it takes */
    uint64_t realtime_ns; /* when it was made; 0: not known, because it was never finished */
    char exe[256];        /* "": not known */
    char session[NAME_MAX + 1], name[NAME_MAX + 1]; /* private: where, in /dev/shm */
    struct trust_identity file;                     /* private: which */
};

struct left {
    struct left_item *items; /* oldest first */
    size_t count, segments;  /* segments: those that are no sessions */
    uint64_t bytes;          /* all bytes */
};

/* Lists what dead processes left. Returns -1 with *err without memory, or if /dev/shm cannot be
 * read. The caller calls left_release. */
int left_find(struct left *l, struct error *err);
void left_release(struct left *l);

/* Removes the listed files if they are still the ones that were found. Returns how many are
 * gone, or are in use again. *err: why another one could not be removed. */
size_t left_clear(const struct left *l, struct error *err);

#endif
