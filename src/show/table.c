/* table.c - rows as text and JSON, by their columns; see table.h. */
#include "show/table.h"

#include <string.h>

#include "base/human.h"
#include "base/text.h"
#include "show/layout.h"

static const void *column_place(const struct column *c, const void *row)
{
    return (const char *)row + c->offset;
}

static uint64_t column_number(const struct column *c, const void *row)
{
    const void *at = column_place(c, row);
    if (c->bytes == sizeof(uint64_t))
        return *(const uint64_t *)at;
    return c->bytes == sizeof(uint32_t) ? *(const uint32_t *)at : *(const uint8_t *)at;
}

static const char *column_text(const struct column *c, const void *row)
{
    const char *text;
    memcpy(&text, column_place(c, row), sizeof text);
    return text;
}

static bool column_is_wanted(const struct table *t, const struct column *c)
{
    const unsigned wants = c->shown & ~(unsigned)(COLUMN_WITH - 1);
    return (t->with & wants) == wants;
}

static bool column_is_empty(const struct column *c, const void *row)
{
    if (c->kind != COLUMN_TEXT)
        return !column_number(c, row);
    const char *text = column_text(c, row);
    return !text || !*text;
}

static void column_json(struct json *j, const struct table *t, const struct column *c,
                        const void *row)
{
    const uint64_t n = c->kind == COLUMN_TEXT ? 0 : column_number(c, row), start = t->start_ns;
    if (n == UINT64_MAX && c->shown & COLUMN_MAY_NULL) {
        json_null(j, c->key);
        return;
    }
    switch (c->kind) {
    case COLUMN_GROWTH:
    case COLUMN_SIGNED: json_signed(j, c->key, (int64_t)n); break;
    case COLUMN_CLOCK: json_signed(j, c->key, (int64_t)(n - start)); break;
    case COLUMN_SINCE: json_number(j, c->key, n > start ? n - start : 0); break;
    case COLUMN_LEAST: json_number(j, c->key, n == UINT64_MAX ? 0 : n); break;
    case COLUMN_FLAG: json_bool(j, c->key, n); break;
    case COLUMN_TEXT: json_text(j, c->key, column_text(c, row)); break;
    case COLUMN_ADDRESS: json_address(j, c->key, n); break;
    case COLUMN_FRAMES:
        if (t->names)
            table_frames(j, t->names, (uint32_t)n);
        break;
    default: json_number(j, c->key, n);
    }
}

/* True if the value of a column is left out in this row. lacks: the answer of the column before. */
static bool column_lacks(const struct column *c, const void *row, bool lacks)
{
    if (c->shown & COLUMN_FOLLOWS)
        return lacks;
    return c->bytes && c->shown & COLUMN_MAY_LACK && column_is_empty(c, row);
}

void table_fields(struct json *j, const struct table *t, const void *row)
{
    bool lacks = false;
    for (const struct column *c = t->columns; c->key || c->title; c++) {
        lacks = column_lacks(c, row, lacks);
        if (c->key && c->bytes && !lacks && column_is_wanted(t, c))
            column_json(j, t, c, row);
    }
}

void table_object(struct json *j, const char *key, const struct table *t, const void *row)
{
    if (!row) {
        json_null(j, key);
        return;
    }
    json_open_object(j, key);
    table_fields(j, t, row);
    json_close_object(j);
}

void table_json(struct json *j, const char *key, const struct table *t, const void *rows,
                size_t count, size_t bytes)
{
    json_open_array(j, key);
    for (size_t i = 0; i < count; i++)
        table_object(j, NULL, t, (const char *)rows + i * bytes);
    json_close_array(j);
}

void table_lists(struct json *j, const struct table *t, const void *rows, size_t count,
                 size_t bytes)
{
    for (const struct column *c = t->columns; c->key || c->title; c++) {
        struct column element = *c;
        if (!c->key || !column_is_wanted(t, c))
            continue;
        element.key = NULL;
        json_open_array(j, c->key);
        for (size_t i = 0; i < count; i++)
            column_json(j, t, &element, (const char *)rows + i * bytes);
        json_close_array(j);
    }
}

