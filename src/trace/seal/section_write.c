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

static uint32_t over_u32(const uint32_t *v, size_t n, unsigned bits)
{
    uint32_t over = 0; /* as wide as the values, for the sake of vectors; n is no larger */
    for (size_t i = 0; i < n; i++)
        over += v[i] >> bits != 0;
    return over;
}

/* `kept`: as many bytes of the scratch stay as they are. v NULL: the values are these. */
static void put_u32(struct seal_writer *w, struct section *s, unsigned id, const uint32_t *v,
                    size_t n, uint32_t all, struct bytes *scratch, size_t kept)
{
    unsigned width = 0;
    uint32_t over = 0;
    scratch->n = kept;
    if (!bytes_reserve(scratch, n)) {
        s->data.failed = true;
        return;
    }
    const uint32_t *const values = v ? v : (const uint32_t *)(const void *)scratch->data;
    for (; width < sizeof *v && all >> 8 * width; width++)
        if ((over = over_u32(values, n, 8 * width)) <= n / PATCHED)
            break;
    for (unsigned b = 0; b < width; b++) {
        uint8_t *p = scratch->data + kept;
        for (size_t i = 0; i < n; i++)
            p[i] = (uint8_t)(values[i] >> 8 * b);
        section_put(w, s, id, b, p, n);
    }
    if (width == sizeof *v || !(all >> 8 * width) || !over)
        return;
    size_t next = 0;
    for (size_t i = 0; i < n; i++) {
        /* the scratch may move as it grows */
        const uint32_t value = v ? v[i] : ((const uint32_t *)(const void *)scratch->data)[i];
        if (value >> 8 * width)
            put_patch(scratch, i, &next, value);
    }
    put_patches(w, s, id, scratch, kept);
}

static void put_u64(struct seal_writer *w, struct section *s, unsigned id, const uint64_t *v,
                    size_t n, uint64_t all, struct bytes *scratch)
{
    unsigned width = 0;
    size_t over = 0;
    scratch->n = 0;
    if (!bytes_reserve(scratch, n)) {
        s->data.failed = true;
        return;
    }
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
    for (size_t i = 0; i < n; i++)
        all |= v[i];
    if (all)
        put_u32(w, s, id, v, n, all, scratch, 0);
}

/* Mostly the values fit in 32 bits: then the loops over them take half as long. */
void section_put_u64(struct seal_writer *w, struct section *s, unsigned id, const uint64_t *v,
                     size_t n, struct bytes *scratch)
{
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++)
        all |= v[i];
    if (!all)
        return;
    scratch->n = 0;
    if (all > UINT32_MAX || !bytes_reserve(scratch, n * sizeof(uint32_t))) {
        put_u64(w, s, id, v, n, all, scratch);
        return;
    }
    uint32_t *narrow = (uint32_t *)(void *)scratch->data;
    for (size_t i = 0; i < n; i++)
        narrow[i] = (uint32_t)v[i];
    put_u32(w, s, id, NULL, n, (uint32_t)all, scratch, n * sizeof *narrow);
}

static int write_all(int fd, const void *data, size_t n, uint64_t at, struct error *err)
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
    if (write_all(w->fd, head, n, w->offset, err) ||
        write_all(w->fd, s->data.data, s->data.n, w->offset + n, err))
        return -1;
    w->offset += n + s->data.n;
    return 0;
}
