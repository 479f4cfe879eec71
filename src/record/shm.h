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
    bool steady; /* the file cannot shrink while it is mapped: it is sealed against that, or the
                    caller's own */
    pid_t maker; /* after shm_find: the process through whose descriptor the session was opened;
                    else this process */
};

/* Makes a new session in a memfd, with room for as many windows as the kernel allows, up to
 * 2^20. Its head is zero except for magic and version. Returns 0, or -1 with *err. */
int shm_create(struct shm *s, struct error *err);

/* Opens the session that the process `pid` belongs to, or, for a `mallow record`, the session
 * that it holds. It maps nothing. Returns 0, or -1 with *err. */
int shm_find(struct shm *s, pid_t pid, struct error *err);

/* Maps the head of a session that shm_find opened. If it is not `steady`, any access may raise
 * SIGBUS; only a process that may die of it should call this. */
int shm_map(struct shm *s, struct error *err);

void shm_close(struct shm *s);

/* Maps one window. Returns NULL if there is no such window, or no memory. The caller calls
 * shm_unmap_window. */
struct mlw_chunk *shm_map_window(const struct shm *s, uint32_t window);
void shm_unmap_window(struct mlw_chunk *w);

/* Returns the first slot at or after `slot` that has a page which was ever written, or
 * MLW_WINDOW_SLOTS. It asks the file system, so it makes no page resident. */
uint32_t shm_next_touched(const struct shm *s, uint32_t window, uint32_t slot);

/* Returns the memory of a window to the system. The window reads as zeros (free slots)
 * afterwards. */
void shm_punch_window(const struct shm *s, uint32_t window);

/* Returns n: the entries 0..n-1 of the table may be in use. */
uint32_t shm_entries(const struct shm *s);

static inline struct mlw_chunk *shm_slot(struct mlw_chunk *window, uint32_t slot)
{
    return (struct mlw_chunk *)(void *)((char *)window + (size_t)slot * MLW_SLOT_BYTES);
}

#endif
