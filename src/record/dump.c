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
static uint64_t count_head_bytes(int fd)
{
    struct mlw_chunk c;
    uint64_t at = 0;
    while (trust_read(fd, &c, sizeof c, at) == sizeof c && c.magic == MLW_CHUNK_MAGIC &&
           c.header_bytes == sizeof c && (c.type == MLW_CHUNK_FILE || c.type == MLW_CHUNK_SPACE))
        at += sizeof c + c.payload_bytes;
    return at;
}

/* Copies [at, end). */
static int copy_range(const struct copy *c, uint64_t at, uint64_t end, struct error *err)
{
    while (at < end) {
        const size_t want = end - at < PIECE_BYTES ? (size_t)(end - at) : PIECE_BYTES;
        const size_t n = trust_read(c->from, c->buffer, want, at);
        if (!n)
            return error_set(err, ERROR_FORMAT, "the recording shrank while it was read");
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

/* The front, which stands behind the first chunks and is released from its beginning. */
struct front {
    uint64_t at; /* the first byte that is not 0 */
    size_t n;    /* 0: there is none yet */
    uint8_t bytes[sizeof(struct mlw_chunk)];
};

static void find_front(const struct copy *c, uint64_t head, struct front *f)
{
    const off_t data = lseek(c->from, (off_t)head, SEEK_DATA);
    size_t n, i = 0;
    f->at = data >= 0 ? (uint64_t)data : head;
    while ((n = trust_read(c->from, c->buffer, PIECE_BYTES, f->at))) {
        for (i = 0; i < n && !c->buffer[i]; i++)
            ;
        f->at += i;
        if (i < n)
            break;
    }
    f->n = trust_read(c->from, f->bytes, sizeof f->bytes, f->at);
}

/* One try. What stood first before the size was asked for, and still does when all was copied,
 * shows that nothing was released meanwhile: neither rows of before, nor rows whose fold lies
 * behind that size. 1: copied, 0: it was released meanwhile, -1. */
static int copy_once(const struct copy *c, struct error *err)
{
    struct stat st;
    struct front front;
    uint8_t now[sizeof front.bytes];
    const uint64_t head = count_head_bytes(c->from);
    find_front(c, head, &front);
    if (ftruncate(c->to, 0) || fstat(c->from, &st))
        return error_system(err, "cannot copy the recording");
    const uint64_t end = (uint64_t)st.st_size;
    if (!front.n && end > front.at)
        return 0; /* it has come since */
    if (copy_range(c, 0, head < end ? head : end, err) || copy_range(c, front.at, end, err))
        return -1;
    return trust_read(c->from, now, front.n, front.at) == front.n &&
           !memcmp(front.bytes, now, front.n);
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
    /* Its readers are those of the recording. */
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
        status = trace_seal(c.to, &place, 1, NULL, NULL, NULL, NULL, err);
    trust_place_close(&place);
out:
    if (c.to >= 0)
        close(c.to);
    free(c.buffer);
    return status;
}
