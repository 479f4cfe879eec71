/* numbers.c - Decodes a column of numbers from byte planes and patches. Reads past the end and
 * patches out of order mark the column as damaged. */
#include "numbers.h"

static void next_patch(struct numbers *c)
{
    size_t from = c->patch == SIZE_MAX ? 0 : c->patch + 1;
    c->patch = SIZE_MAX;
    if (!span_left(&c->rest))
        return;
    uint64_t gap = span_varint(&c->rest);
    c->value = span_varint(&c->rest);
    if (c->rest.bad || gap >= c->n - from) {
        c->bad = true;
        return;
    }
    c->patch = from + (size_t)gap;
}

int numbers_load(struct numbers *c, int fd, const struct section_head *h, unsigned id, size_t n,
                 ZSTD_DCtx *z, struct bytes *scratch, struct error *err)
{
    c->n = n;
    c->at = 0;
    c->bad = false;
    for (c->width = 0; c->width < 8; c->width++) {
        int k = section_read(fd, h, id, c->width, n, z, scratch, &c->planes[c->width], err);
        if (k < 0)
            return -1;
        if (!k)
            break;
        if (c->planes[c->width].n != n)
            return error_set(err, ERROR_FORMAT, "a column of a sealed section is too short");
    }
    if (section_read(fd, h, id, SEAL_PART_PATCHES, n * 20, z, scratch, &c->patches, err) < 0)
        return -1;
    c->rest = span_of(c->patches.data, c->patches.n);
    c->patch = SIZE_MAX;
    next_patch(c);
    return c->bad ? error_set(err, ERROR_FORMAT, "a column of a sealed section is damaged") : 0;
}

void numbers_free(struct numbers *c)
{
    for (int i = 0; i < 8; i++)
        bytes_free(&c->planes[i]);
    bytes_free(&c->patches);
}

bool numbers_patch(struct numbers *c, size_t k, size_t *at, uint64_t *value)
{
    if (c->patch == SIZE_MAX || c->patch - c->at >= k)
        return false;
    *at = c->patch - c->at;
    *value = c->value;
    next_patch(c);
    return true;
}

int numbers_pass(struct numbers *c, size_t k)
{
    if (k > c->n - c->at)
        return -1;
    c->at += k;
    return c->bad ? -1 : 0;
}

#define TAKE(NAME, TYPE)                                                                           \
    int NAME(struct numbers *c, TYPE *restrict out, size_t k)                                      \
    {                                                                                              \
        if (k > c->n - c->at)                                                                      \
            return -1;                                                                             \
        const uint8_t *restrict p0 = c->width > 0 ? c->planes[0].data + c->at : NULL;              \
        const uint8_t *restrict p1 = c->width > 1 ? c->planes[1].data + c->at : NULL;              \
        switch (c->width) {                                                                        \
        case 0: memset(out, 0, k * sizeof *out); break;                                            \
        case 1:                                                                                    \
            for (size_t i = 0; i < k; i++)                                                         \
                out[i] = p0[i];                                                                    \
            break;                                                                                 \
        case 3: {                                                                                  \
            const uint8_t *restrict p2 = c->planes[2].data + c->at;                                \
            for (size_t i = 0; i < k; i++)                                                         \
                out[i] = (TYPE)(p0[i] | (TYPE)p1[i] << 8 | (TYPE)p2[i] << 16);                     \
            break;                                                                                 \
        }                                                                                          \
        default:                                                                                   \
            for (size_t i = 0; i < k; i++)                                                         \
                out[i] = (TYPE)(p0[i] | (TYPE)p1[i] << 8);                                         \
            for (unsigned b = 2; b < c->width && b < sizeof(TYPE); b++) {                          \
                const uint8_t *restrict p = c->planes[b].data + c->at;                             \
                for (size_t i = 0; i < k; i++)                                                     \
                    out[i] |= (TYPE)p[i] << 8 * b;                                                 \
            }                                                                                      \
        }                                                                                          \
        while (c->patch < c->at + k) {                                                             \
            out[c->patch - c->at] = (TYPE)c->value;                                                \
            next_patch(c);                                                                         \
        }                                                                                          \
        c->at += k;                                                                                \
        return c->bad ? -1 : 0;                                                                    \
    }

TAKE(numbers_take_u64, uint64_t)
TAKE(numbers_take_u32, uint32_t)
