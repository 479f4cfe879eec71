/* maps.h - where the shared memory of a running process is, as its memory maps say.
 *
 * Owns: finding the segment among the mappings of a process, and opening that very file: the names
 * in the maps are of the process's choosing, so a file counts only when its inode is the mapped
 * one. Refuses: to say whose it is (process_adopt does). Any thread. */
#ifndef MALLOW_WATCH_MAPS_H
#define MALLOW_WATCH_MAPS_H

#include "trust/process.h"
#include "watch/segment.h"

struct maps {
    bool library;               /* libmallow-watch.so is there */
    char path[PATH_MAX];        /* the path of the segment, as the process names it; "": none */
    bool nameless;              /* it was removed, or never had a name */
    struct trust_identity file; /* without its owner */
    uint64_t start, end_of;
};

/* 0, or -1 with *err. */
int maps_read(pid_t pid, struct maps *m, struct error *err);

/* True if the process lives and maps the file, or if that cannot be known. */
bool maps_has(pid_t pid, const struct trust_identity *file);

struct maps_place {
    int dir; /* the directory that the segment is in; -1: it has none that counts */
    char directory[NAME_MAX + 1]; /* a session's name in /dev/shm; "": /dev/shm, or -1 */
    char name[NAME_MAX + 1];
    bool ours; /* the directory is /dev/shm as it is here, or in it: files in it may be removed */
};

/* Opens what maps_read found. Returns as segment_open; with 0 place->dir is the caller's. */
int maps_open(const struct trust_process *who, const struct maps *m, struct segment *s,
              struct maps_place *place, struct error *err);

#endif
