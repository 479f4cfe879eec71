/* layout.c - Formats lines of a text report: columns, percentages, bars, small plots, and frames
 * cut to the width of the terminal. Widths count characters as they are shown, after harmful
 * ones have been replaced. */
#include "show/layout.h"

#include <stdarg.h>
#include <string.h>

#include "base/text.h"
#include "symbol/spelling.h"

void page_heading(const struct page *p, const char *format, ...)
{
    struct buffer b = {0};
    va_list ap;
    va_start(ap, format);
    buffer_vprintf(&b, format, ap);
    va_end(ap);
    fputs(p->bold ? "\n" PAGE_BOLD : "\n", p->out);
    page_wrap(p, &b, 2);
    if (p->bold)
        fputs(PAGE_PLAIN, p->out);
    buffer_release(&b);
}

/* The replacement of one character. */
static size_t take_character(const struct page *p, const char *s, struct text_shown *c)
{
    const size_t n = text_shown(s, c);
    if (c->bytes > 1 && !c->escaped && !p->unicode) {
        c->text[0] = '?';
        c->bytes = 1;
    }
    return n;
}

static size_t put_character(const struct page *p, const char *s, size_t *column)
{
    struct text_shown c;
    const size_t n = take_character(p, s, &c);
    fwrite(c.text, 1, c.bytes, p->out);
    *column += c.columns;
    return n;
}

static size_t length_of(const struct buffer *b)
{
    size_t end = b->size_bytes;
    while (end && b->data[end - 1] == ' ')
        end--;
    return end;
}

void page_printed(const struct page *p, const char *text, size_t bytes)
{
    fwrite(text, 1, bytes, p->out);
}

void page_line(const struct page *p, struct buffer *b)
{
    const char *text = buffer_text(b);
    const size_t end = length_of(b);
    size_t column = 0;
    for (size_t i = 0; i < end;) {
        struct text_shown c;
        const size_t n = take_character(p, text + i, &c);
        if (p->columns && column + c.columns >= p->columns &&
            column + text_columns(text + i) > p->columns) {
            fputs(p->unicode ? "\u2026" : "~", p->out);
            break;
        }
        fwrite(c.text, 1, c.bytes, p->out);
        column += c.columns;
        i += n;
    }
    putc('\n', p->out);
    buffer_release(b);
}

void page_wrap(const struct page *p, struct buffer *b, unsigned indent)
{
    const char *text = buffer_text(b);
    const size_t end = length_of(b);
    size_t column = 0, i = 0;
    while (i < end) {
        size_t blanks = 0, word = 0, width = 0;
        while (text[i + blanks] == ' ')
            blanks++;
        for (word = blanks; i + word < end && text[i + word] != ' ';) {
            struct text_shown c;
            word += take_character(p, text + i + word, &c);
            width += c.columns;
        }
        if (p->columns && column > indent && column + blanks + width > p->columns) {
            text_printf(p->out, "\n%*s", (int)indent, "");
            column = indent;
        } else {
            text_printf(p->out, "%*s", (int)blanks, "");
            column += blanks;
        }
        for (size_t k = i + blanks; k < i + word;)
            k += put_character(p, text + k, &column);
        i += word;
    }
    putc('\n', p->out);
    buffer_release(b);
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
    for (size_t n = text_columns(text); n < width; n++)
        buffer_append_char(b, ' ');
    buffer_append_text(b, text);
}

void page_left(struct buffer *b, const char *text, unsigned width)
{
    buffer_append_text(b, text);
    for (size_t n = text_columns(text); n < width; n++)
        buffer_append_char(b, ' ');
}

