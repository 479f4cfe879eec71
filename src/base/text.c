/* text.c - Replaces harmful characters in text, and formats like printf with every string
 * argument replaced. The program's own format strings pass unchanged. A conversion that the
 * formatter does not know aborts, because only a mistake in our own source can cause it. */
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- one character ---- */

/* As text_utf8, of at most `most` bytes; *code is the code point. */
static size_t utf8(const char *text, size_t most, uint32_t *code)
{
    const uint8_t *s = (const uint8_t *)text;
    size_t n = s[0] < 0x80                   ? 1
               : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
               : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
                                             : 0;
    if (n > most)
        return 0;
    *code = n == 1 ? s[0] : s[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        *code = *code << 6 | (s[i] & 0x3f);
    }
    if ((n == 3 && (*code < 0x800 || (*code >= 0xd800 && *code < 0xe000))) ||
        (n == 4 && (*code < 0x10000 || *code > 0x10ffff)))
        return 0;
    return n;
}

size_t text_utf8(const char *s)
{
    uint32_t code;
    return utf8(s, SIZE_MAX, &code);
}

/* True if a terminal or a reader could be led by it. */
static bool is_harmful(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0x0000, 0x001f}, {0x007f, 0x009f}, {0x061c, 0x061c},
                  {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

static void write_escape(struct text_shown *out, const char *format, uint32_t code)
{
    char text[16];
    const int n = snprintf(text, sizeof text, format, (unsigned)code);
    memcpy(out->text, text, (size_t)n);
    out->bytes = out->columns = (uint8_t)n;
    out->escaped = true;
}

static size_t text_show_bytes(const char *s, size_t most, struct text_shown *out)
{
    uint32_t code;
    const size_t n = utf8(s, most, &code);
    out->escaped = false;
    if (n && !is_harmful(code)) {
        memcpy(out->text, s, n);
        out->bytes = (uint8_t)n;
        out->columns = 1;
    } else if (*s == '\n' || *s == '\t') {
        write_escape(out, *s == '\n' ? "\\n" : "\\t", 0);
    } else if (n <= 1) {
        write_escape(out, "\\x%02x", (unsigned char)*s);
    } else {
        write_escape(out, "\\u%04x", code);
    }
    return n ? n : 1;
}

const char *text_utf8_only(struct buffer *copy, const char *text)
{
    const char *s = text;
    size_t n;
    while (*s && (n = text_utf8(s)))
        s += n;
    if (!*s)
        return text;
    buffer_clear(copy);
    for (s = text; *s; s += n ? n : 1) {
        n = text_utf8(s);
        buffer_append(copy, n ? s : "?", n ? n : 1);
    }
    return buffer_text(copy);
}

size_t text_shown(const char *s, struct text_shown *out)
{
    return text_show_bytes(s, SIZE_MAX, out);
}

static size_t shown_json(const char *s, bool quoted, struct text_shown *out)
{
    uint32_t code;
    const size_t n = utf8(s, SIZE_MAX, &code);
    out->escaped = true;
    if (!n)
        memcpy(out->text, "\xef\xbf\xbd", out->bytes = 3);
    else if (quoted && (*s == '"' || *s == '\\'))
        write_escape(out, *s == '"' ? "\\\"" : "\\\\", 0);
    else if (quoted && (*s == '\n' || *s == '\t'))
        write_escape(out, *s == '\n' ? "\\n" : "\\t", 0);
    else if (is_harmful(code) && (quoted || *s != '\n'))
        write_escape(out, "\\u%04x", code);
    else {
        memcpy(out->text, s, out->bytes = (uint8_t)n);
        out->escaped = false;
    }
    return n ? n : 1;
}

size_t text_shown_json(const char *s, struct text_shown *out) { return shown_json(s, true, out); }

size_t text_columns(const char *s)
{
    struct text_shown c;
    size_t n = 0;
    while (*s) {
        s += text_shown(s, &c);
        n += c.columns;
    }
    return n;
}

/* ---- where it goes ---- */

struct sink { /* one of the three */
    FILE *file;
    struct buffer *buffer;
    char *at; /* with room for a NUL after the rest */
    size_t left;
    bool full;
};

static void sink_put(struct sink *to, const char *s, size_t n)
{
    if (to->file)
        fwrite_unlocked(s, 1, n, to->file);
    else if (to->buffer)
        buffer_append(to->buffer, s, n);
    else if (n > to->left || to->full) {
        to->full = true;
    } else {
        memcpy(to->at, s, n);
        to->at += n;
        to->left -= n;
    }
}

/* Writes the program's own text, which is ASCII or whole characters. */
static void put_own(struct sink *to, const char *s, size_t n)
{
    for (size_t i = 0; i < n && !to->file && !to->buffer;) {
        uint32_t code;
        size_t one = utf8(s + i, n - i, &code);
        one = one ? one : 1;
        sink_put(to, s + i, one);
        i += one;
    }
    if (to->file || to->buffer)
        sink_put(to, s, n);
}

static void sink_put_text(struct sink *to, const char *s, size_t n)
{
    struct text_shown c;
    for (size_t i = 0; i < n; sink_put(to, c.text, c.bytes))
        i += text_show_bytes(s + i, n - i, &c);
}

void text_append(struct buffer *b, const char *s)
{
    struct sink to = {.buffer = b};
    sink_put_text(&to, s, strlen(s));
}

void text_put(FILE *out, const char *s)
{
    struct sink to = {.file = out};
    sink_put_text(&to, s, strlen(s));
}

void text_put_json(FILE *out, const char *json)
{
    struct text_shown c;
    while (*json) {
        json += shown_json(json, false, &c);
        fwrite_unlocked(c.text, 1, c.bytes, out);
    }
    putc('\n', out);
}

/* ---- printf ---- */

struct arguments {
    va_list list;
};

struct conversion {
    char spec[24]; /* '%', flags, length and letter; width and precision go by '*' */
    bool left;
    int width, precision; /* precision -1: none */
    char length;          /* 'l', 'L' for ll, 'z', 'j', 't', or 0 */
    char letter;
};

static int take_format_number(const char **at, struct arguments *a)
{
    if (**at == '*') {
        ++*at;
        return va_arg(a->list, int);
    }
    char *end;
    const long v = strtol(*at, &end, 10);
    *at = end;
    return v > 4096 ? 4096 : (int)v;
}

/* Takes what stands after a '%'; returns what follows it. */
static const char *take_conversion(const char *at, struct arguments *a, struct conversion *c)
{
    char *to = c->spec;
    *c = (struct conversion){.precision = -1};
    *to++ = '%';
    for (; *at && strchr("-+ #0", *at); at++) {
        c->left |= *at == '-';
        if (to < c->spec + 8)
            *to++ = *at;
    }
    if (*at == '*' || (*at >= '0' && *at <= '9'))
        c->width = take_format_number(&at, a);
    if (c->width < 0) {
        c->left = true;
        *to++ = '-';
        c->width = -c->width;
    }
    if (*at == '.') {
        at++;
        c->precision = take_format_number(&at, a);
    }
    memcpy(to, "*.*", 3);
    to += 3;
    for (; *at && strchr("hlzjt", *at); at++) {
        c->length = c->length == 'l' ? 'L' : *at;
        *to++ = *at;
    }
    *to++ = c->letter = *at;
    return *at ? at + 1 : at;
}

static void pad(struct sink *to, int n)
{
    while (n-- > 0)
        sink_put(to, " ", 1);
}

static void put_string(struct sink *to, const struct conversion *c, const char *s, size_t bytes)
{
    struct text_shown one;
    size_t columns = 0;
    for (size_t i = 0; i < bytes; columns += one.columns)
        i += text_show_bytes(s + i, bytes - i, &one);
    const int blanks = columns < (size_t)c->width ? c->width - (int)columns : 0;
    if (!c->left)
        pad(to, blanks);
    sink_put_text(to, s, bytes);
    if (c->left)
        pad(to, blanks);
}

/* A number: the C library knows how, and its text is ASCII. */
static void sink_put_number(struct sink *to, const struct conversion *c, struct arguments *a)
{
    char text[512];
    int n;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#define WRITE(type)                                                                                \
    n = snprintf(text, sizeof text, c->spec, c->width, c->precision, va_arg(a->list, type))
    if (strchr("eEfFgGaA", c->letter))
        WRITE(double);
    else if (c->letter == 'p')
        WRITE(void *);
    else if (c->length == 'L' || c->length == 'j')
        WRITE(long long);
    else if (c->length == 'l' || c->length == 'z' || c->length == 't')
        WRITE(long);
    else
        WRITE(int);
#undef WRITE
#pragma GCC diagnostic pop
    if (n > 0)
        sink_put(to, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

/* For a precision: a character that it cuts is left out. */
static size_t precise_length(const char *s, int precision)
{
    if (precision < 0)
        return strlen(s);
    const size_t n = strnlen(s, (size_t)precision);
    uint32_t code;
    for (size_t back = 1; n == (size_t)precision && back < 4 && back <= n; back++) {
        const unsigned char c = (unsigned char)s[n - back];
        if (c >= 0xc0) {
            const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
            return whole > back && !utf8(s + n - back, back, &code) ? n - back : n;
        }
        if (c < 0x80)
            break;
    }
    return n;
}

static void sink_convert(struct sink *to, const struct conversion *c, struct arguments *a)
{
    if (c->letter == 's' && !c->length) {
        const char *s = va_arg(a->list, const char *);
        s = s ? s : "(null)";
        put_string(to, c, s, precise_length(s, c->precision));
    } else if (c->letter == 'c') {
        const char one = (char)va_arg(a->list, int);
        put_string(to, c, &one, 1);
    } else if (c->letter == '%') {
        sink_put(to, "%", 1);
    } else if (c->letter && strchr("diouxXeEfFgGaAp", c->letter)) {
        sink_put_number(to, c, a);
    } else {
        abort(); /* a format of ours that this does not know */
    }
}

static void format_into(struct sink *to, const char *format, va_list ap)
{
    struct arguments a;
    va_copy(a.list, ap);
    while (*format) {
        const size_t plain = strcspn(format, "%");
        put_own(to, format, plain);
        format += plain;
        if (*format) {
            struct conversion c;
            format = take_conversion(format + 1, &a, &c);
            sink_convert(to, &c, &a);
        }
    }
    va_end(a.list);
}

void text_vprintf(FILE *out, const char *format, va_list ap)
{
    struct sink to = {.file = out};
    format_into(&to, format, ap);
}

void text_printf(FILE *out, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    text_vprintf(out, format, ap);
    va_end(ap);
}

void text_append_printf(struct buffer *b, const char *format, ...)
{
    struct sink to = {.buffer = b};
    va_list ap;
    va_start(ap, format);
    format_into(&to, format, ap);
    va_end(ap);
}

size_t text_format(char *text, size_t room, const char *format, va_list ap)
{
    if (!room)
        return 0;
    struct sink to = {.at = text, .left = room - 1};
    format_into(&to, format, ap);
    *to.at = 0;
    return (size_t)(to.at - text);
}
