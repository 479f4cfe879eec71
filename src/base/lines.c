#include "lines.h"

#include "buffer.h"
#include "json.h"
#include "text.h"

void lines_flush(struct lines *l)
{
    if (l->used)
        fwrite_unlocked(l->text, 1, l->used, l->out);
    l->used = 0;
}

void lines_bytes_slow(struct lines *l, const void *data, size_t n)
{
    lines_flush(l);
    if (n > sizeof l->text) {
        fwrite_unlocked(data, 1, n, l->out);
        return;
    }
    memcpy(l->text, data, n);
    l->used = n;
}

void lines_number(struct lines *l, uint64_t v, unsigned width)
{
    char text[32], *p = text + sizeof text;
    do {
        *--p = (char)('0' + v % 10);
        v /= 10;
    } while (v);
    while ((size_t)(text + sizeof text - p) < width)
        *--p = ' ';
    lines_bytes(l, p, (size_t)(text + sizeof text - p));
}

static void hex(struct lines *l, uint64_t v, const char *before, size_t before_bytes)
{
    char text[24], *p = text + sizeof text;
    do {
        *--p = "0123456789abcdef"[v & 15];
        v >>= 4;
    } while (v);
    p -= before_bytes;
    memcpy(p, before, before_bytes);
    lines_bytes(l, p, (size_t)(text + sizeof text - p));
}

void lines_hex(struct lines *l, uint64_t v) { hex(l, v, "0x", 2); }

void lines_digits(struct lines *l, uint64_t v) { hex(l, v, "", 0); }

void lines_harmless(struct lines *l, const char *s)
{
    struct text_shown c;
    while (*s) {
        s += text_shown(s, &c);
        lines_bytes(l, c.text, c.bytes);
    }
}

void lines_quoted(struct lines *l, const char *s)
{
    struct buffer b = {0};
    json_quote(&b, s ? s : "");
    lines_bytes(l, buffer_text(&b), b.size_bytes);
    buffer_release(&b);
}
