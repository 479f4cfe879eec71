/* bytes.h - growing buffers of bytes and bounds-checked reading, for the forms of a recording.
 *
 * Owns: the varint (7 bits a byte, least significant first, at most 10 bytes), and the rule that a
 * failure is sticky: a writer that ran out of memory, or a reader that ran past its end, stays
 * failed, and is asked once, at the end. Not thread-safe. */
#ifndef MALLOW_TRACE_BYTES_H
#define MALLOW_TRACE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

struct bytes {
    uint8_t *data;
    size_t n, cap;
    bool failed; /* memory ran out at some time: the content is incomplete */
};

/* Makes room for `extra` more bytes; returns false (and marks the buffer) without memory. */
bool bytes_reserve(struct bytes *b, size_t extra);
void bytes_free(struct bytes *b);
void bytes_put(struct bytes *b, const void *data, size_t n);
/* Puts the count of the bytes, and then the bytes. */
void bytes_put_text(struct bytes *b, const void *data, size_t n);

static inline void bytes_put_u8(struct bytes *b, uint8_t v)
{
    if (b->n == b->cap && !bytes_reserve(b, 1))
        return;
    b->data[b->n++] = v;
}

static inline void bytes_put_varint(struct bytes *b, uint64_t v)
{
    if (b->cap - b->n < 10 && !bytes_reserve(b, 10))
        return;
    uint8_t *p = b->data + b->n;
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    b->n = (size_t)(p - b->data);
}

struct span {
    const uint8_t *p, *end;
    bool bad; /* a read went past the end */
};

static inline struct span span_of(const void *data, size_t n)
{
    static const uint8_t none[1];
    const uint8_t *p = data ? (const uint8_t *)data : none;
    return (struct span){p, p + n, false};
}
static inline size_t span_left(const struct span *s) { return (size_t)(s->end - s->p); }

/* Takes n bytes; NULL if there are not n. */
static inline const uint8_t *span_take(struct span *s, uint64_t n)
{
    if (s->bad || n > span_left(s)) {
        s->bad = true;
        return NULL;
    }
    const uint8_t *p = s->p;
    s->p += n;
    return p;
}

static inline uint64_t span_number(struct span *s, unsigned n)
{
    const uint8_t *p = span_take(s, n);
    uint64_t v = 0;
    if (p)
        for (unsigned i = 0; i < n; i++)
            v |= (uint64_t)p[i] << 8 * i;
    return v;
}

static inline uint64_t span_varint(struct span *s)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (s->p >= s->end)
            break;
        uint8_t c = *s->p++;
        v |= shift < 64 ? (uint64_t)(c & 0x7f) << shift : 0;
        if (!(c & 0x80))
            return v;
    }
    s->bad = true;
    return 0;
}

/* Takes a counted text; *n is its length. NULL if it reaches past the end. */
static inline const uint8_t *span_text(struct span *s, size_t *n)
{
    uint64_t m = span_varint(s);
    const uint8_t *p = span_take(s, m);
    *n = p ? (size_t)m : 0;
    return p;
}

/* Memory that is released all at once. */
struct arena {
    struct arena_piece *pieces;
    size_t used, cap;
};
/* Allocates zeroed memory, aligned to 16. NULL without memory. */
void *arena_alloc(struct arena *a, size_t n);
/* Copies n bytes and adds a NUL. NULL without memory. */
char *arena_text(struct arena *a, const void *data, size_t n);
/* Makes a NULL-terminated list of the texts at p, each of which ends with a NUL. The last text
 * may lack its NUL if p[bytes] is one. The texts are not copied. NULL without memory. */
const char *const *arena_pieces(struct arena *a, const char *p, size_t bytes);
void arena_free(struct arena *a);

/* A map from two numbers to a small one. Entries cannot be removed. */
struct pair_map {
    struct pair_map_entry {
        uint64_t a, b;
        uint32_t value; /* + 1; 0: empty */
    } * entries;
    size_t n, cap;
};
/* Returns the place of the value of (a, b), stored plus 1. 0 there: the entry is new, and the
 * caller fills it. NULL without memory. */
uint32_t *pair_map_at(struct pair_map *m, uint64_t a, uint64_t b);
/* Returns the value of (a, b), or UINT32_MAX. */
uint32_t pair_map_get(const struct pair_map *m, uint64_t a, uint64_t b);
void pair_map_free(struct pair_map *m);

#endif
