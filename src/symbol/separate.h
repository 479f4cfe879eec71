/* separate.h - the separate debug file of a stripped file, for readers that trust no other user.
 *
 * Owns: the search by build-id (DIR/.build-id/xx/yyyy.debug) and by .gnu_debuglink (beside the
 * file, in .debug/ there, below DIR), and the proof by the build-id. Only files of the caller, of
 * root or of who owns the stripped file are opened; what they hold is as hostile as that file. The
 * network is not asked. Any thread; no state. */
#ifndef MALLOW_SYMBOL_SEPARATE_H
#define MALLOW_SYMBOL_SEPARATE_H

#include <stddef.h>
#include <stdint.h>

/* fd: the stripped file, whose mapping cannot fault (trust/file.h); path: where it was opened; id:
 * its build-id. dirs: `count` directories, searched before /usr/lib/debug. Returns a descriptor
 * whose mapping cannot fault, for the caller to close; -1: there is none. */
int separate_open(int fd, const char *path, const uint8_t *id, size_t id_bytes,
                  const char *const *dirs, size_t count);

#endif
