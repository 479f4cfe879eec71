/* json.c - Writes JSON to a FILE as the caller produces it. It counts levels and items to place
 * commas and line breaks, and formats numbers itself because a page has millions of them.
 * Strings pass through text_shown_json, which replaces invalid UTF-8 and harmful characters. */
#include "json.h"

#include <string.h>

#include "json_schema.h"
#include "text.h"

static bool plain(char c)
{
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x7f && c != '"' && c != '\\';
}

void json_quote(struct buffer *b, const char *s)
{
    buffer_append_char(b, '"');
    while (*s) {
        size_t n = 0;
        while (plain(s[n]))
            n++;
        buffer_append(b, s, n);
        s += n;
        if (*s) {
            struct text_shown c;
            s += text_shown_json(s, &c);
            buffer_append(b, c.text, c.bytes);
        }
    }
    buffer_append_char(b, '"');
}

static void json_put_bytes(struct json *j, const char *s, size_t n)
{
    fwrite_unlocked(s, 1, n, j->out);
}

static void json_quote_bytes(struct json *j, const char *s)
{
    json_put_bytes(j, "\"", 1);
    while (*s) {
        size_t n = 0;
        while (plain(s[n]))
            n++;
        json_put_bytes(j, s, n);
        s += n;
        if (*s) {
            struct text_shown c;
            s += text_shown_json(s, &c);
            json_put_bytes(j, c.text, c.bytes);
        }
    }
    json_put_bytes(j, "\"", 1);
}

static void json_begin_item(struct json *j, const char *key, bool line)
{
    uint64_t bit = (uint64_t)1 << (j->depth & 63);
    if (j->depth && (j->filled & bit))
        json_put_bytes(j, ",", 1);
    j->filled |= bit;
    if (line && j->depth && !j->one_line)
        json_put_bytes(j, "\n", 1);
    if (key) {
        json_quote_bytes(j, key);
        json_put_bytes(j, ":", 1);
    }
}

static void open_level(struct json *j, const char *bracket)
{
    json_put_bytes(j, bracket, 1);
    j->depth++;
    uint64_t bit = (uint64_t)1 << (j->depth & 63);
    j->filled &= ~bit;
    j->arrays = *bracket == '[' ? j->arrays | bit : j->arrays & ~bit;
}

void json_open_object(struct json *j, const char *key)
{
    json_begin_item(j, key, !key);
    open_level(j, "{");
}

void json_close_object(struct json *j)
{
    json_put_bytes(j, "}", 1);
    j->depth--;
}

void json_open_array(struct json *j, const char *key)
{
    json_begin_item(j, key, false);
    open_level(j, "[");
}

void json_close_array(struct json *j)
{
    json_put_bytes(j, "]", 1);
    j->depth--;
}

/* By hand, and with the comma before it: a page has millions of numbers. */
static void json_put_number(struct json *j, const char *key, uint64_t value, bool negative)
{
    char text[24], *p = text + sizeof text;
    const uint64_t bit = (uint64_t)1 << (j->depth & 63);
    if (key)
        json_begin_item(j, key, false);
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    if (negative)
        *--p = '-';
    if (!key && j->depth && j->filled & bit)
        *--p = ',';
    j->filled |= bit;
    json_put_bytes(j, p, (size_t)(text + sizeof text - p));
}

void json_number(struct json *j, const char *key, uint64_t value)
{
    json_put_number(j, key, value, false);
}

void json_signed(struct json *j, const char *key, int64_t value)
{
    json_put_number(j, key, value < 0 ? -(uint64_t)value : (uint64_t)value, value < 0);
}

void json_bool(struct json *j, const char *key, bool value)
{
    json_begin_item(j, key, false);
    json_put_bytes(j, value ? "true" : "false", value ? 4 : 5);
}

void json_null(struct json *j, const char *key)
{
    json_begin_item(j, key, false);
    json_put_bytes(j, "null", 4);
}

void json_text(struct json *j, const char *key, const char *text)
{
    if (!text) {
        json_null(j, key);
        return;
    }
    json_begin_item(j, key, false);
    json_quote_bytes(j, text);
}

void json_texts(struct json *j, const char *key, const char *const *texts, size_t most)
{
    json_open_array(j, key);
    for (size_t i = 0; texts && i < most && texts[i]; i++)
        json_text(j, NULL, texts[i]);
    json_close_array(j);
}

void json_address(struct json *j, const char *key, uint64_t address)
{
    char text[32];
    snprintf(text, sizeof text, "0x%llx", (unsigned long long)address);
    json_text(j, key, text);
}

void json_bytes(struct json *j, const char *key, const uint8_t *data, size_t n)
{
    json_begin_item(j, key, false);
    json_put_bytes(j, "\"", 1);
    for (size_t i = 0; i < n; i++) {
        char text[4];
        json_put_bytes(j, text, (size_t)snprintf(text, sizeof text, "%02x", data[i]));
    }
    json_put_bytes(j, "\"", 1);
}

void json_raw(struct json *j, const char *key, const char *text, size_t n)
{
    json_begin_item(j, key, false);
    json_put_bytes(j, text, n);
}

void json_close_to(struct json *j, unsigned depth)
{
    while (j->depth > depth)
        if (j->arrays & (uint64_t)1 << (j->depth & 63))
            json_close_array(j);
        else
            json_close_object(j);
}

void json_schema(struct json *j)
{
    json_number(j, "schema", JSON_SCHEMA);
    json_text(j, "mallow", MALLOW_VERSION);
}

void json_begin(struct json *j)
{
    json_open_object(j, NULL);
    json_schema(j);
}

void json_end(struct json *j) { json_put_bytes(j, "\n", 1); }
