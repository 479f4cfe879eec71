/* pack.c - Compresses and decompresses workload files by zstd, and opens either form as a
 * descriptor. The decompressed size is bounded, because the file may be hostile. */
#include "workload/pack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include "base/packed.h"
#include "base/write.h"
#include "trust/file.h"
#include "workload/format.h"

#define PACK_LEVEL 12 /* more makes a corpus smaller by little, and takes much longer */

int workload_unpack(const void *data, size_t n, int into, uint64_t most, struct error *err)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    size_t room = ZSTD_DStreamOutSize(), left = 1;
    char *block = malloc(room);
    ZSTD_inBuffer in = {data, n, 0};
    uint64_t total = 0;
    int failed = context && block ? 0 : error_memory(err);
    while (!failed && in.pos < in.size) {
        ZSTD_outBuffer out = {block, room, 0};
        left = ZSTD_decompressStream(context, &out, &in);
        total += out.pos;
        if (ZSTD_isError(left))
            failed = error_set(err, ERROR_FORMAT, "the packed workload is damaged: %s",
                               ZSTD_getErrorName(left));
        else if (total > most)
            failed = error_set(err, ERROR_UNSUPPORTED,
                               "the workload unpacks to more than %" PRIu64
                               " MB; unpack it into a file with `zstd -d`",
                               most >> 20);
        else
            failed = write_all(into, block, out.pos)
                         ? error_system(err, "cannot keep the unpacked workload")
                         : 0;
    }
    if (!failed && left)
        failed = error_set(err, ERROR_FORMAT, "the packed workload is cut off");
    ZSTD_freeDCtx(context);
    free(block);
    return failed;
}

/* Feeds one piece into the frame, or ends it. */
static int pack_workload_piece(ZSTD_CCtx *context, ZSTD_inBuffer *in, bool last, char *block,
                               size_t room, FILE *out, struct error *err)
{
    size_t left;
    do {
        ZSTD_outBuffer to = {block, room, 0};
        left = ZSTD_compressStream2(context, &to, in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return error_set(err, ERROR_MEMORY, "cannot pack the workload: %s",
                             ZSTD_getErrorName(left));
        if (fwrite(block, 1, to.pos, out) != to.pos)
            return error_system(err, "cannot write the packed workload");
    } while (last ? left != 0 : in->pos < in->size);
    return 0;
}

int workload_pack(int from, FILE *out, struct error *err)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    const size_t room = ZSTD_CStreamOutSize(), piece = ZSTD_CStreamInSize();
    char *block = malloc(room), *data = malloc(piece);
    int failed = context && block && data ? 0 : error_memory(err);
    if (!failed) {
        ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, PACK_LEVEL);
        ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    }
    for (off_t at = 0; !failed;) {
        const ssize_t n = pread(from, data, piece, at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            failed = error_system(err, "cannot read the workload");
        if (failed)
            break;
        ZSTD_inBuffer in = {data, (size_t)n, 0};
        failed = pack_workload_piece(context, &in, n == 0, block, room, out, err);
        at += n;
        if (n == 0)
            break;
    }
    ZSTD_freeCCtx(context);
    free(block);
    free(data);
    return failed;
}

static bool is_packed(int fd)
{
    uint8_t head[4];
    return pread(fd, head, sizeof head, 0) == sizeof head && head[0] == 0x28 && head[1] == 0xb5 &&
           head[2] == 0x2f && head[3] == 0xfd;
}

static int unpack(const char *path, int into, struct error *err)
{
    size_t bytes = 0;
    void *data = trust_map(path, &bytes, err);
    if (!data)
        return -1;
    int failed = workload_unpack(data, bytes, into, packed_most(bytes), err);
    munmap(data, bytes);
    return failed;
}

static bool is_plain_file(int fd)
{
    uint32_t magic = 0;
    return pread(fd, &magic, sizeof magic, 0) == sizeof magic && magic == WORKLOAD_MAGIC;
}

/* The source is the file that it has in fd. */
static void name_descriptor(struct workload_source *s)
{
    snprintf(s->name, sizeof s->name, "/proc/self/fd/%d", s->fd);
    s->path = s->name;
}

int workload_source_open(struct workload_source *s, const char *path, struct error *err)
{
    *s = (struct workload_source){.path = path, .fd = -1};
    struct error unreadable;
    int from = trust_open_any(path, &unreadable), failed = 0;
    if (from >= 0 && is_packed(from)) {
        s->fd = memfd_create("mallow-workload", 0);
        if (s->fd < 0)
            failed = error_system(err, "cannot make a file in memory to unpack %s into", path);
        else if ((failed = unpack(path, s->fd, err)))
            error_prefix(err, "%s", path);
        name_descriptor(s);
    } else if (from >= 0 && is_plain_file(from)) {
        s->fd = trust_stable(from, TRUST_COPY_BYTES_MAX, err);
        from = -1;
        if (s->fd < 0 || fcntl(s->fd, F_SETFD, 0)) /* programs that are started inherit it */
            failed = error_prefix(err, "%s", path);
        name_descriptor(s);
    }
    if (from >= 0)
        close(from);
    if (failed)
        workload_source_close(s);
    return failed;
}

int workload_source_expect(struct workload_source *s, const char *path, struct error *err)
{
    if (workload_source_open(s, path, err))
        return -1;
    /* Without a descriptor it was no workload, and what the path leads to by now does not matter.
     */
    int failed = 0, fd = s->fd >= 0 ? s->fd : trust_open_any(path, err);
    if (fd < 0)
        failed = -1;
    else if (fd != s->fd || !is_plain_file(fd))
        failed = error_set(err, ERROR_USAGE,
                           "%s is not a workload; 'mallow workload RECORDING -o OUT.mwl' makes one",
                           path);
    if (fd >= 0 && fd != s->fd)
        close(fd);
    if (failed)
        workload_source_close(s);
    return failed;
}

void workload_source_close(struct workload_source *s)
{
    if (s->fd >= 0)
        close(s->fd);
    s->fd = -1;
}

bool workload_is(const char *path)
{
    struct error ignored;
    int fd = trust_open_any(path, &ignored);
    bool is = fd >= 0 && is_plain_file(fd);
    if (fd >= 0)
        close(fd);
    return is;
}
