/* buffer.h - a growing run of bytes, for text that is built up in pieces.
 *
 * Owns: the memory of the bytes. Refuses: to fail in the middle. When memory runs out the buffer
 * goes into a failed state in which appending does nothing; ask buffer_failed once, at the end.
 * Not thread-safe. Tools only. */
#ifndef MALLOW_BASE_BUFFER_H
#define MALLOW_BASE_BUFFER_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buffer {
    char *data;            /* never NULL after buffer_text; a NUL stands behind size_bytes */
    size_t size_bytes;     /* the appended text, without the NUL */
    size_t capacity_bytes; /* private */
    bool failed;           /* private */
};

/* An empty buffer needs no call: `struct buffer b = {0};`. */

/* Appends `size_bytes` bytes at `data`; data may be NULL when size_bytes is 0. */
void buffer_append(struct buffer *b, const void *data, size_t size_bytes);
void buffer_append_text(struct buffer *b, const char *text);
void buffer_append_char(struct buffer *b, char c);
void buffer_printf(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buffer_vprintf(struct buffer *b, const char *format, va_list ap)
    __attribute__((format(printf, 2, 0)));

/* The place of n more bytes, to be written there, and: so many of them were. NULL without memory;
 * the buffer then has failed. */
char *buffer_room(struct buffer *b, size_t n);
static inline void buffer_extend(struct buffer *b, size_t n)
{
    b->size_bytes += n;
    b->data[b->size_bytes] = 0;
}

/* The bytes as a C string, "" for an empty or failed buffer. Valid until the next call. */
const char *buffer_text(const struct buffer *b);

/* True when an append was dropped because memory ran out. */
bool buffer_failed(const struct buffer *b);

/* Forgets the bytes and keeps the memory. A failed buffer is usable again. */
void buffer_clear(struct buffer *b);

/* Gives the memory back; the buffer is empty again and may be used. */
void buffer_release(struct buffer *b);

#endif
