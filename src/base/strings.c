#include "base/strings.h"

#include <stdlib.h>
#include <string.h>

static uint64_t hash(const unsigned char *p, size_t n)
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

static size_t place(const struct strings *s, const void *data, size_t n)
{
    size_t k = hash(data, n) & (s->slot_room - 1);
    for (; s->slots[k]; k = (k + 1) & (s->slot_room - 1)) {
        const struct strings_entry *e = &s->entries[s->slots[k] - 1];
        if (e->bytes == n && !memcmp(s->bytes.data + e->offset, data, n))
            break;
    }
    return k;
}

static bool grow(struct strings *s)
{
    if (s->count >= s->room) {
        size_t room = s->room ? s->room * 2 : 256;
        struct strings_entry *more = realloc(s->entries, room * sizeof *more);
        if (!more)
            return false;
        s->entries = more;
        s->room = room;
    }
    if (2 * (size_t)s->count + 2 > s->slot_room) {
        size_t room = s->slot_room ? s->slot_room * 2 : 1024;
        uint32_t *slots = calloc(room, sizeof *slots);
        if (!slots)
            return false;
        free(s->slots);
        s->slots = slots;
        s->slot_room = room;
        for (uint32_t i = 0; i < s->count; i++) {
            const struct strings_entry *e = &s->entries[i];
            slots[place(s, s->bytes.data + e->offset, e->bytes)] = i + 1;
        }
    }
    return true;
}

uint32_t strings_id(struct strings *s, const void *data, size_t n, bool *fresh)
{
    *fresh = false;
    if (!grow(s))
        return 0;
    size_t k = place(s, data, n);
    if (s->slots[k])
        return s->slots[k];
    size_t offset = s->bytes.size_bytes;
    buffer_append(&s->bytes, data, n);
    if (buffer_failed(&s->bytes))
        return 0;
    s->entries[s->count++] = (struct strings_entry){offset, n};
    *fresh = true;
    return s->slots[k] = s->count;
}

void strings_release(struct strings *s)
{
    buffer_release(&s->bytes);
    free(s->entries);
    free(s->slots);
    memset(s, 0, sizeof *s);
}
