/* packing.c - Writes and reads the sections of a saved heap: variable-length numbers and texts,
 * compressed by zstd. A reader checks the declared sizes against bounds before it allocates,
 * because the file may be damaged or hostile. A failed allocation or a bad number marks the
 * section. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "heap/saved.h"
#include "heap/spill.h"

enum { VARINT_MAX = 10, LEVEL = 3 };

#define SHARE_MAX 20000u /* how much larger than its packed form a section may be */

struct section_head { /* in the file, little-endian */
    uint32_t kind, reserved;
    uint64_t raw_bytes, packed_bytes;
};

static bool make_room(struct packing *p, size_t more)
{
    if (p->room - p->n >= more)
        return true;
    p->failed = p->failed || !SPILL_ROOM(p->data, p->n + more, p->room);
    return !p->failed;
}

void packing_number(struct packing *p, uint64_t n)
{
    if (!make_room(p, VARINT_MAX))
        return;
    while (n >= 0x80) {
        p->data[p->n++] = (uint8_t)(n | 0x80);
        n >>= 7;
    }
    p->data[p->n++] = (uint8_t)n;
}

void packing_signed(struct packing *p, int64_t n)
{
    packing_number(p, n < 0 ? ~((uint64_t)n << 1) : (uint64_t)n << 1);
}

void packing_text(struct packing *p, const char *text)
{
    size_t n = strlen(text);
    packing_number(p, n);
    if (make_room(p, n))
        memcpy(p->data + p->n, text, n);
    if (!p->failed)
        p->n += n;
}

uint64_t packing_get(struct packing *p)
{
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64 && p->at < p->n; shift += 7) {
        uint8_t byte = p->data[p->at++];
        if (shift == 63 && byte > 1)
            break;
        n |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return n;
    }
    p->failed = true;
    return 0;
}

int64_t packing_get_signed(struct packing *p)
{
    uint64_t n = packing_get(p);
    return n & 1 ? (int64_t) ~(n >> 1) : (int64_t)(n >> 1);
}

uint64_t packing_get_below(struct packing *p, uint64_t most)
{
    uint64_t n = packing_get(p);
    if (n <= most)
        return n;
    p->failed = true;
    return 0;
}

void packing_get_text(struct packing *p, char *text, size_t room)
{
    size_t n = packing_get_below(p, room - 1);
    if (n > p->n - p->at)
        p->failed = true;
    if (p->failed)
        n = 0;
    for (size_t i = 0; i < n; i++) {
        uint8_t c = p->data[p->at++];
        text[i] = c >= 0x20 && c < 0x7f ? (char)c : '?';
    }
    text[n] = 0;
}

void packing_release(struct packing *p)
{
    spill_free(p->data);
    *p = (struct packing){0};
}

int packing_write(FILE *file, uint32_t kind, struct packing *p, struct error *err)
{
    size_t room = ZSTD_compressBound(p->n), n = 0;
    void *packed = p->failed ? NULL : spill_zeros(room, 1);
    ZSTD_CCtx *c = ZSTD_createCCtx();
    int status = packed && c ? 0 : error_memory(err);
    if (!status) {
        ZSTD_CCtx_setParameter(c, ZSTD_c_compressionLevel, LEVEL);
        ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        n = ZSTD_compress2(c, packed, room, p->data, p->n);
        if (ZSTD_isError(n))
            status = error_set(err, ERROR_SYSTEM, "zstd: %s", ZSTD_getErrorName(n));
    }
    const struct section_head head = {.kind = kind, .raw_bytes = p->n, .packed_bytes = n};
    if (!status && (fwrite(&head, sizeof head, 1, file) != 1 || fwrite(packed, 1, n, file) != n))
        status = error_system(err, "write the heap");
    ZSTD_freeCCtx(c);
    spill_free(packed);
    p->n = p->at = 0;
    return status;
}

static int damaged(const char *name, uint32_t kind, struct error *err)
{
    return error_set(err, ERROR_FORMAT, "%s: section %" PRIu32 " is damaged, or not all there",
                     name, kind);
}

static bool read_all(int fd, void *into, size_t bytes, uint64_t offset)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, (uint8_t *)into + done, bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        done += (size_t)n;
    }
    return true;
}

int packing_read(int fd, const char *name, uint64_t *offset, uint32_t kind, uint64_t most,
                 struct packing *p, struct error *err)
{
    struct section_head head;
    packing_release(p);
    off_t size = lseek(fd, 0, SEEK_END);
    if (size < 0 || *offset > (uint64_t)size || (uint64_t)size - *offset < sizeof head ||
        !read_all(fd, &head, sizeof head, *offset))
        return damaged(name, kind, err);
    *offset += sizeof head;
    if (head.kind != kind || head.packed_bytes > (uint64_t)size - *offset ||
        head.raw_bytes / SHARE_MAX > head.packed_bytes)
        return damaged(name, kind, err);
    if (head.raw_bytes > most)
        return error_set(err, ERROR_FORMAT,
                         "%s: section %" PRIu32 " says that it unpacks to %" PRIu64
                         " bytes; at most %" PRIu64 " are read",
                         name, kind, head.raw_bytes, most);
    void *packed = spill_zeros(head.packed_bytes, 1);
    p->data = spill_zeros(head.raw_bytes, 1);
    int status = packed && p->data ? 0 : error_memory(err);
    if (!status &&
        (!read_all(fd, packed, head.packed_bytes, *offset) ||
         ZSTD_decompress(p->data, head.raw_bytes, packed, head.packed_bytes) != head.raw_bytes))
        status = damaged(name, kind, err);
    spill_free(packed);
    *offset += head.packed_bytes;
    p->n = p->room = head.raw_bytes;
    if (status)
        packing_release(p);
    return status;
}
