/* lines.h - text that comes in millions of lines: a buffer before a FILE, numbers without printf.
 *
 * Owns: the bytes not yet given to the FILE, and a thread that gives them while the caller makes
 * more, where that is allowed. The FILE is not to be touched between lines_open and lines_close.
 * One thread, the caller's. */
#ifndef MALLOW_BASE_LINES_H
#define MALLOW_BASE_LINES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LINES_BYTES (1u << 17)
#define LINES_PARTS 4u

struct drain;

struct lines {
    char *text; /* [LINES_BYTES] */
    size_t used;
    /* private */
    FILE *out;
    char *parts[LINES_PARTS]; /* text is one of them */
    size_t part_bytes[LINES_PARTS];
    unsigned part;
    bool beside; /* a thread may write */
    struct drain *drain;
    _Atomic int cause; /* errno of the first write that failed; 0: none did */
};

/* `threads`: how many the command may use. Two read, so a third one writes. 0: a thread writes
 * where there are several processors. -1 when memory runs out. */
int lines_open(struct lines *l, FILE *out, unsigned threads);
/* True if a write failed; errno then is why. The answer is final only after lines_close. */
bool lines_failed(const struct lines *l);
/* Gives all text to the FILE. Does nothing to lines that are zero or closed. */
void lines_close(struct lines *l);

/* Gives all text so far to the FILE, or to the thread that does. */
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
    if (n > LINES_BYTES - l->used) {
        lines_bytes_slow(l, data, n);
        return;
    }
    memcpy(l->text + l->used, data, n);
    l->used += n;
}

/* At least n bytes of room for text that is made in place, n at most LINES_BYTES; and: the text
 * goes up to `end`. */
static inline char *lines_room(struct lines *l, size_t n)
{
    if (__builtin_expect(n > LINES_BYTES - l->used, 0))
        lines_flush(l);
    return l->text + l->used;
}
static inline void lines_end(struct lines *l, const char *end)
{
    l->used = (size_t)(end - l->text);
}

static inline void lines_put(struct lines *l, const char *s) { lines_bytes(l, s, strlen(s)); }
static inline void lines_char(struct lines *l, char c) { lines_bytes(l, &c, 1); }

#endif
