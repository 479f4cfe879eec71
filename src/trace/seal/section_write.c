/* section_write.c - Encodes columns of numbers as byte planes with patches, compresses streams,
 * and writes a section with its checksums. A stream that would decompress too far for readers is
 * stored in a form that they accept. */
#include <errno.h>
#include <unistd.h>

#include "format/chunk.h"
#include "trace/sealed/sealed.h"

int seal_writer_open(struct seal_writer *w, int fd, struct error *err)
{
    memset(w, 0, sizeof *w);
    w->fd = fd;
    w->zstd = ZSTD_createCCtx();
    if (!w->zstd)
        return error_memory_for(err, "sealing");
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_compressionLevel, 1);
    ZSTD_CCtx_setParameter(w->zstd, ZSTD_c_contentSizeFlag, 0);
    return 0;
}

void seal_writer_close(struct seal_writer *w)
{
    ZSTD_freeCCtx(w->zstd);
    memset(w, 0, sizeof *w);
}

void section_begin(struct section *s, enum seal_type type, uint32_t image, uint64_t number)
{
    memset(&s->header, 0, sizeof s->header);
    memset(&s->block, 0, sizeof s->block);
    s->header.magic = SEAL_MAGIC;
    s->header.type = (uint16_t)type;
    s->header.image = image;
    s->header.number = number;
    s->data.n = 0;
}

void section_put(struct seal_writer *w, struct section *s, unsigned id, unsigned part,
                 const void *data, size_t n)
{
    if (!n)
        return;
    size_t bound = ZSTD_compressBound(n);
    if (s->header.streams == SEAL_STREAMS_MAX || n > SEAL_STREAM_MAX ||
        !bytes_reserve(&s->data, bound)) {
        s->data.failed = true;
        return;
    }
    struct seal_stream *t = &s->streams[s->header.streams++];
    uint8_t *to = s->data.data + s->data.n;
    size_t k = n;
    t->codec = 0;
    if (!w->stored && n >= 32) {
        size_t z = ZSTD_compress2(w->zstd, to, bound, data, n);
        /* A reader bounds what it allocates by the size of the file: 4096 times, see
         * section_read. */
        if (!ZSTD_isError(z) && z < n && n / 4096 <= z + 64) {
            k = z;
            t->codec = 1;
        }
    }
    if (!t->codec)
        memcpy(to, data, n);
    t->id = (uint8_t)id;
    t->part = (uint8_t)part;
    t->reserved = 0;
    t->raw_bytes = (uint32_t)n;
    t->stored_bytes = (uint32_t)k;
    t->checksum = (uint32_t)mlw_checksum_part(0, to, k);
    s->data.n += k;
}

/* --- numbers --- */

/* The planes are as many as suit most values; the others, at most one in so many, become patches.
 */
#define PATCHED 32u

/* The loops below go over so many values at a time, and then look whether to go on. */
#define STRIDE 1024u

/* How many values have bits from `bits` on; of more than `most`, only that there are more. */
static size_t over_u32(const uint32_t *v, size_t n, unsigned bits, size_t most)
{
    size_t over = 0;
    for (size_t i = 0; i < n && over <= most;) {
        const size_t end = n - i < STRIDE ? n : i + STRIDE;
        uint32_t here = 0; /* as wide as the values, for the sake of vectors */
        for (; i < end; i++)
            here += v[i] >> bits != 0;
        over += here;
    }
    return over;
}

/* Patches begin at scratch->n. `next`: behind the value that was patched last. */
static void put_patch(struct bytes *scratch, size_t i, size_t *next, uint64_t value)
{
    bytes_put_varint(scratch, i - *next);
    bytes_put_varint(scratch, value);
    *next = i + 1;
}

static void put_patches(struct seal_writer *w, struct section *s, unsigned id,
                        struct bytes *scratch, size_t from)
{
    if (scratch->failed)
        s->data.failed = true;
    else
        section_put(w, s, id, SEAL_PART_PATCHES, scratch->data + from, scratch->n - from);
}

static void patch_u32(struct seal_writer *w, struct section *s, unsigned id, const uint32_t *v,
                      size_t n, unsigned bits, struct bytes *scratch)
{
    const size_t from = scratch->n;
    size_t next = 0;
    for (size_t i = 0; i < n;) {
        const size_t end = n - i < STRIDE / 16 ? n : i + STRIDE / 16;
        uint32_t all = 0;
        for (size_t k = i; k < end; k++)
            all |= v[k];
        for (; all >> bits && i < end; i++)
            if (v[i] >> bits)
                put_patch(scratch, i, &next, v[i]);
        i = end;
    }
    put_patches(w, s, id, scratch, from);
}

