/* handle.c - Opens the memory of a process for one program image, and checks later that the
 * image is still the same. The sixteen random bytes that the kernel gives each image identify
 * it. */
#include "remote/handle.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* ---- memory ---- */

ssize_t handle_read_some(const struct handle *h, uint64_t at, void *to, size_t bytes)
{
    if (at > INT64_MAX) {
        errno = EFAULT;
        return -1;
    }
    return pread(h->memory, to, bytes, (off_t)at);
}

bool handle_read(const struct handle *h, uint64_t at, void *to, size_t bytes)
{
    return handle_read_some(h, at, to, bytes) == (ssize_t)bytes;
}

bool handle_write(const struct handle *h, uint64_t at, const void *from, size_t bytes)
{
    return at <= INT64_MAX && pwrite(h->memory, from, bytes, (off_t)at) == (ssize_t)bytes;
}

/* ---- the image ---- */

static ssize_t read_vector(const struct handle *h, uint8_t *to, size_t room)
{
    const int fd = openat(h->directory, "auxv", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, to, room);
    if (fd >= 0)
        close(fd);
    return n;
}

/* Where the vector says that the random bytes are; 0: nowhere. */
static uint64_t random_of(const uint8_t *vector, size_t bytes)
{
    for (Elf64_auxv_t a; bytes >= sizeof a; vector += sizeof a, bytes -= sizeof a) {
        memcpy(&a, vector, sizeof a);
        if (a.a_type == AT_RANDOM)
            return a.a_un.a_val;
    }
    return 0;
}

/* False: there is an image, and it cannot be known yet, or not by this descriptor any more. */
static bool open_image(struct handle *h)
{
    struct handle_image *i = &h->image;
    h->memory = openat(h->directory, "mem", O_RDWR | O_CLOEXEC);
    if (h->memory < 0) /* /proc may be mounted for reading alone */
        h->memory = openat(h->directory, "mem", O_RDONLY | O_CLOEXEC);
    const ssize_t n = read_vector(h, i->vector, sizeof i->vector);
    i->random_at = n > 0 ? random_of(i->vector, (size_t)n) : 0;
    if (i->random_at && handle_read(h, i->random_at, i->random, sizeof i->random))
        i->bytes = (size_t)n;
    return i->bytes || n <= 0 || h->memory < 0;
}

void handle_open(struct handle *h, pid_t pid)
{
    enum { LOOKS = 50, LOOK_NS = 1000000 };
    char path[64];
    *h = (struct handle){.pid = pid, .memory = -1};
    snprintf(path, sizeof path, "/proc/%d", (int)pid);
    h->directory = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    /* In an exec, the vector of an image is written last, and the former one's memory is gone. */
    for (unsigned looks = 0; h->directory >= 0 && !open_image(h) && looks < LOOKS; looks++) {
        const struct timespec brief = {.tv_nsec = LOOK_NS};
        close(h->memory);
        h->memory = -1;
        nanosleep(&brief, NULL);
    }
}

void handle_close(struct handle *h)
{
    if (h->memory >= 0)
        close(h->memory);
    if (h->directory >= 0)
        close(h->directory);
    h->memory = h->directory = -1;
}

/* The same bytes of the image that the process has now, by another way than our descriptor. */
static bool read_random(const struct handle *h, pid_t tid, uint64_t to[2])
{
    if (!tid) {
        const int fd = openat(h->directory, "mem", O_RDONLY | O_CLOEXEC);
        const bool read = fd >= 0 && pread(fd, to, 16, (off_t)h->image.random_at) == 16;
        if (fd >= 0)
            close(fd);
        return read;
    }
    for (unsigned i = 0; i < 2; i++) {
        /* the system call: the C library's function gives the word as its result */
        if (syscall(SYS_ptrace, PTRACE_PEEKDATA, tid, h->image.random_at + 8ull * i, &to[i]))
            return false;
    }
    return true;
}

bool handle_same(const struct handle *h, pid_t tid)
{
    const struct handle_image *i = &h->image;
    uint8_t vector[sizeof i->vector];
    uint64_t now[2], held[2];
    const ssize_t n = i->bytes ? read_vector(h, vector, sizeof vector) : -1;
    return i->bytes && n == (ssize_t)i->bytes && !memcmp(vector, i->vector, i->bytes) &&
           read_random(h, tid, now) && !memcmp(now, i->random, sizeof now) &&
           handle_read(h, i->random_at, held, sizeof held) && !memcmp(held, now, sizeof held);
}
