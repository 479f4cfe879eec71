/* lines.h - text that comes in millions of lines: a buffer before a FILE, numbers without printf.
 *
 * Owns: the bytes not yet given to the FILE. Whether writing worked is asked of the FILE. */
#ifndef MALLOW_BASE_LINES_H
#define MALLOW_BASE_LINES_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct lines {
    FILE *out;
    size_t used;
    char text[1 << 16];
};

/* Gives what there is to the FILE. */
void lines_flush(struct lines *l);
void lines_bytes_slow(struct lines *l, const void *data, size_t n);
/* Right-aligned in `width` characters at least. */
void lines_number(struct lines *l, uint64_t v, unsigned width);
/* "0x1f". */
void lines_hex(struct lines *l, uint64_t v);
/* "1f". */
void lines_digits(struct lines *l, uint64_t v);
/* Text that others chose, harmless (base/text.h). */
void lines_harmless(struct lines *l, const char *s);
/* A JSON string, or "" for NULL. */
void lines_quoted(struct lines *l, const char *s);

static inline void lines_bytes(struct lines *l, const void *data, size_t n)
{
    if (n > sizeof l->text - l->used) {
        lines_bytes_slow(l, data, n);
        return;
    }
    memcpy(l->text + l->used, data, n);
    l->used += n;
}

static inline void lines_put(struct lines *l, const char *s) { lines_bytes(l, s, strlen(s)); }
static inline void lines_char(struct lines *l, char c) { lines_bytes(l, &c, 1); }

#endif