/* Room for a plane of n values of 32 bits. Their patches, one in PATCHED at most of ten bytes at
 * most, have enough there as well: so the scratch does not move. */
static size_t room_u32(size_t n) { return n + 64; }

static void put_u32(struct seal_writer *w, struct section *s, unsigned id, const uint32_t *v,
                    size_t n, uint32_t all, struct bytes *scratch)
{
    unsigned width = 0;
    size_t over = 0;
    for (; width < sizeof *v && all >> 8 * width; width++)
        if ((over = over_u32(v, n, 8 * width, n / PATCHED)) <= n / PATCHED)
            break;
    uint8_t *const p = scratch->data + scratch->n;
    for (unsigned b = 0; b < width; b++) {
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(v[i] >> 8 * b);
        section_put(w, s, id, b, p, n);
    }
    if (width < sizeof *v && all >> 8 * width && over)
        patch_u32(w, s, id, v, n, 8 * width, scratch);
}

static void put_u64(struct seal_writer *w, struct section *s, unsigned id, const uint64_t *v,
                    size_t n, uint64_t all, struct bytes *scratch)
{
    unsigned width = 0;
    size_t over = 0;
    for (; width < sizeof *v && all >> 8 * width; width++) {
        over = 0;
        for (size_t i = 0; i < n; i++)
            over += v[i] >> 8 * width != 0;
        if (over <= n / PATCHED)
            break;
    }
    for (unsigned b = 0; b < width; b++) {
        uint8_t *p = scratch->data;
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(v[i] >> 8 * b);
        section_put(w, s, id, b, p, n);
    }
    if (width == sizeof *v || !(all >> 8 * width) || !over)
        return;
    size_t next = 0;
    for (size_t i = 0; i < n; i++)
        if (v[i] >> 8 * width)
            put_patch(scratch, i, &next, v[i]);
    put_patches(w, s, id, scratch, 0);
}

void section_put_u32(struct seal_writer *w, struct section *s, unsigned id, const uint32_t *v,
                     size_t n, struct bytes *scratch)
{
    uint32_t all = 0;
    scratch->n = 0;
    for (size_t i = 0; i < n; i++)
        all |= v[i];
    if (!all)
        return;
    if (bytes_reserve(scratch, room_u32(n)))
        put_u32(w, s, id, v, n, all, scratch);
    else
        s->data.failed = true;
}

/* Mostly the values fit in 32 bits: then the loops over them take half as long. */
void section_put_u64(struct seal_writer *w, struct section *s, unsigned id, const uint64_t *v,
                     size_t n, struct bytes *scratch)
{
    uint64_t all = 0;
    scratch->n = 0;
    if (!bytes_reserve(scratch, n * sizeof(uint32_t) + room_u32(n))) {
        s->data.failed = true;
        return;
    }
    uint32_t *const narrow = (uint32_t *)(void *)scratch->data;
    for (size_t i = 0; i < n; i++) {
        narrow[i] = (uint32_t)v[i];
        all |= v[i];
    }
    if (all > UINT32_MAX) {
        put_u64(w, s, id, v, n, all, scratch);
    } else if (all) {
        scratch->n = n * sizeof *narrow;
        put_u32(w, s, id, narrow, n, (uint32_t)all, scratch);
    }
}

static int write_all_at(int fd, const void *data, size_t n, uint64_t at, struct error *err)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = pwrite(fd, (const uint8_t *)data + done, n - done, (off_t)(at + done));
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0)
            return error_system(err, "cannot write the sealed recording");
        done += (size_t)k;
    }
    return 0;
}

int section_write(struct seal_writer *w, struct section *s, struct error *err)
{
    uint8_t head[sizeof s->header + sizeof s->block + sizeof s->streams];
    if (s->data.failed)
        return error_memory_for(err, "sealing");
    size_t n = sizeof s->header;
    if (s->header.type == SEAL_BLOCK) {
        memcpy(head + n, &s->block, sizeof s->block);
        n += sizeof s->block;
    }
    memcpy(head + n, s->streams, s->header.streams * sizeof *s->streams);
    n += s->header.streams * sizeof *s->streams;
    s->header.header_bytes = (uint32_t)n;
    s->header.payload_bytes = s->data.n;
    s->header.checksum = 0;
    memcpy(head, &s->header, sizeof s->header);
    s->header.checksum = mlw_checksum_part(0, head, n);
    memcpy(head, &s->header, sizeof s->header);
    if (write_all_at(w->fd, head, n, w->offset, err) ||
        write_all_at(w->fd, s->data.data, s->data.n, w->offset + n, err))
        return -1;
    w->offset += n + s->data.n;
    return 0;
}
