/* json.h - writing JSON as it comes, however long it gets.
 *
 * Owns: commas, quoting, and that the text is valid UTF-8 whatever the names in it are, and
 * harmless on a terminal (base/text.h). Numbers are integers, or decimal fractions with a fixed
 * number of places. Refuses: trees in memory. Whether writing worked is asked of the FILE at the
 * end. */
#ifndef MALLOW_BASE_JSON_H
#define MALLOW_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "buffer.h"

struct json {
    FILE *out;
    uint64_t filled; /* a bit for each level: something stands in it already */
    uint64_t arrays; /* a bit for each level: it is an array */
    unsigned depth;
    bool one_line; /* no line ends inside */
};

/* The first keys of every document: the version of its names (json_schema.h), and of mallow. */
void json_schema(struct json *j);

/* Opens the object that is the document, and writes those keys. */
void json_begin(struct json *j);

/* key NULL: an element of an array, or the document itself. Objects in an array begin a line. */
void json_open_object(struct json *j, const char *key);
void json_close_object(struct json *j);
void json_open_array(struct json *j, const char *key);
void json_close_array(struct json *j);
void json_number(struct json *j, const char *key, uint64_t value);
void json_signed(struct json *j, const char *key, int64_t value);
void json_bool(struct json *j, const char *key, bool value);
void json_null(struct json *j, const char *key);
void json_text(struct json *j, const char *key, const char *text); /* NULL: null */
/* A list of at most `most` texts, up to NULL; texts NULL: of none. */
void json_texts(struct json *j, const char *key, const char *const *texts, size_t most);
void json_address(struct json *j, const char *key, uint64_t address);            /* "0x..." */
void json_bytes(struct json *j, const char *key, const uint8_t *data, size_t n); /* hex digits */
/* Text that is JSON already. */
void json_raw(struct json *j, const char *key, const char *text, size_t n);
/* Closes levels until `depth` are open. */
void json_close_to(struct json *j, unsigned depth);
/* The last thing: a line end. */
void json_end(struct json *j);

/* Appends `text` quoted and escaped. */
void json_quote(struct buffer *b, const char *text);

#endif
