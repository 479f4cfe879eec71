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

/* How many bytes a value the planes get: the others, at most one in 32, become patches. */
static unsigned plane_width(const size_t longer[9], size_t n)
{
    unsigned w = 0;
    while (w < 8 && longer[w] > n / 32)
        w++;
    return w;
}

#define PUT_NUMBERS(NAME, TYPE)                                                                    \
    void NAME(struct seal_writer *w, struct section *s, unsigned id, const TYPE *v, size_t n,      \
              struct bytes *scratch)                                                               \
    {                                                                                              \
        size_t longer[9] = {0};                                                                    \
        size_t over0 = 0, over1 = 0, over2 = 0;                                                    \
        TYPE all = 0;                                                                              \
        for (size_t i = 0; i < n; i++) {                                                           \
            over0 += v[i] != 0;                                                                    \
            over1 += v[i] > 0xff;                                                                  \
            over2 += v[i] > 0xffff;                                                                \
            all |= v[i];                                                                           \
        }                                                                                          \
        if (!all)                                                                                  \
            return;                                                                                \
        longer[0] = over0;                                                                         \
        longer[1] = over1;                                                                         \
        longer[2] = over2;                                                                         \
        if (over2)                                                                                 \
            for (unsigned b = 3; b < sizeof(TYPE); b++)                                            \
                for (size_t i = 0; i < n; i++)                                                     \
                    longer[b] += (uint64_t)v[i] >> 8 * b != 0;                                     \
        unsigned width = plane_width(longer, n);                                                   \
        scratch->n = 0;                                                                            \
        if (!bytes_reserve(scratch, n)) {                                                          \
            s->data.failed = true;                                                                 \
            return;                                                                                \
        }                                                                                          \
        for (unsigned b = 0; b < width; b++) {                                                     \
            uint8_t *p = scratch->data;                                                            \
            for (size_t i = 0; i < n; i++)                                                         \
                p[i] = (uint8_t)((uint64_t)v[i] >> 8 * b);                                         \
            section_put(w, s, id, b, p, n);                                                        \
        }                                                                                          \
        if (!longer[width])                                                                        \
            return;                                                                                \
        scratch->n = 0;                                                                            \
        size_t next = 0;                                                                           \
        for (size_t i = 0; i < n; i++)                                                             \
            if (width < sizeof(TYPE) && (uint64_t)v[i] >> 8 * width) {                             \
                bytes_put_varint(scratch, i - next);                                               \
                bytes_put_varint(scratch, v[i]);                                                   \
                next = i + 1;                                                                      \
            }                                                                                      \
        if (scratch->failed)                                                                       \
            s->data.failed = true;                                                                 \
        section_put(w, s, id, SEAL_PART_PATCHES, scratch->data, scratch->n);                       \
    }

PUT_NUMBERS(section_put_u32, uint32_t)
PUT_NUMBERS(section_put_u64, uint64_t)

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
