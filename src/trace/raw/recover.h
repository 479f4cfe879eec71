/* recover.h - rows that a recorder left in shared memory when its process was killed.
 *
 * A recorder that runs without `mallow record` names its session (a file in /dev/shm) in the
 * PROCESS chunk. When the process is gone and the file is still there, what its buffers hold is
 * read as chunks marked MLW_CHUNK_RECOVERED, and how it ended as the END chunk that is missing.
 * Only files named /dev/shm/mallow-* are looked at that belong to the owner of the recording and
 * say themselves that they were written for this very file: what a file names is no reason to touch
 * any other. */
#ifndef MALLOW_TRACE_RAW_RECOVER_H
#define MALLOW_TRACE_RAW_RECOVER_H

#include "raw.h"

/* Appends the recovered chunks to the file open at `out`, and marks the images whose session was
 * read. *chunks: how many. Call it after raw_open, and then raw_add with that file. Returns 0,
 * or -1 with *err if `out` cannot be written. */
int recover_rows(struct raw *r, int out, unsigned *chunks, struct error *err);
/* Removes the sessions that recover_rows read, if they are the caller's own. Call it when the
 * recovered rows are safe. */
void recover_remove(const struct raw *r);

#endif
