/* write.h - all bytes to a descriptor.
 *
 * Owns: going on after what wrote a part, or was interrupted. Refuses: to name the file. Any
 * thread. */
#ifndef MALLOW_BASE_WRITE_H
#define MALLOW_BASE_WRITE_H

#include <stddef.h>

/* Writes all of it where the descriptor stands. 0, or -1 with errno. */
int write_all(int fd, const void *data, size_t bytes);

#endif
