/* layout.h - the looks of the text report: widths, numbers in columns, bars. */
#ifndef MALLOW_SHOW_LAYOUT_H
#define MALLOW_SHOW_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/human.h"
#include "frames/names.h"

struct page {
    FILE *out;
    unsigned columns; /* 0: lines are never cut */
    bool unicode, bold;
    bool plots;   /* there is room for plots of several lines */
    bool numbers; /* no bars */
};

#define PAGE_BOLD  "\033[1m" /* the beginning and the end of bold text */
#define PAGE_PLAIN "\033[0m"

/* A heading, with an empty line before it; the text is printed as given. */
void page_heading(const struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints a line of `text`, cut to the width, and empties it: its memory is given back. The text may
 * be longer than its characters (UTF-8); control characters are shown as '?'. */
void page_line(const struct page *p, struct buffer *text);

/* The same, broken at blanks where it is too long; `indent` blanks begin the lines after the first.
 */
void page_wrap(const struct page *p, struct buffer *text, unsigned indent);

/* Prints what these functions have printed already, to another FILE. */
void page_printed(const struct page *p, const char *text, size_t bytes);

/* Appends `part` of `whole` as "12.3 %" (6 wide); "" padded when whole is 0. */
void page_percent(struct buffer *b, uint64_t part, uint64_t whole);

/* Appends `text` right-aligned in `width`. */
void page_right(struct buffer *b, const char *text, unsigned width);
void page_left(struct buffer *b, const char *text, unsigned width);

/* Appends a bar of up to `width` cells for part of whole; nothing on a page of numbers. */
void page_bar(const struct page *p, struct buffer *b, uint64_t part, uint64_t whole,
              unsigned width);

/* Appends values[0..n) as a line of `n` cells, scaled to `largest`. */
void page_spark(const struct page *p, struct buffer *b, const uint64_t *values, size_t n,
                uint64_t largest);

/* Two series over time, [n] columns each: `area` is filled from below, `line` drawn over it. */
struct page_plot {
    const uint64_t *area, *line; /* line: NULL for none; PAGE_NO_VALUE where there is none */
    size_t n;
    unsigned rows;
    const char *first, *middle,
        *last; /* below the axis: of the first column, the middle, the last */
};
#define PAGE_NO_VALUE UINT64_MAX
/* Prints it, with bytes on the axis to the left; it is 13 characters wider than n. */
void page_plot(const struct page *p, const struct page_plot *plot);

/* Appends "function (file:line, module)" so that it fits into `room` characters (0: any). */
void page_frame(const struct page *p, struct buffer *b, const struct name_frame *f, size_t room);

#endif
