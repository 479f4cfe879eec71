/* protobuf.h - messages of protobuf, appended field by field.
 *
 * Owns: the encoding (protobuf.dev/programming-guides/encoding). Whether memory ran out is asked of
 * the buffer at the end. Pure functions; any thread. */
#ifndef MALLOW_EXPORT_PROTOBUF_H
#define MALLOW_EXPORT_PROTOBUF_H

#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define PROTOBUF_VARINT_BYTES 10

/* How many of the bytes are used. */
size_t protobuf_encode(char bytes[PROTOBUF_VARINT_BYTES], uint64_t v);
void protobuf_varint(struct buffer *b, uint64_t v);
/* A field; nothing for 0, which readers take for it. */
void protobuf_number(struct buffer *b, unsigned field, uint64_t v);
void protobuf_fixed64(struct buffer *b, unsigned field, uint64_t v);
void protobuf_bytes(struct buffer *b, unsigned field, const void *data, size_t n);
void protobuf_text(struct buffer *b, unsigned field, const char *text);
/* A message, or packed numbers. */
void protobuf_buffer(struct buffer *b, unsigned field, const struct buffer *inner);

#endif
