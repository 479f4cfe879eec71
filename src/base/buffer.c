/* buffer.c - Appends bytes and formatted text to a growing buffer. Each append reserves one byte
 * more, so that the text always ends in a NUL. An allocation that fails marks the buffer, and
 * all later appends do nothing. */
#include "base/buffer.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Makes room for `more` bytes and a NUL. Returns false, and fails the buffer, when it cannot. */
static bool buffer_make_room(struct buffer *b, size_t more)
{
    if (b->failed)
        return false;
    if (more > SIZE_MAX / 4 || b->size_bytes > SIZE_MAX / 4) {
        b->failed = true;
        return false;
    }
    size_t need = b->size_bytes + more + 1;
    if (need <= b->capacity_bytes)
        return true;
    size_t capacity = b->capacity_bytes ? b->capacity_bytes : 64;
    while (capacity < need)
        capacity *= 2;
    char *data = realloc(b->data, capacity);
    if (!data) {
        b->failed = true;
        return false;
    }
    b->data = data;
    b->capacity_bytes = capacity;
    return true;
}

void buffer_append(struct buffer *b, const void *data, size_t size_bytes)
{
    if (!buffer_make_room(b, size_bytes))
        return;
    if (size_bytes)
        memcpy(b->data + b->size_bytes, data, size_bytes);
    b->size_bytes += size_bytes;
    b->data[b->size_bytes] = 0;
}

char *buffer_room(struct buffer *b, size_t n)
{
    return buffer_make_room(b, n) ? b->data + b->size_bytes : NULL;
}

void buffer_append_text(struct buffer *b, const char *text)
{
    buffer_append(b, text, strlen(text));
}

void buffer_append_char(struct buffer *b, char c) { buffer_append(b, &c, 1); }

void buffer_vprintf(struct buffer *b, const char *format, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, format, ap);
    if (n < 0)
        b->failed = true;
    else if (buffer_make_room(b, (size_t)n)) {
        vsnprintf(b->data + b->size_bytes, (size_t)n + 1, format, again);
        b->size_bytes += (size_t)n;
    }
    va_end(again);
}

void buffer_printf(struct buffer *b, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    buffer_vprintf(b, format, ap);
    va_end(ap);
}

const char *buffer_text(const struct buffer *b) { return b->data && !b->failed ? b->data : ""; }

bool buffer_failed(const struct buffer *b) { return b->failed; }

void buffer_clear(struct buffer *b)
{
    b->size_bytes = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = 0;
}

void buffer_release(struct buffer *b)
{
    free(b->data);
    *b = (struct buffer){0};
}
