/* claims.c - a process that claims memory which is not there.
 *
 * Usage: claims KIND; makes blocks, says "ready" and waits for the end of its input. KIND:
 *   shared    4 TiB of a memory file, mapped shared and private
 *   reserved  60 private mappings of 1 TiB
 *   mapped    the same, and a block with a mapping of its own that is not found
 *   python    the same, in a process that has mapped a file with the name of Python's library
 *   many      60000 mappings
 *   libc      24 GiB of nothing in a file of the working directory that is called libc.so.6,
 *             mapped as code */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

void *kept[1000];

static int map(uint64_t bytes, int protection, int flags, int fd)
{
    return mmap(NULL, bytes, protection, flags | MAP_NORESERVE, fd, 0) == MAP_FAILED;
}

static int file_of(int fd, uint64_t bytes)
{
    return fd < 0 || ftruncate(fd, (off_t)bytes) ? -1 : fd;
}

static int claim(const char *kind)
{
    const int data = PROT_READ | PROT_WRITE, anonymous = MAP_PRIVATE | MAP_ANONYMOUS;
    const uint64_t tib = (uint64_t)1 << 40;
    int failed = 0;
    if (!strcmp(kind, "shared")) {
        const int fd = file_of(memfd_create("claimed", 0), 4 * tib);
        failed =
            fd < 0 || map(4 * tib, data, MAP_SHARED, fd) || map(4 * tib, data, MAP_PRIVATE, fd);
    } else if (!strcmp(kind, "reserved") || !strcmp(kind, "mapped") || !strcmp(kind, "python")) {
        if (*kind == 'm') {
            uint64_t *block = malloc(1 << 20);
            block[-1] = 2; /* its size */
        }
        if (*kind == 'p') {
            const int own = open("/proc/self/exe", O_RDONLY),
                      fd = open("libpython3.11.so.1.0", O_RDWR | O_CREAT | O_TRUNC, 0700);
            failed = sendfile(fd, own, NULL, 1 << 30) < 4096 ||
                     map(4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd);
        }
        for (int i = 0; i < 60; i++)
            failed |= map(tib, data, anonymous, -1);
    } else if (!strcmp(kind, "many")) {
        for (int i = 0; i < 60000; i++)
            failed |= map(4096, i & 1 ? data : PROT_READ, anonymous, -1);
    } else if (!strcmp(kind, "libc")) {
        const int fd = file_of(open("libc.so.6", O_RDWR | O_CREAT | O_TRUNC, 0700), 24 * tib >> 10);
        failed = fd < 0 || map(24 * tib >> 10, PROT_READ | PROT_EXEC, MAP_SHARED, fd);
    } else {
        return -1;
    }
    return failed ? -1 : 0;
}

int main(int argc, char **argv)
{
    char byte;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        kept[i] = malloc(100 + i);
    if (argc != 2 || claim(argv[1])) {
        perror("claims");
        return 1;
    }
    puts("ready");
    fflush(stdout);
    while (read(0, &byte, 1) > 0)
        free(malloc(100));
    return 0;
}
