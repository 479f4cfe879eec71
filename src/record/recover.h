/* recover.h - what a killed program without `mallow record` beside it left in its shared memory.
 *
 * Owns: finding the sessions that a raw recording names, and appending what dead processes left in
 * them, as `mallow record` does when it is there. Refuses: sessions of processes that still live,
 * files that are no session, or another user's. Call it before a recording is opened for reading.
 */
#ifndef MALLOW_RECORD_RECOVER_H
#define MALLOW_RECORD_RECOVER_H

/* Returns how many processes' buffers were saved into the recording at path. A recording that
 * cannot be completed (sealed, not writable, in use by another process, session gone) is no error:
 * it stays as it is. */
unsigned record_recover(const char *path);
/* The same of a raw recording that the caller has open for reading and appending, and holds the
 * lock of. */
unsigned record_recover_into(int fd);

#endif