static int column_width(const struct column *c)
{
    return c->width ? c->width : c->kind == COLUMN_COUNT ? 13 : 10;
}

void table_titles(struct buffer *b, const struct table *t)
{
    const char *between = "";
    for (const struct column *c = t->columns; c->key || c->title; c++) {
        if (!c->title || !column_is_wanted(t, c))
            continue;
        char title[64];
        snprintf(title, sizeof title, "%s%s", c->title,
                 t->sorted && !strcmp(t->sorted, c->title) ? "\u25be" : "");
        buffer_append_text(b, between);
        page_right(b, title, (unsigned)column_width(c));
        between = " ";
    }
}

const char *table_growth(char out[HUMAN_TEXT_BYTES + 1], int64_t bytes)
{
    snprintf(out, HUMAN_TEXT_BYTES + 1, "%s%s",
             !bytes      ? "."
             : bytes < 0 ? "-"
                         : "+",
             bytes ? SIZE(human_magnitude(bytes)) : "");
    return out;
}

enum { CELL_BYTES = 2 * HUMAN_TEXT_BYTES };

static const char *column_human(char text[CELL_BYTES], const struct column *c, const void *row)
{
    const uint64_t n = column_number(c, row);
    if (!n && c->shown & COLUMN_DASH)
        return "-";
    switch (c->kind) {
    case COLUMN_GROWTH: return table_growth(text, (int64_t)n);
    case COLUMN_RANGE: {
        const uint64_t *bounds = column_place(c, row);
        if (bounds[1] <= bounds[0])
            return "exact";
        snprintf(text, CELL_BYTES, "%s..%s", SIZE(bounds[0]), SIZE(bounds[1]));
        return text;
    }
    case COLUMN_NUMBER:
        snprintf(text, HUMAN_TEXT_BYTES, "%llu", (unsigned long long)n);
        return text;
    case COLUMN_COUNT: return human_count(text, n);
    case COLUMN_TIME: return human_duration(text, n);
    default: return human_size(text, n);
    }
}

void table_cells(struct buffer *b, const struct table *t, const void *row)
{
    const char *between = "";
    bool lacks = false;
    for (const struct column *c = t->columns; c->key || c->title; c++) {
        char text[CELL_BYTES];
        lacks = column_lacks(c, row, lacks);
        if (!c->title || !column_is_wanted(t, c))
            continue;
        buffer_printf(b, "%s%*s", between, column_width(c),
                      lacks ? "" : column_human(text, c, row));
        between = " ";
    }
}

void table_heading(FILE *out, const struct table *t, const char *last)
{
    struct buffer b = {0};
    table_titles(&b, t);
    text_printf(out, "\n%s  %s\n", buffer_text(&b), last);
    buffer_release(&b);
}

void table_numbers(FILE *out, const struct table *t, const void *row)
{
    struct buffer b = {0};
    table_cells(&b, t, row);
    text_printf(out, "%s  ", buffer_text(&b));
    buffer_release(&b);
}

size_t table_stack(struct names *names, uint32_t stack, uint32_t *ids, size_t max)
{
    size_t count = 0;
    for (struct names_walk w = {.node = stack}; names && count < max && names_next(names, &w);)
        ids[count++] = w.id;
    return count;
}

void table_frames(struct json *j, struct names *names, uint32_t stack)
{
    uint32_t id[TABLE_FRAMES];
    struct buffer text = {0};
    const size_t count = table_stack(names, stack, id, TABLE_FRAMES);
    json_open_array(j, "frames");
    for (size_t i = 0; i < count; i++) {
        buffer_clear(&text);
        names_frame_json(names_frame(names, id[i]), &text);
        json_raw(j, NULL, buffer_text(&text), text.size_bytes);
    }
    json_close_array(j);
    if (count)
        json_number(j, "call_site", names_first(names, id, count));
    buffer_release(&text);
}
