/* protobuf.c - Encodes fields of protobuf messages: variable-length numbers, fixed 64-bit
 * numbers, bytes, and nested messages. A failed inner buffer fails the outer one. */
#include "export/protobuf.h"

#include <string.h>

enum { VARINT = 0, FIXED64 = 1, LENGTH = 2 }; /* how a field is written */

size_t protobuf_encode(char bytes[PROTOBUF_VARINT_BYTES], uint64_t v)
{
    size_t n = 0;
    do {
        bytes[n++] = (char)((v & 127) | (v > 127 ? 128 : 0));
        v >>= 7;
    } while (v);
    return n;
}

void protobuf_varint(struct buffer *b, uint64_t v)
{
    char bytes[PROTOBUF_VARINT_BYTES];
    buffer_append(b, bytes, protobuf_encode(bytes, v));
}

void protobuf_number(struct buffer *b, unsigned field, uint64_t v)
{
    if (!v)
        return;
    protobuf_varint(b, (uint64_t)field << 3 | VARINT);
    protobuf_varint(b, v);
}

void protobuf_fixed64(struct buffer *b, unsigned field, uint64_t v)
{
    char bytes[8];
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(v >> (8 * i) & 255);
    protobuf_varint(b, (uint64_t)field << 3 | FIXED64);
    buffer_append(b, bytes, sizeof bytes);
}

void protobuf_bytes(struct buffer *b, unsigned field, const void *data, size_t n)
{
    protobuf_varint(b, (uint64_t)field << 3 | LENGTH);
    protobuf_varint(b, n);
    buffer_append(b, data, n);
}

void protobuf_text(struct buffer *b, unsigned field, const char *text)
{
    protobuf_bytes(b, field, text, strlen(text));
}

void protobuf_buffer(struct buffer *b, unsigned field, const struct buffer *inner)
{
    protobuf_bytes(b, field, inner->data, inner->size_bytes);
    b->failed |= buffer_failed(inner);
}
