/* letter.c - Writes and parses a letter, the queued form of a request. The parser accepts
 * printable ASCII in the head and known fields only, because another process may have written
 * the file. */
#include "push/letter.h"

#include <string.h>

#include "base/human.h"

#define HEAD_MOST 16384u

static const char first_line[] = "mallow push 1";

void letter_write(struct buffer *out, const struct letter *l)
{
    buffer_printf(out, "%s\nto %s\ntype %s\n", first_line, l->target, l->type);
    if (l->encoding)
        buffer_printf(out, "encoding %s\n", l->encoding);
    buffer_printf(out, "bytes %zu\n\n", l->bytes);
    buffer_append(out, l->body, l->bytes);
}

/* The line at *at, which becomes a text; NULL: none that ends within the head, or one with
 * characters that no line has. */
static char *letter_next_line(char **at, const char *end)
{
    char *line = *at, *stop = memchr(line, '\n', (size_t)(end - line));
    if (!stop)
        return NULL;
    for (const char *p = line; p < stop; p++)
        if ((unsigned char)*p < ' ' || (unsigned char)*p > '~')
            return NULL;
    *stop = 0;
    *at = stop + 1;
    return line;
}

/* The text behind "NAME ", or NULL. */
static const char *letter_value_of(const char *line, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(line, name, n) && line[n] == ' ' && line[n + 1] ? line + n + 1 : NULL;
}

int letter_read(char *data, size_t size, struct letter *l, size_t *taken, struct error *err)
{
    char *at = data, *line;
    const char *end = data + (size < HEAD_MOST ? size : HEAD_MOST), *value;
    uint64_t bytes = 0;
    bool sized = false;
    *l = (struct letter){0};
    line = letter_next_line(&at, end);
    if (!line || strcmp(line, first_line) != 0)
        return error_set(err, ERROR_FORMAT, "does not begin like a letter of mallow's");
    while ((line = letter_next_line(&at, end)) && *line) {
        if ((value = letter_value_of(line, "to")))
            l->target = value;
        else if ((value = letter_value_of(line, "type")))
            l->type = value;
        else if ((value = letter_value_of(line, "encoding")))
            l->encoding = value;
        else if ((value = letter_value_of(line, "bytes")) && human_parse_count(value, &bytes))
            sized = true;
        else
            return error_set(err, ERROR_FORMAT, "has an unknown line");
    }
    if (!line || !l->target || !l->type || !sized)
        return error_set(err, ERROR_FORMAT, "has an incomplete head");
    l->body = at;
    if (bytes > size - (size_t)(at - data))
        return error_set(err, ERROR_FORMAT, "is shorter than it says");
    l->bytes = (size_t)bytes;
    *taken = (size_t)(at - data) + l->bytes;
    return 0;
}
