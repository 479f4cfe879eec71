/* dump.c - see dump.h. */
#include "dump.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/chunk.h"
#include "trace/trace.h"
#include "trust/file.h"
#include "trust/place.h"

#define TRIES       50
#define PIECE_BYTES ((size_t)1 << 20)

struct copy {
    int from, to;
    uint8_t *buffer; /* [PIECE_BYTES] */
};

/* The end of the first chunks, which are never released. */
static uint64_t head_bytes(int fd)
{
    struct mlw_chunk c;
    uint64_t at = 0;
    while (trust_read(fd, &c, sizeof c, at) == sizeof c && c.magic == MLW_CHUNK_MAGIC &&
           c.header_bytes == sizeof c && (c.type == MLW_CHUNK_FILE || c.type == MLW_CHUNK_SPACE))
        at += sizeof c + c.payload_bytes;
    return at;
}

/* Copies [at, end); the offset of the first byte that is not 0 becomes *first. 0 or -1. */
static int copy_range(const struct copy *c, uint64_t at, uint64_t end, uint64_t *first,
                      struct error *err)
{
    *first = end;
    while (at < end) {
        const size_t want = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        const size_t n = trust_read(c->from, c->buffer, want, at);
        if (!n)
            return error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
        for (size_t i = 0; *first == end && i < n; i++)
            if (c->buffer[i])
                *first = at + i;
        for (size_t done = 0; done < n;) {
            const ssize_t k = pwrite(c->to, c->buffer + done, n - done, (off_t)(at + done));
            if (k < 0 && errno != EINTR)
                return error_system(err, "cannot copy the recording");
            done += k > 0 ? (size_t)k : 0;
        }
        at += n;
    }
    return 0;
}

/* Where there may be bytes at or after `at`. */
static uint64_t past_hole(int fd, uint64_t at, uint64_t end)
{
    const off_t data = at < end ? lseek(fd, (off_t)at, SEEK_DATA) : -1;
    return data >= 0 ? (uint64_t)data : errno == ENXIO ? end : at;
}

/* One try. The front is released from its beginning: what stood first when it was copied and still
 * does shows that nothing behind it is gone. 1: copied, 0: it was released meanwhile, -1. */
static int copy_once(const struct copy *c, struct error *err)
{
    struct stat st;
    uint64_t first;
    uint8_t then[sizeof(struct mlw_chunk)] = {0}, now[sizeof then] = {0};
    if (ftruncate(c->to, 0) || fstat(c->from, &st))
        return error_system(err, "cannot copy the recording");
    const uint64_t end = (uint64_t)st.st_size, head = head_bytes(c->from);
    if (copy_range(c, 0, head < end ? head : end, &first, err) ||
        copy_range(c, past_hole(c->from, head, end), end, &first, err))
        return -1;
    if (trust_read(c->to, then, sizeof then, first) != trust_read(c->from, now, sizeof now, first))
        return 0;
    return !memcmp(then, now, sizeof then);
}

int dump_recording(int recording, const char *path, struct error *err)
{
    struct copy c = {.from = recording, .to = trust_unnamed(err), .buffer = malloc(PIECE_BYTES)};
    struct trust_place place = {.dir = -1};
    struct stat st;
    int copied = 0, status = -1;
    if (c.to < 0 || !c.buffer) {
        if (!c.buffer)
            error_memory(err);
        goto out;
    }
    for (int i = 0; i < TRIES && !copied; i++)
        copied = copy_once(&c, err);
    if (!copied)
        error_set(err, ERROR_SYSTEM, "the window moves faster than it can be copied");
    if (copied <= 0)
        goto out;
    /* Who may read the recording may read this one. */
    if (fstat(recording, &st) || fchmod(c.to, st.st_mode & 0777)) {
        error_system(err, "cannot copy the recording");
        goto out;
    }
    struct trust_identity id;
    if (trust_place_open(&place, path, err))
        goto out;
    if (trust_identify(recording, &id) && trust_is(place.dir, place.name, &id))
        error_set(err, ERROR_USAGE, "%s is being recorded to; choose another file", path);
    else
        status = trace_seal(c.to, &place, NULL, NULL, NULL, err);
    trust_place_close(&place);
out:
    if (c.to >= 0)
        close(c.to);
    free(c.buffer);
    return status;
}
