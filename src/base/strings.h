/* strings.h - runs of bytes, each kept once and numbered. Tools only; not thread-safe. */
#ifndef MALLOW_BASE_STRINGS_H
#define MALLOW_BASE_STRINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/index.h"

struct strings_entry {
    size_t offset, bytes;
};

struct strings { /* all zero: empty */
    struct buffer bytes;
    struct strings_entry *entries;
    uint32_t count;
    size_t room;
    struct index index; /* places of entries */
};

/* The number, from 1, of these bytes; *fresh when they are new. 0 when memory ran out. */
uint32_t strings_id(struct strings *s, const void *data, size_t n, bool *fresh);
void strings_release(struct strings *s);

#endif
