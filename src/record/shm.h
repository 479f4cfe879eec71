/* shm.h - the shared memory of a session, seen from outside the traced program.
 *
 * Owns: making it (`mallow record`), finding it (`mallow control`), mapping its head and single
 * windows, giving windows back. The layout is format/session.h. Everything read from it was written
 * by other people's processes and is checked before it is used as an index or a length. A session
 * that is found is a regular file of the caller's or of the process's user, and was looked at
 * before it was opened. */
#ifndef MALLOW_RECORD_SHM_H
#define MALLOW_RECORD_SHM_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "format/session.h"

struct shm {
    int fd;
    struct mlw_session *session; /* mapped, with the process table behind it */
    struct mlw_process *table;   /* [MLW_PROCESSES] */
    uint32_t windows;            /* that the file has room for */
    uid_t owner;                 /* the owner of the file */
    bool steady; /* cannot shrink under us: it is sealed against that, or the caller's own */
    pid_t
        maker; /* from shm_find: the process whose descriptor reached it; else the process itself */
};

/* A new session in a memfd with room for as many windows as the kernel allows, up to 2^20. The
 * head is zero but for magic and version. */
int shm_create(struct shm *s, struct error *err);

/* The session that the process `pid` belongs to (or, for the pid of a `mallow record`, the session
 * that it holds). Nothing of it is mapped yet. */
int shm_find(struct shm *s, pid_t pid, struct error *err);

/* Maps the head of a session that was found. Of one that is not `steady` any access may be a
 * SIGBUS: then it is for a process that may die of it. */
int shm_map(struct shm *s, struct error *err);

void shm_close(struct shm *s);

/* One window, or NULL: no such window, or no memory. Unmap with shm_unmap_window. */
struct mlw_chunk *shm_map_window(const struct shm *s, uint32_t window);
void shm_unmap_window(struct mlw_chunk *w);

/* The first slot of a window at or after `slot` of which any page was ever written;
 * MLW_WINDOW_SLOTS when there is none. Looks at no slot's memory, so that it costs none. */
uint32_t shm_next_touched(const struct shm *s, uint32_t window, uint32_t slot);

/* The memory of a window returns to the system; it reads as zeros (free slots) afterwards. */
void shm_punch_window(const struct shm *s, uint32_t window);

/* Entries of the table that may be in use: 0..n-1. */
uint32_t shm_entries(const struct shm *s);

static inline struct mlw_chunk *shm_slot(struct mlw_chunk *window, uint32_t slot)
{
    return (struct mlw_chunk *)(void *)((char *)window + (size_t)slot * MLW_SLOT_BYTES);
}

#endif
