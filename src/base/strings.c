/* strings.c - Numbers runs of bytes by content. The bytes lie in one buffer, and a hash index
 * finds a run that is already there. */
#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"

static uint64_t hash_bytes_of(const unsigned char *p, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xc4ceb9fe1a85ec53u;
        h ^= h >> 29;
    }
    for (; n; n--, p++)
        h = (h ^ *p) * 0x100000001b3u;
    h = (h ^ h >> 32) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

uint32_t strings_id(struct strings *s, const void *data, size_t n, bool *fresh)
{
    *fresh = false;
    const uint64_t h = hash_bytes_of(data, n);
    uint32_t i;
    for (size_t at = INDEX_START; (i = index_next(&s->index, h, &at)) != INDEX_NONE;) {
        const struct strings_entry *e = &s->entries[i];
        if (e->bytes == n && !memcmp(s->bytes.data + e->offset, data, n))
            return i + 1;
    }
    const size_t offset = s->bytes.size_bytes;
    buffer_append(&s->bytes, data, n);
    if (buffer_failed(&s->bytes) || !ARRAY_ROOM(s->entries, (size_t)s->count + 1, s->room) ||
        !index_add(&s->index, h, s->count))
        return 0;
    s->entries[s->count++] = (struct strings_entry){offset, n};
    *fresh = true;
    return s->count;
}

void strings_release(struct strings *s)
{
    buffer_release(&s->bytes);
    free(s->entries);
    index_release(&s->index);
    memset(s, 0, sizeof *s);
}
