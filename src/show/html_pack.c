/* html_pack.c - Compresses data blocks of a page and encodes them in base 64. Threads compress
 * pieces, each with the end of the previous piece as dictionary, into one stream (as pigz does).
 * The result does not depend on the number of threads. */
#include "show/html_pack.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buffer.h"
#include "base/pieces.h"

#define ELEMENT_BYTES 80 /* about the size of the element around a block */

#define PIECE_BYTES ((size_t)256 << 10) /* pieces of a text: they grow by a thousandth */
#define BACK_BYTES  ((size_t)32 << 10)  /* that deflate looks back */
#define FLUSH_BYTES 64u                 /* more than deflateBound: for the end of a piece */

size_t html_block_takes(size_t data_bytes) { return (data_bytes + 2) / 3 * 4 + ELEMENT_BYTES; }

/* ---- packing ---- */

/* A text is compressed in pieces, each with the end of the one before as its dictionary; they make
 * up one stream (as pigz does it, M. Adler). So several threads may work, and a reader sees none of
 * that. */
struct place {
    z_stream z;
    bool made, bad;
    unsigned char *out; /* [room] */
    size_t room, out_bytes;
    uLong sum; /* the sum of the text of the piece */
};

struct packing {
    const unsigned char *text;
    size_t text_bytes;
    uint64_t count; /* the count of pieces; 1 at least */
    struct place *places;
    unsigned place_count;
};

static size_t piece_bytes(const struct packing *p, uint64_t number)
{
    return number + 1 < p->count ? PIECE_BYTES : p->text_bytes - (size_t)number * PIECE_BYTES;
}

static void pack_piece(void *arg, uint64_t number, unsigned place)
{
    const struct packing *p = arg;
    struct place *const at = &p->places[place];
    const unsigned char *const from = p->text + (size_t)number * PIECE_BYTES;
    const size_t n = piece_bytes(p, number);
    const bool last = number + 1 == p->count;
    at->bad = deflateReset(&at->z) != Z_OK ||
              (number && deflateSetDictionary(&at->z, from - BACK_BYTES, BACK_BYTES) != Z_OK);
    if (at->bad)
        return;
    at->z.next_in = (unsigned char *)(uintptr_t)from; /* zlib only reads it */
    at->z.avail_in = (uInt)n;
    at->z.next_out = at->out;
    at->z.avail_out = (uInt)at->room;
    const int status = deflate(&at->z, last ? Z_FINISH : Z_SYNC_FLUSH);
    at->bad = status != (last ? Z_STREAM_END : Z_OK) || at->z.avail_in || !at->z.avail_out;
    at->out_bytes = at->room - at->z.avail_out;
    at->sum = adler32_z(adler32_z(0, NULL, 0), from, n);
}

static bool make_place(struct place *at)
{
    at->made = deflateInit2(&at->z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8,
                            Z_DEFAULT_STRATEGY) == Z_OK;
    if (!at->made)
        return false;
    at->room = deflateBound(&at->z, PIECE_BYTES) + FLUSH_BYTES;
    at->out = malloc(at->room);
    return at->out;
}

static bool make_places(struct packing *p, unsigned count)
{
    p->places = calloc(count, sizeof *p->places);
    if (!p->places)
        return false;
    while (p->place_count < count)
        if (!make_place(&p->places[p->place_count++]))
            return false;
    return true;
}

static void free_places(struct packing *p)
{
    for (unsigned i = 0; i < p->place_count; i++) {
        if (p->places[i].made)
            (void)deflateEnd(&p->places[i].z);
        free(p->places[i].out);
    }
    free(p->places);
}

/* The whole stream. False without memory. */
static bool pack_all(struct packing *p, unsigned helpers, struct buffer *out)
{
    struct pieces *pieces = pieces_open(p->place_count, helpers, p->count, pack_piece, p);
    uLong sum = adler32_z(0, NULL, 0);
    bool bad = !pieces;
    buffer_append(out, "\x78\x9c", 2); /* a window of 32 KiB, the default level */
    for (uint64_t i = 0; !bad && i < p->count; i++) {
        const struct place *const at = &p->places[pieces_next(pieces)];
        bad = at->bad;
        if (bad)
            break;
        buffer_append(out, at->out, at->out_bytes);
        sum = adler32_combine(sum, at->sum, (z_off_t)piece_bytes(p, i));
    }
    pieces_close(pieces);
    const unsigned char end[4] = {(unsigned char)(sum >> 24), (unsigned char)(sum >> 16),
                                  (unsigned char)(sum >> 8), (unsigned char)sum};
    buffer_append(out, end, sizeof end);
    return !bad && !buffer_failed(out);
}

int html_block_pack(struct html_block *block, const char *text, size_t text_bytes, unsigned helpers,
                    struct error *err)
{
    struct packing p = {.text = (const unsigned char *)text,
                        .text_bytes = text_bytes,
                        .count = text_bytes ? (text_bytes - 1) / PIECE_BYTES + 1 : 1};
    struct buffer out = {0};
    if (helpers >= p.count)
        helpers = (unsigned)p.count - 1;
    const bool packed = make_places(&p, 1 + 2 * helpers) && pack_all(&p, helpers, &out);
    free_places(&p);
    if (!packed) {
        buffer_release(&out);
        *block = (struct html_block){0};
        return error_memory_for(err, "to compress %zu bytes of the page", text_bytes);
    }
    *block = (struct html_block){(unsigned char *)out.data, out.size_bytes,
                                 html_block_takes(out.size_bytes)};
    return 0;
}

/* ---- on the page ---- */

bool html_block_copy(struct html_block *block, const void *data, size_t data_bytes)
{
    *block = (struct html_block){malloc(data_bytes + 1), data_bytes, html_block_takes(data_bytes)};
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
