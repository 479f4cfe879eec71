/* manifest.c - Writes and parses the list of a recording's segments with their SHA-256 sums. The
 * parser checks every number and length before use, because a server supplies the text. */
#include "push/manifest.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_LINE "# mallow segments 1"
#define MOST       99999999u /* segments: the digits of a name */

void manifest_name(uint64_t segment, char name[SEGMENT_NAME_BYTES])
{
    snprintf(name, SEGMENT_NAME_BYTES, "%08u.seg", (unsigned)(segment % (MOST + 1ull)));
}

uint64_t manifest_bytes_of(const struct manifest *m, uint64_t segment)
{
    const uint64_t from = segment * m->segment_bytes;
    const uint64_t left = m->bytes > from ? m->bytes - from : 0;
    return left < m->segment_bytes ? left : m->segment_bytes;
}

int manifest_set(struct manifest *m, uint64_t segment, const uint8_t sum[SHA256_BYTES],
                 struct error *err)
{
    if (segment > MOST)
        return error_set(err, ERROR_UNSUPPORTED,
                         "more than 100,000,000 segments; --segment-size makes larger ones");
    if (segment >= m->count && !(m->count & (m->count - 1))) { /* doubles */
        void *more = reallocarray(m->sums, m->count ? m->count * 2 : 1, sizeof *m->sums);
        if (!more)
            return error_memory(err);
        m->sums = more;
    }
    if (segment >= m->count)
        segment = m->count++;
    memcpy(m->sums[segment], sum, SHA256_BYTES);
    return 0;
}

void manifest_write(const struct manifest *m, struct buffer *to)
{
    char text[SHA256_TEXT], name[SEGMENT_NAME_BYTES];
    sha256_text(m->begins, text);
    buffer_printf(to, FIRST_LINE "\n# begins %s\n# segment_bytes %llu\n# bytes %llu\n", text,
                  (unsigned long long)m->segment_bytes, (unsigned long long)m->bytes);
    for (uint64_t i = 0; i < m->count; i++) {
        sha256_text(m->sums[i], text);
        manifest_name(i, name);
        buffer_printf(to, "%s  %s\n", text, name);
    }
}

/* ---- reading ---- */

struct reader {
    const char *at, *end;
};

/* The next line, whose end is written over by nothing: *bytes long. NULL: there is none. */
static const char *manifest_next_line(struct reader *r, size_t *bytes)
{
    const char *line = r->at;
    if (r->at == r->end)
        return NULL;
    const char *stop = memchr(line, '\n', (size_t)(r->end - line));
    *bytes = (size_t)((stop ? stop : r->end) - line);
    r->at = stop ? stop + 1 : r->end;
    return line;
}

static bool read_sum(const char *text, uint8_t sum[SHA256_BYTES])
{
    for (size_t i = 0; i < (size_t)2 * SHA256_BYTES; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return false;
        sum[i / 2] = (uint8_t)(sum[i / 2] << 4 | digit);
    }
    return true;
}

/* `label` and a number. */
static bool manifest_read_number(struct reader *r, const char *label, uint64_t *value)
{
    const size_t n = strlen(label);
    size_t bytes;
    const char *line = manifest_next_line(r, &bytes);
    char digits[24] = "", *stop;
    if (!line || bytes <= n || bytes - n >= sizeof digits || memcmp(line, label, n))
        return false;
    memcpy(digits, line + n, bytes - n);
    errno = 0;
    *value = strtoull(digits, &stop, 10);
    return *digits >= '0' && *digits <= '9' && !*stop && !errno;
}

static bool manifest_read_head(struct manifest *m, struct reader *r)
{
    static const char begins[] = "# begins ";
    const size_t n = sizeof begins - 1;
    size_t bytes;
    const char *line = manifest_next_line(r, &bytes);
    if (!line || bytes != strlen(FIRST_LINE) || memcmp(line, FIRST_LINE, bytes))
        return false;
    line = manifest_next_line(r, &bytes);
    return line && bytes == n + SHA256_TEXT - 1 && !memcmp(line, begins, n) &&
           read_sum(line + n, m->begins) &&
           manifest_read_number(r, "# segment_bytes ", &m->segment_bytes) &&
           manifest_read_number(r, "# bytes ", &m->bytes) &&
           m->segment_bytes >= SEGMENT_BYTES_LEAST && m->segment_bytes <= SEGMENT_BYTES_MOST;
}

int manifest_read(struct manifest *m, const char *text, size_t bytes, struct error *err)
{
    struct reader r = {text, text + bytes};
    const char *line;
    size_t n;
    *m = (struct manifest){0};
    bool good = manifest_read_head(m, &r);
    while (good && (line = manifest_next_line(&r, &n))) {
        char name[SEGMENT_NAME_BYTES];
        uint8_t sum[SHA256_BYTES];
        manifest_name(m->count, name);
        good = n == SHA256_TEXT - 1 + 2 + strlen(name) && m->count <= MOST && read_sum(line, sum) &&
               !memcmp(line + SHA256_TEXT - 1, "  ", 2) &&
               !memcmp(line + SHA256_TEXT + 1, name, strlen(name));
        if (good && manifest_set(m, m->count, sum, err)) {
            manifest_release(m);
            return -1;
        }
    }
    const uint64_t wanted =
        good ? m->bytes / m->segment_bytes + (m->bytes % m->segment_bytes > 0) : 0;
    if (good && wanted == m->count)
        return 0;
    manifest_release(m);
    return error_set(err, ERROR_FORMAT, "it is not a list of a recording's segments");
}

void manifest_release(struct manifest *m)
{
    free(m->sums);
    *m = (struct manifest){0};
}
