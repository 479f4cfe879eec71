#include "report/html_pack.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define ELEMENT_BYTES 80 /* of the element around a block, about */

#define GUESSED_LEAST ((size_t)8 << 20)   /* bytes of a text: of a shorter one nothing is guessed */
#define SAMPLE_BYTES  ((size_t)128 << 10) /* in a row; several times what deflate looks back */
#define SAMPLE_EACH   8u                  /* one of so many is compressed */

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

/* The samples are one stream: each but the first finds text like its own before it. */
size_t html_block_guess(const char *text, size_t text_bytes)
{
    unsigned char out[4096];
    z_stream z = {0};
    size_t sampled = 0;
    if (text_bytes < GUESSED_LEAST || deflateInit(&z, Z_DEFAULT_COMPRESSION) != Z_OK)
        return 0;
    const size_t step = SAMPLE_EACH * SAMPLE_BYTES;
    for (size_t at = step / 2; at + SAMPLE_BYTES <= text_bytes; at += step) {
        z.next_in = (const unsigned char *)text + at;
        z.avail_in = SAMPLE_BYTES;
        sampled += SAMPLE_BYTES;
        do {
            z.next_out = out;
            z.avail_out = sizeof out;
            (void)deflate(&z, at + step + SAMPLE_BYTES > text_bytes ? Z_FINISH : Z_NO_FLUSH);
        } while (!z.avail_out);
    }
    const double share = (double)z.total_out / (double)sampled;
    (void)deflateEnd(&z);
    return packed_bytes((size_t)(share * (double)text_bytes));
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
