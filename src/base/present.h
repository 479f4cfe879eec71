/* present.h - which pages of another process there are.
 *
 * Owns: asking the kernel (/proc/PID/pagemap) before memory of another process is read. Reading a
 * page that is not there makes it: of a hole in a shared mapping or file, on the reader's account,
 * as many as the process claims to have. Any thread; no state but the descriptor. */
#ifndef MALLOW_BASE_PRESENT_H
#define MALLOW_BASE_PRESENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct present {
    int fd;     /* of the pagemap; -1: the kernel does not say */
    bool scans; /* the kernel skips by itself (Linux 6.7) */
};

/* False with errno: the kernel does not say. To be closed in any case. */
bool present_open(struct present *p, pid_t pid);
void present_close(struct present *p);

enum present_found { PRESENT_NONE, PRESENT_SOME, PRESENT_UNKNOWN };

/* The first pages in [at, end), page addresses, that are in memory or swapped and more than the one
 * page of zeros: [*from, *to), perhaps not all that follow one another. PRESENT_UNKNOWN: before
 * *from there are none; from there on the kernel does not say, or it would take too long to ask. */
enum present_found present_next(const struct present *p, uint64_t at, uint64_t end, uint64_t *from,
                                uint64_t *to);

/* True: each page that holds some of these bytes is in memory or swapped. False where that is not
 * known. */
bool present_all(const struct present *p, uint64_t at, uint64_t bytes);

#endif
