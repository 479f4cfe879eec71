/* source.c - Reads lines of a file that is plain or compressed by gzip or zstd. A bound on the
 * decompressed size stops a small file that expands without end. It notes when a compressed file
 * ends early. */
#include "import/source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/packed.h"
#include "trust/file.h"

enum { CHUNK = 1 << 16 };

struct source {
    const char *path;
    gzFile gz; /* reads uncompressed files as well */
    FILE *file;
    ZSTD_DStream *zstd;
    char packed[CHUNK]; /* compressed by zstd */
    ZSTD_inBuffer in;
    char *text; /* bytes read and not yet returned */
    size_t at, have, room;
    uint64_t lines;
    uint64_t left; /* bytes that may come still: a bound where the file is compressed */
    bool ended;
    bool within; /* a frame of zstd that is not complete */
    bool cut;    /* see source_is_cut */
};

struct source *source_open(const char *path, struct error *err)
{
    static const unsigned char magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
    unsigned char head[4] = {0};
    struct source *s = calloc(1, sizeof *s);
    if (s)
        s->text = malloc(s->room = CHUNK + 1);
    if (!s || !s->text) {
        error_memory(err);
        source_close(s);
        return NULL;
    }
    s->path = path;
    s->left = UINT64_MAX;
    const int fd = trust_open_any(path, err);
    if (fd < 0) {
        source_close(s);
        return NULL;
    }
    if (trust_read(fd, head, 4, 0) == 4 && !memcmp(head, magic, 4)) {
        s->file = fdopen(fd, "rb");
        s->zstd = ZSTD_createDStream();
    } else {
        s->gz = gzdopen(fd, "rb");
    }
    if (!s->gz && (!s->file || !s->zstd)) {
        error_system(err, "cannot open %s", path);
        if (!s->file)
            close(fd);
        source_close(s);
        return NULL;
    }
    struct stat st;
    if (!fstat(fd, &st) && (s->zstd || !gzdirect(s->gz)))
        s->left = packed_most((uint64_t)st.st_size);
    return s;
}

void source_close(struct source *s)
{
    if (!s)
        return;
    if (s->gz)
        gzclose(s->gz);
    if (s->file)
        fclose(s->file);
    ZSTD_freeDStream(s->zstd);
    free(s->text);
    free(s);
}

bool source_is_cut(const struct source *s) { return s->cut; }

uint64_t source_line_number(const struct source *s) { return s->lines; }

int source_error(const struct source *s, struct error *err, const char *format, ...)
{
    char text[256];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    return error_set(err, ERROR_FORMAT, "%s, line %llu: %s", s->path, (unsigned long long)s->lines,
                     text);
}

/* Appends what comes next; the room is there. Bytes, 0 at the end, -1. */
static ssize_t more(struct source *s, char *to, size_t room, struct error *err)
{
    if (s->gz) {
        int n = gzread(s->gz, to, (unsigned)room), code;
        const char *why = n <= 0 ? gzerror(s->gz, &code) : NULL;
        if (n <= 0 && code == Z_BUF_ERROR) { /* it ends too early */
            s->cut = true;
            return 0;
        }
        if (n < 0) {
            return source_error(s, err, "cannot be uncompressed: %s",
                                code == Z_ERRNO ? strerror(errno) : why);
        }
        return n;
    }
    for (;;) {
        ZSTD_outBuffer out = {to, room, 0};
        if (s->in.pos == s->in.size) {
            s->in.size = fread(s->packed, 1, sizeof s->packed, s->file);
            s->in.src = s->packed;
            s->in.pos = 0;
            if (ferror(s->file))
                return error_system(err, "cannot read %s", s->path);
        }
        bool last = s->in.size == 0;
        size_t left = ZSTD_decompressStream(s->zstd, &out, &s->in);
        if (ZSTD_isError(left))
            return source_error(s, err, "cannot be uncompressed: %s", ZSTD_getErrorName(left));
        if (!last || out.pos)
            s->within = left != 0;
        else if (s->within)
            s->cut = true;
        if (out.pos || last)
            return (ssize_t)out.pos;
    }
}

int source_line(struct source *s, char **line, size_t *bytes, struct error *err)
{
    size_t seen = 0;
    for (;;) {
        char *start = s->text + s->at;
        char *end =
            s->have > s->at + seen ? memchr(start + seen, '\n', s->have - s->at - seen) : NULL;
        size_t n = end ? (size_t)(end - start) : s->have - s->at;
        if (s->ended && !end && n) {
            s->cut = true;
            s->at = s->have;
            return 0;
        }
        if (end) {
            s->lines++;
            start[n] = 0; /* there is always room for it */
            s->at += n + 1;
            *line = start;
            *bytes = n;
            if (memchr(start, 0, n))
                return source_error(s, err, "a NUL byte, so it is not text");
            return 1;
        }
        if (s->ended)
            return 0;
        seen = n;
        if (n > SOURCE_LINE_MAX) {
            s->lines++;
            return source_error(s, err, "the line has more than %u bytes", SOURCE_LINE_MAX);
        }
        if (s->at) {
            memmove(s->text, start, n);
            s->at = 0;
            s->have = n;
        }
        if (s->room < n + CHUNK + 1) {
            char *fresh = realloc(s->text, n + 2 * CHUNK + 1);
            if (!fresh)
                return error_memory(err);
            s->text = fresh;
            s->room = n + 2 * CHUNK + 1;
        }
        ssize_t k = more(s, s->text + n, CHUNK, err);
        if (k < 0)
            return -1;
        if ((uint64_t)k > s->left)
            return source_error(s, err,
                                "the file unpacks to more than %u times its size: unpack it "
                                "before, with 'zstd -d' or 'gzip -d'",
                                PACKED_SHARE);
        s->left -= s->left == UINT64_MAX ? 0 : (uint64_t)k;
        s->have = n + (size_t)k;
        s->ended = k == 0;
    }
}

int source_each(struct source *s, source_take *take, void *arg, struct error *err)
{
    char *line;
    size_t n;
    int more;
    while ((more = source_line(s, &line, &n, err)) > 0)
        if (take(arg, line, n, err))
            return -1;
    return more;
}
