#include "report/html_pack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define ELEMENT_BYTES 80 /* of the element around a block, about */

static size_t packed_bytes(size_t data_bytes) { return (data_bytes + 2) / 3 * 4 + ELEMENT_BYTES; }

int html_block_pack(struct html_block *block, const char *text, size_t text_bytes,
                    struct error *err)
{
    uLongf room = compressBound(text_bytes);
    *block = (struct html_block){malloc(room), 0, 0};
    if (!block->data || compress2(block->data, &room, (const unsigned char *)text, text_bytes,
                                  Z_DEFAULT_COMPRESSION) != Z_OK) {
        html_block_release(block);
        return error_memory_for(err, "to compress %zu bytes of the page", text_bytes);
    }
    block->data_bytes = room;
    block->page_bytes = packed_bytes(block->data_bytes);
    return 0;
}

bool html_block_copy(struct html_block *block, const void *data, size_t data_bytes)
{
    *block = (struct html_block){malloc(data_bytes + 1), data_bytes, packed_bytes(data_bytes)};
    if (!block->data)
        return false;
    memcpy(block->data, data, data_bytes);
    return true;
}

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void html_block_write(FILE *out, const char *id, const struct html_block *block)
{
    const unsigned char *d = block->data;
    size_t n = block->data_bytes;
    fprintf(out, "<script type=\"application/octet-stream\" id=\"%s\">", id);
    for (size_t i = 0; i < n; i += 3) {
        unsigned v = (unsigned)d[i] << 16 | (i + 1 < n ? (unsigned)d[i + 1] << 8 : 0) |
                     (i + 2 < n ? (unsigned)d[i + 2] : 0);
        char four[4] = {letters[v >> 18], letters[v >> 12 & 63],
                        i + 1 < n ? letters[v >> 6 & 63] : '=', i + 2 < n ? letters[v & 63] : '='};
        fwrite_unlocked(four, 1, sizeof four, out);
    }
    fputs("</script>\n", out);
}

void html_block_release(struct html_block *block)
{
    free(block->data);
    *block = (struct html_block){NULL, 0, 0};
}

void html_text(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '&': fputs("&amp;", out); break;
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '"': fputs("&quot;", out); break;
        default: putc_unlocked(*text, out); break;
        }
}
