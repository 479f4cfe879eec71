/* contents.h - a sum over the contents of a file, by which one without a build-id is known again.
 *
 * Owns: which bytes of a file are looked at, and how they are added up; recordings have the sums.
 * Any thread. */
#ifndef MALLOW_SYMBOL_CONTENTS_H
#define MALLOW_SYMBOL_CONTENTS_H

#include <stdint.h>

/* For the regular file that is open at fd and has so many bytes: of all of them up to 8 MiB, of a
 * longer file of 128 pieces of 64 KiB, the first and the last among them. 0: it could not be read.
 * Files that differ in those bytes have the same sum once in 2^64 times, but for those that are
 * made to have it. */
uint64_t contents_sum(int fd, uint64_t bytes);

#endif
