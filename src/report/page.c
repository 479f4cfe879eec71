#include "report/page.h"

#include <stdarg.h>
#include <string.h>

#include "analyse/pattern.h"
#include "report/json.h"

void page_heading(const struct page *p, const char *format, ...)
{
    struct buffer b = {0};
    va_list ap;
    va_start(ap, format);
    buffer_vprintf(&b, format, ap);
    va_end(ap);
    fputs(p->bold ? "\n\033[1m" : "\n", p->out);
    page_wrap(p, &b, 2);
    if (p->bold)
        fputs("\033[0m", p->out);
    buffer_release(&b);
}

size_t page_width(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

/* One character, made harmless; returns its length in bytes. */
static size_t put_character(const struct page *p, const char *s)
{
    size_t n = json_utf8(s);
    bool control = n == 0 || (n == 1 && ((unsigned char)*s < 0x20 || *s == 0x7f));
    if (control || (n > 1 && !p->unicode))
        putc('?', p->out);
    else
        fwrite(s, 1, n, p->out);
    return n ? n : 1;
}

static size_t length_of(const struct buffer *b)
{
    size_t end = b->size_bytes;
    while (end && b->data[end - 1] == ' ')
        end--;
    return end;
}

void page_line(const struct page *p, const struct buffer *b)
{
    const char *text = buffer_text(b);
    const size_t end = length_of(b);
    size_t column = 0;
    for (size_t i = 0; i < end; column++) {
        if (p->columns && column + 1 >= p->columns && page_width(text + i) > 1) {
            fputs(p->unicode ? "\u2026" : "~", p->out);
            break;
        }
        i += put_character(p, text + i);
    }
    putc('\n', p->out);
}

void page_wrap(const struct page *p, const struct buffer *b, unsigned indent)
{
    const char *text = buffer_text(b);
    const size_t end = length_of(b);
    size_t column = 0, i = 0;
    while (i < end) {
        size_t blanks = 0, word = 0, width = 0;
        while (text[i + blanks] == ' ')
            blanks++;
        for (word = blanks; i + word < end && text[i + word] != ' '; word++)
            width += ((unsigned char)text[i + word] & 0xc0) != 0x80;
        if (p->columns && column > indent && column + blanks + width > p->columns) {
            fprintf(p->out, "\n%*s", (int)indent, "");
            column = indent;
        } else {
            fprintf(p->out, "%*s", (int)blanks, "");
            column += blanks;
        }
        for (size_t k = i + blanks; k < i + word;)
            k += put_character(p, text + k);
        column += width;
        i += word;
    }
    putc('\n', p->out);
}

void page_percent(struct buffer *b, uint64_t part, uint64_t whole)
{
    if (!whole)
        buffer_append_text(b, "       ");
    else
        buffer_printf(b, "%5.1f %%", 100.0 * (double)part / (double)whole);
}

void page_right(struct buffer *b, const char *text, unsigned width)
{
    for (size_t n = page_width(text); n < width; n++)
        buffer_append_char(b, ' ');
    buffer_append_text(b, text);
}

void page_left(struct buffer *b, const char *text, unsigned width)
{
    buffer_append_text(b, text);
    for (size_t n = page_width(text); n < width; n++)
        buffer_append_char(b, ' ');
}

void page_bar(const struct page *p, struct buffer *b, uint64_t part, uint64_t whole, unsigned width)
{
    static const char *const eighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                          "\u258c", "\u258b", "\u258a", "\u2589"};
    unsigned cells8 = whole ? (unsigned)((double)part / (double)whole * width * 8 + 0.5) : 0;
    if (part && !cells8)
        cells8 = 1;
    unsigned full = cells8 / 8, drawn = full;
    for (unsigned i = 0; i < full; i++)
        buffer_append_text(b, p->unicode ? "\u2588" : "#");
    if (cells8 % 8) {
        if (p->unicode)
            buffer_append_text(b, eighths[cells8 % 8]);
        else
            buffer_append_char(b, cells8 % 8 >= 4 ? '#' : '.');
        drawn++;
    }
    for (; drawn < width; drawn++)
        buffer_append_char(b, ' ');
}

void page_spark(const struct page *p, struct buffer *b, const uint64_t *values, size_t n,
                uint64_t largest)
{
    static const char *const fine[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char coarse[] = " .:-=+*#@";
    for (size_t i = 0; i < n; i++) {
        unsigned level = largest ? (unsigned)((double)values[i] / (double)largest * 8 + 0.5) : 0;
        if (values[i] && !level)
            level = 1;
        if (p->unicode)
            buffer_append_text(b, fine[level]);
        else
            buffer_append_char(b, coarse[level]);
    }
}

/* The first `n` characters of text. */
static size_t bytes_of(const char *text, size_t n)
{
    size_t i = 0;
    while (text[i]) {
        if (((unsigned char)text[i] & 0xc0) != 0x80 && n-- == 0)
            break;
        i++;
    }
    return i;
}

void page_frame(const struct page *p, struct buffer *b, const struct name_frame *f, size_t room)
{
    struct buffer where = {0};
    const char *file = f->file ? strrchr(f->file, '/') : NULL;
    file = file && file[1] ? file + 1 : f->file;
    if (f->cut) {
        buffer_append_text(b, f->function);
        return;
    }
    if (f->inlined)
        buffer_append_text(&where, " [inlined]");
    if (file && f->line)
        buffer_printf(&where, " (%s:%u)", file, f->line);
    else if (file)
        buffer_printf(&where, " (%s)", file);
    if (!file && f->module && f->known && !f->own)
        buffer_printf(&where, " (%s)", f->module);
    size_t name = page_width(f->function), rest = page_width(buffer_text(&where));
    size_t bare = f->known ? pattern_bare_length(f->function) : 0;
    if (!room || name + rest <= room) {
        buffer_append_text(b, f->function);
    } else if (bare && f->function[bare] && bytes_of(f->function, room) >= bare + rest + 5) {
        buffer_append(b, f->function, bare); /* parameters go first */
        buffer_append_text(b, p->unicode ? "(\u2026)" : "(...)");
    } else { /* the middle of a name says least */
        size_t keep = room > rest + 24 ? room - rest : 24;
        if (keep >= name) {
            buffer_append_text(b, f->function);
        } else {
            size_t tail = (keep - 1) / 3, head = keep - 1 - tail;
            size_t skip = bytes_of(f->function, name - tail);
            buffer_append(b, f->function, bytes_of(f->function, head));
            buffer_append_text(b, p->unicode ? "\u2026" : "~");
            buffer_append_text(b, f->function + skip);
        }
    }
    buffer_append_text(b, buffer_text(&where));
    buffer_release(&where);
}
