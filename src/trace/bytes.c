/* bytes.c - Implements growing byte buffers, an arena, and a hash map from pairs of numbers to a
 * number. A failed allocation marks a buffer, and the caller asks once at the end. */
#include "bytes.h"

#include "base/large.h"

bool bytes_reserve(struct bytes *b, size_t extra)
{
    if (b->failed)
        return false;
    if (b->cap - b->n >= extra)
        return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->n < extra) {
        if (cap > SIZE_MAX / 2) {
            b->failed = true;
            return false;
        }
        cap *= 2;
    }
    uint8_t *p = realloc(b->data, cap);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void bytes_free(struct bytes *b)
{
    free(b->data);
    memset(b, 0, sizeof *b);
}

void bytes_put(struct bytes *b, const void *data, size_t n)
{
    if (!n || !bytes_reserve(b, n))
        return;
    memcpy(b->data + b->n, data, n);
    b->n += n;
}

void bytes_put_text(struct bytes *b, const void *data, size_t n)
{
    bytes_put_varint(b, n);
    bytes_put(b, data, n);
}

struct arena_piece {
    struct arena_piece *next;
    size_t pad;
    uint8_t data[];
};

void *arena_alloc(struct arena *a, size_t n)
{
    if (n > SIZE_MAX / 2)
        return NULL;
    n = (n + 15) & ~(size_t)15;
    if (!a->pieces || a->cap - a->used < n) {
        size_t cap = n > 65536 ? n : 65536;
        struct arena_piece *p = large_zeroed(sizeof *p + cap);
        if (!p)
            return NULL;
        p->next = a->pieces;
        a->pieces = p;
        a->used = 0;
        a->cap = cap;
    }
    void *r = a->pieces->data + a->used;
    a->used += n;
    return r;
}

char *arena_text(struct arena *a, const void *data, size_t n)
{
    char *p = arena_alloc(a, n + 1);
    if (p && n)
        memcpy(p, data, n);
    return p;
}

const char *const *arena_pieces(struct arena *a, const char *p, size_t bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < bytes; n++)
        i += strnlen(p + i, bytes - i) + 1;
    const char **t = arena_alloc(a, (n + 1) * sizeof *t);
    size_t k = 0;
    for (size_t i = 0; t && i < bytes; k++) {
        t[k] = p + i; /* the arena's copy ends with a NUL of its own */
        i += strnlen(p + i, bytes - i) + 1;
    }
    return t;
}

void arena_free(struct arena *a)
{
    for (struct arena_piece *p = a->pieces, *next; p; p = next) {
        next = p->next;
        free(p);
    }
    memset(a, 0, sizeof *a);
}

static size_t pair_hash(uint64_t a, uint64_t b)
{
    uint64_t h = (a ^ b * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    return (size_t)(h ^ h >> 32);
}

uint32_t *pair_map_at(struct pair_map *m, uint64_t a, uint64_t b)
{
    if (m->n * 2 >= m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 64;
        struct pair_map_entry *e = calloc(cap, sizeof *e);
        if (!e)
            return NULL;
        for (size_t i = 0; i < m->cap; i++)
            if (m->entries[i].value) {
                size_t h = pair_hash(m->entries[i].a, m->entries[i].b) & (cap - 1);
                while (e[h].value)
                    h = (h + 1) & (cap - 1);
                e[h] = m->entries[i];
            }
        free(m->entries);
        m->entries = e;
        m->cap = cap;
    }
    size_t h = pair_hash(a, b) & (m->cap - 1);
    while (m->entries[h].value) {
        if (m->entries[h].a == a && m->entries[h].b == b)
            return &m->entries[h].value;
        h = (h + 1) & (m->cap - 1);
    }
    m->entries[h].a = a;
    m->entries[h].b = b;
    m->n++;
    return &m->entries[h].value;
}

uint32_t pair_map_get(const struct pair_map *m, uint64_t a, uint64_t b)
{
    if (!m->cap)
        return UINT32_MAX;
    size_t h = pair_hash(a, b) & (m->cap - 1);
    while (m->entries[h].value) {
        if (m->entries[h].a == a && m->entries[h].b == b)
            return m->entries[h].value - 1;
        h = (h + 1) & (m->cap - 1);
    }
    return UINT32_MAX;
}

void pair_map_free(struct pair_map *m)
{
    free(m->entries);
    memset(m, 0, sizeof *m);
}
