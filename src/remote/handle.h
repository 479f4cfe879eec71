/* handle.h - one image of a process: its memory, and whether the process still has it.
 *
 * A process may execute another program at any moment, also one of another user. A handle is opened
 * before anything is asked of the process; its memory is read and written by one descriptor, which
 * stays with the image that was there then. Facts about an image are used after a stop only when
 * handle_same says that the process still has it. Tools only; no state but the descriptors;
 * reads and writes from any thread. */
#ifndef MALLOW_REMOTE_HANDLE_H
#define MALLOW_REMOTE_HANDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* By what one image of a process differs from every other: what the kernel gave it when it was
 * executed, and 16 random bytes that its auxiliary vector points to. */
struct handle_image {
    size_t bytes; /* the bytes of the vector; 0: not known */
    uint8_t vector[1024];
    uint64_t random_at, random[2];
};

struct handle {
    pid_t pid;
    int directory; /* /proc/PID: leads nowhere once the process is gone, also when another has its
                      id */
    int memory; /* a descriptor of the memory of the image that was there when it was opened; -1: it
                   could not be */
    struct handle_image image;
};

/* Takes hold of the image that the process has now; of one that it is about to get, for which it is
 * waited 50 ms at most. To be closed in any case. */
void handle_open(struct handle *h, pid_t pid);
void handle_close(struct handle *h);

/* True: the process still has that image. tid: a thread of it that stands still for the caller,
 * which cannot leave the image until it goes on; 0: none, and the answer may be old at once. */
bool handle_same(const struct handle *h, pid_t tid);

/* How many bytes were there, from the first on; -1 with errno. Reading may make pages of a hole of
 * a file. */
ssize_t handle_read_some(const struct handle *h, uint64_t at, void *to, size_t bytes);
/* All of them, or false. */
bool handle_read(const struct handle *h, uint64_t at, void *to, size_t bytes);
bool handle_write(const struct handle *h, uint64_t at, const void *from, size_t bytes);

#endif
