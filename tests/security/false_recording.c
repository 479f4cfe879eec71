/* false_recording.c - a raw recording that names a session: false_recording FILE SESSION PID
 * [IMAGE] */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/chunk.h"

struct body {
    unsigned char bytes[4096];
    size_t n;
};

static void put(struct body *b, unsigned short tag, const void *data, unsigned n)
{
    unsigned short head[2] = {tag, 0};
    memcpy(b->bytes + b->n, head, 4);
    memcpy(b->bytes + b->n + 4, &n, 4);
    memcpy(b->bytes + b->n + 8, data, n);
    b->n += 8 + ((n + 7u) & ~7u);
}

static int chunk(int fd, unsigned type, unsigned long image, unsigned pid, const struct body *b)
{
    struct mlw_chunk c = {.magic = MLW_CHUNK_MAGIC,
                          .type = (unsigned short)type,
                          .header_bytes = sizeof c,
                          .payload_bytes = (unsigned)b->n,
                          .image = image,
                          .pid = pid,
                          .tid = pid,
                          .base_clock = 1000};
    c.checksum = mlw_chunk_checksum(&c, b->bytes);
    return write(fd, &c, sizeof c) == sizeof c && write(fd, b->bytes, b->n) == (ssize_t)b->n ? 0
                                                                                             : 1;
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    const unsigned version = MLW_FORMAT_VERSION, clock = MLW_CLOCK_MONOTONIC_NS, page = 1;
    const unsigned long start[3] = {1000, 1000, 1000};
    unsigned pid = (unsigned)atoi(argv[3]);
    struct body file = {0}, process = {0};
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0644);
    put(&file, MLW_TLV_VERSION, &version, 4);
    put(&file, MLW_TLV_CLOCK_KIND, &clock, 4);
    put(&file, MLW_TLV_START, start, sizeof start);
    put(&process, MLW_TLV_START, start, sizeof start);
    put(&process, MLW_TLV_PPID, &page, 4);
    put(&process, MLW_TLV_COMMAND, "cmd", 4);
    put(&process, MLW_TLV_EXE, "/bin/x", 6);
    put(&process, MLW_TLV_SESSION, argv[2], (unsigned)strlen(argv[2]));
    if (fd < 0 || chunk(fd, MLW_CHUNK_FILE, 0, 0, &file))
        return 1;
    if (chunk(fd, MLW_CHUNK_PROCESS, argc > 4 ? strtoul(argv[4], NULL, 10) : 1, pid, &process))
        return 1;
    puts("ready");
    return fflush(stdout) ? 1 : 0;
}
