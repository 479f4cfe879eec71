/* section_read.c - Reads the head of a section and its streams, and verifies both by checksum.
 * The size of a decompressed stream is bounded by the section's size, so a small damaged file
 * cannot exhaust memory. */
#include <errno.h>
#include <unistd.h>

#include "format/chunk.h"
#include "sealed.h"
#include "trust/file.h"

static ssize_t read_section_at(int fd, void *to, size_t n, uint64_t off)
{
    size_t done = 0;
    while (done < n) {
        ssize_t k = pread(fd, (uint8_t *)to + done, n - done, (off_t)(off + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0)
            return -1;
        if (!k)
            break;
        done += (size_t)k;
    }
    return (ssize_t)done;
}

/* True if the n bytes at p begin with a sound head (left: bytes of the file from there on). */
static bool head_parse(const uint8_t *p, size_t n, uint64_t left, struct section_head *h)
{
    if (n < sizeof h->header)
        return false;
    memcpy(&h->header, p, sizeof h->header);
    const struct seal_header *k = &h->header;
    size_t fixed = sizeof *k + (k->type == SEAL_BLOCK ? sizeof h->block : 0);
    if (k->magic != SEAL_MAGIC || k->streams > SEAL_STREAMS_MAX ||
        k->header_bytes != fixed + k->streams * sizeof *h->streams || k->header_bytes > n ||
        k->header_bytes > left || k->payload_bytes > left - k->header_bytes)
        return false;
    uint8_t copy[sizeof h->header + sizeof h->block + sizeof h->streams];
    memcpy(copy, p, k->header_bytes);
    memset(copy + offsetof(struct seal_header, checksum), 0, 8);
    if (mlw_checksum_part(0, copy, k->header_bytes) != k->checksum)
        return false;
    if (k->type == SEAL_BLOCK)
        memcpy(&h->block, p + sizeof *k, sizeof h->block);
    else
        memset(&h->block, 0, sizeof h->block);
    memcpy(h->streams, p + fixed, k->streams * sizeof *h->streams);
    uint64_t sum = 0;
    for (unsigned i = 0; i < k->streams; i++) {
        const struct seal_stream *t = &h->streams[i];
        sum += t->stored_bytes;
        if (t->raw_bytes > SEAL_STREAM_MAX || t->codec > 1 ||
            (!t->codec && t->raw_bytes != t->stored_bytes) ||
            t->raw_bytes / 4096 > t->stored_bytes + 64)
            return false;
    }
    return sum == k->payload_bytes;
}

#define HEAD_MAX                                                                                   \
    (sizeof(struct seal_header) + sizeof(struct seal_block) +                                      \
     SEAL_STREAMS_MAX * sizeof(struct seal_stream))

int section_head_read(int fd, uint64_t offset, uint64_t file_bytes, struct section_head *h,
                      struct error *err)
{
    uint8_t buf[HEAD_MAX];
    uint64_t left = file_bytes > offset ? file_bytes - offset : 0;
    ssize_t k = read_section_at(fd, buf, left < sizeof buf ? (size_t)left : sizeof buf, offset);
    if (k < 0)
        return error_system(err, "cannot read the recording");
    h->offset = offset;
    return head_parse(buf, (size_t)k, left, h);
}

uint64_t section_find(int fd, uint64_t offset, uint64_t file_bytes, struct section_head *h)
{
    static const uint8_t magic[4] = {'M', 'L', 'S', '1'};
    enum { VIEW = 1 << 16 };
    uint8_t *buf = malloc(VIEW + HEAD_MAX);
    uint64_t found = file_bytes;
    while (buf && found == file_bytes &&
           (offset = trust_past_hole(fd, offset, file_bytes)) < file_bytes) {
        ssize_t k = read_section_at(fd, buf, VIEW + HEAD_MAX, offset);
        if (k <= 0)
            break;
        const uint8_t *p = buf, *end = buf + k;
        const uint8_t *stop = (size_t)k > VIEW ? buf + VIEW : end;
        while (p < stop && (p = memmem(p, (size_t)(end - p), magic, 4)) && p < stop) {
            uint64_t at = offset + (uint64_t)(p - buf);
            if (head_parse(p, (size_t)(end - p), file_bytes - at, h)) {
                h->offset = found = at;
                break;
            }
            p++;
        }
        offset += (uint64_t)(stop - buf);
    }
    free(buf);
    return found;
}

const struct seal_stream *section_stream(const struct section_head *h, unsigned id, unsigned part)
{
    for (unsigned i = 0; i < h->header.streams; i++)
        if (h->streams[i].id == id && h->streams[i].part == part)
            return &h->streams[i];
    return NULL;
}

int section_read(int fd, const struct section_head *h, unsigned id, unsigned part, size_t most,
                 ZSTD_DCtx *zstd, struct bytes *scratch, struct bytes *to, struct error *err)
{
    uint64_t at = h->offset + h->header.header_bytes;
    const struct seal_stream *t = NULL;
    to->n = 0;
    for (unsigned i = 0; i < h->header.streams && !t; i++) {
        if (h->streams[i].id == id && h->streams[i].part == part)
            t = &h->streams[i];
        else
            at += h->streams[i].stored_bytes;
    }
    if (!t)
        return 0;
    if (t->raw_bytes > most)
        return error_set(err, ERROR_FORMAT, "a stream of a sealed section is too long");
    struct bytes *in = t->codec ? scratch : to;
    in->n = 0;
    if (!bytes_reserve(in, (size_t)t->stored_bytes + 16) ||
        !bytes_reserve(to, (size_t)t->raw_bytes + 16))
        return error_memory_for(err, "reading a sealed section");
    ssize_t k = read_section_at(fd, in->data, t->stored_bytes, at);
    if (k < 0)
        return error_system(err, "cannot read the recording");
    if ((size_t)k != t->stored_bytes ||
        (uint32_t)mlw_checksum_part(0, in->data, t->stored_bytes) != t->checksum)
        return error_set(err, ERROR_FORMAT, "a stream of a sealed section is damaged");
    if (t->codec) {
        size_t z = ZSTD_decompressDCtx(zstd, to->data, t->raw_bytes, in->data, t->stored_bytes);
        if (ZSTD_isError(z) || z != t->raw_bytes)
            return error_set(err, ERROR_FORMAT, "a stream of a sealed section does not decompress");
    }
    to->n = t->raw_bytes;
    return 1;
}
