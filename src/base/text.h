/* text.h - text that others chose, on its way to a terminal or into JSON.
 *
 * A path, a command line, a function's name or a server's answer may hold anything. Here each
 * character that could command a terminal, reorder a line or forge one is written out instead:
 * controls (C0, DEL, C1 also as U+0080..U+009F), the characters with the property Bidi_Control,
 * U+2028 and U+2029, and bytes that are not UTF-8. The replacement is ASCII: \n, \t, \xNN for a
 * byte, \uNNNN for a code point. A text that went through once goes through again unchanged.
 * Refuses: to translate; a backslash stays a backslash. Any thread. */
#ifndef MALLOW_BASE_TEXT_H
#define MALLOW_BASE_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"

struct text_shown { /* one character, harmless */
    char text[8];   /* no NUL */
    uint8_t bytes;  /* the bytes of text */
    uint8_t columns;
    bool escaped;
};

/* Length of the valid UTF-8 sequence at s (not at its NUL), 0 when there is none. */
size_t text_utf8(const char *s);

/* text, or a copy of it in `copy` in which bytes that are not UTF-8 are '?'. */
const char *text_utf8_only(struct buffer *copy, const char *text);

/* Takes the character at s (not at its NUL); returns how many bytes of s it had. */
size_t text_shown(const char *s, struct text_shown *out);

/* Columns that the text takes when it is shown; wide and combining characters count as one. */
size_t text_columns(const char *s);

void text_append(struct buffer *b, const char *s);
void text_put(FILE *out, const char *s);

/* As printf, without %n and wide characters. What the format itself holds is written as it is;
 * what %s and %c bring is made harmless, and padded by columns. Precisions of %s are bytes. */
void text_printf(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_vprintf(FILE *out, const char *format, va_list ap) __attribute__((format(printf, 2, 0)));
void text_append_printf(struct buffer *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same into `room` bytes, NUL included; cut between characters when it is longer. Returns the
 * bytes that were written, without the NUL. */
size_t text_format(char *to, size_t room, const char *format, va_list ap)
    __attribute__((format(printf, 3, 0)));

/* JSON as it was serialized: the same characters as \uNNNN, which no terminal obeys and every
 * parser undoes; invalid UTF-8 becomes U+FFFD. A line end follows. */
void text_put_json(FILE *out, const char *json);
/* One character of a JSON string, as text_shown; quotes and backslashes are escaped as well. */
size_t text_shown_json(const char *s, struct text_shown *out);

#endif