void page_bar(const struct page *p, struct buffer *b, uint64_t part, uint64_t whole, unsigned width)
{
    static const char *const eighths[] = {"",       "\u258f", "\u258e", "\u258d",
                                          "\u258c", "\u258b", "\u258a", "\u2589"};
    if (p->numbers)
        return;
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

/* A cell that is filled from below to `level` eighths. */
static void put_level(const struct page *p, struct buffer *b, unsigned level)
{
    static const char *const fine[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                       "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char coarse[] = " .:-=+*#@";
    if (p->unicode)
        buffer_append_text(b, fine[level]);
    else
        buffer_append_char(b, coarse[level]);
}

void page_spark(const struct page *p, struct buffer *b, const uint64_t *values, size_t n,
                uint64_t largest)
{
    for (size_t i = 0; i < n; i++) {
        unsigned level = largest ? (unsigned)((double)values[i] / (double)largest * 8 + 0.5) : 0;
        if (values[i] && !level)
            level = 1;
        put_level(p, b, level);
    }
}

/* A piece of a line at one of four heights of a cell, the lowest first. */
static void put_plot_line(const struct page *p, struct buffer *b, unsigned height)
{
    static const char *const dots[] = {"\u28c0", "\u2824", "\u2812", "\u2809"};
    static const char marks[] = "_--\"";
    if (p->unicode)
        buffer_append_text(b, dots[height]);
    else
        buffer_append_char(b, marks[height]);
}

/* The cell of a plot in a row (0: the lowest) of `rows`. */
static void put_cell(const struct page *p, struct buffer *b, const struct page_plot *plot, size_t i,
                     unsigned row, uint64_t most)
{
    const double unit = (double)plot->rows / (double)most;
    const double area = (double)plot->area[i] * unit - row;
    const bool has_line = plot->line && plot->line[i] != PAGE_NO_VALUE;
    const double line = has_line ? (double)plot->line[i] * unit - row : -1;
    unsigned level = area <= 0 ? 0 : area >= 1 ? 8 : (unsigned)(area * 8 + 0.5);
    if (!level && row == 0 && plot->area[i])
        level = 1;
    /* at the very top the line is in the last row; where both end in a cell, the area is shown */
    const bool here =
        has_line && line >= 0 && (line < 1 || (line < 1.001 && row + 1 == plot->rows));
    if (here && (level == 0 || level == 8))
        put_plot_line(p, b, line * 4 >= 3 ? 3 : (unsigned)(line * 4));
    else
        put_level(p, b, level);
}

enum { PLOT_LABEL = 11 };

void page_plot(const struct page *p, const struct page_plot *plot)
{
    struct buffer b = {0};
    char text[HUMAN_TEXT_BYTES];
    uint64_t most = 1;
    for (size_t i = 0; i < plot->n; i++) {
        most = plot->area[i] > most ? plot->area[i] : most;
        if (plot->line && plot->line[i] != PAGE_NO_VALUE && plot->line[i] > most)
            most = plot->line[i];
    }
    for (unsigned row = plot->rows; row-- > 0;) {
        const bool top = row + 1 == plot->rows, middle = row + 1 == plot->rows / 2;
        buffer_clear(&b);
        page_right(&b,
                   top      ? human_size(text, most)
                   : middle ? human_size(text, most / 2)
                            : "",
                   PLOT_LABEL);
        buffer_append_text(&b, p->unicode ? top || middle ? " \u2524" : " \u2502" : " |");
        for (size_t i = 0; i < plot->n; i++)
            put_cell(p, &b, plot, i, row, most);
        page_line(p, &b);
    }
    buffer_clear(&b);
    page_right(&b, "0", PLOT_LABEL);
    buffer_append_text(&b, p->unicode ? " \u2514" : " +");
    for (size_t i = 0; i < plot->n; i++)
        buffer_append_text(&b, p->unicode ? "\u2500" : "-");
    page_line(p, &b);
    buffer_clear(&b);
    page_right(&b, "", PLOT_LABEL + 2);
    page_left(&b, plot->first, (unsigned)((plot->n - text_columns(plot->middle)) / 2));
    page_left(&b, plot->middle, 0);
    page_right(&b, plot->last,
               (unsigned)(PLOT_LABEL + 2 + plot->n - text_columns(buffer_text(&b))));
    page_line(p, &b);
    buffer_release(&b);
}

/* Where a frame is, with its file as `file`. */
static void append_where(struct buffer *b, const struct name_frame *f, const char *file)
{
    if (f->inlined)
        buffer_append_text(b, " [inlined]");
    if (file && f->line)
        buffer_printf(b, " (%s:%u)", file, f->line);
    else if (file)
        buffer_printf(b, " (%s)", file);
    if (!file && f->module && f->known && !f->own)
        buffer_printf(b, " (%s)", f->module);
}

void page_frame(const struct page *p, struct buffer *b, const struct name_frame *f, size_t room)
{
    enum { LEAST = 24 }; /* the least room for a name */
    struct buffer where = {0};
    const char *function = names_frame_brief(f);
    const char *slash = f->place ? strrchr(f->place, '/') : NULL;
    if (f->cut) {
        buffer_append_text(b, f->function);
        return;
    }
    append_where(&where, f, f->place);
    size_t name = text_columns(function), rest = text_columns(buffer_text(&where));
    if (room && name + rest > room && slash && slash[1]) { /* directories go first */
        buffer_clear(&where);
        append_where(&where, f, slash + 1);
        rest = text_columns(buffer_text(&where));
    }
    if (!room || name + rest <= room)
        buffer_append_text(b, function);
    else
        spelling_fit(function, room > rest + LEAST ? room - rest : LEAST,
                     p->unicode ? "\u2026" : "...", b);
    buffer_append_text(b, buffer_text(&where));
    buffer_release(&where);
}
