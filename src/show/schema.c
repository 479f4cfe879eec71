/* schema.c - objects and lists of columns as JSON Schema (draft 2020-12); see schema.h. */
#include "show/schema.h"

#include <string.h>

const struct column schema_head[] = {COLUMN_KEY(NUMBER, "schema", 0), COLUMN_KEY(TEXT, "mallow", 0),
                                     COLUMN_END};

enum { OPTIONAL = (unsigned)~COLUMN_MAY_NULL }; /* flags of a key that can be missing */

static void write_type(struct json *j, const char *type, bool or_null)
{
    if (!or_null) {
        json_text(j, "type", type);
        return;
    }
    json_open_array(j, "type");
    json_text(j, NULL, type);
    json_text(j, NULL, "null");
    json_close_array(j);
}

static void write_reference(struct json *j, const char *to)
{
    json_open_object(j, "items");
    json_text(j, "$ref", to);
    json_close_object(j);
}

static void write_column(struct json *j, const struct column *c)
{
    static const char *const types[] = {
        [COLUMN_BYTES] = "integer",  [COLUMN_COUNT] = "integer",  [COLUMN_NUMBER] = "integer",
        [COLUMN_SIGNED] = "integer", [COLUMN_TIME] = "integer",   [COLUMN_CLOCK] = "integer",
        [COLUMN_SINCE] = "integer",  [COLUMN_LEAST] = "integer",  [COLUMN_FLAG] = "boolean",
        [COLUMN_TEXT] = "string",    [COLUMN_ADDRESS] = "string", [COLUMN_FRAMES] = "array",
        [COLUMN_GROWTH] = "integer", [COLUMN_STACK] = "array",    [COLUMN_OBJECT] = "object",
        [COLUMN_LIST] = "array"};
    json_open_object(j, c->key);
    write_type(j, types[c->kind], c->shown & COLUMN_MAY_NULL);
    if (c->kind == COLUMN_ADDRESS)
        json_text(j, "pattern", "^0x[0-9a-f]+$");
    else if (c->kind == COLUMN_FRAMES || c->kind == COLUMN_STACK)
        write_reference(j, "#/$defs/frame");
    else if (!strcmp(types[c->kind], "integer") && c->kind != COLUMN_SIGNED &&
             c->kind != COLUMN_CLOCK && c->kind != COLUMN_GROWTH)
        json_number(j, "minimum", 0);
    json_close_object(j);
    if (c->kind == COLUMN_FRAMES)
        write_column(j, &(struct column)COLUMN_KEY(NUMBER, "call_site", COLUMN_MAY_LACK));
}

static bool is_path(const struct schema_part *part, const char *path, size_t bytes)
{
    return !strncmp(part->path, path, bytes) && !part->path[bytes];
}

/* True if a part before this one, or this one before column `c`, has the key. */
static bool is_written(const struct schema_part *parts, const struct schema_part *part,
                       const struct column *c, const char *path, size_t bytes)
{
    for (const struct schema_part *p = parts; p <= part; p++)
        for (const struct column *k = p->columns; is_path(p, path, bytes) && (k->key || k->title);
             k++) {
            if (k == c)
                return false;
            if (k->key && !strcmp(k->key, c->key))
                return true;
        }
    return false;
}

static void write_required(struct json *j, const struct schema_part *parts, const char *path,
                           size_t bytes)
{
    const struct schema_part *only = NULL;
    for (const struct schema_part *p = parts; p->path; p++) {
        if (!is_path(p, path, bytes))
            continue;
        if (only) /* which of them it is, is not known here */
            return;
        only = p;
    }
    json_open_array(j, "required");
    for (const struct column *c = only ? only->columns : NULL; c && (c->key || c->title); c++)
        if (c->key && c->kind != COLUMN_FRAMES && !(c->shown & OPTIONAL))
            json_text(j, NULL, c->key);
    json_close_array(j);
}

static void write_object(struct json *j, const struct schema_part *parts, const char *path,
                         size_t bytes);

/* The objects and lists right below a path. */
static void write_children(struct json *j, const struct schema_part *parts, const char *path,
                           size_t bytes)
{
    const size_t skipped = bytes ? bytes + 1 : 0;
    for (const struct schema_part *p = parts; p->path; p++) {
        const char *name = p->path + skipped;
        if (strlen(p->path) <= bytes || strncmp(p->path, path, bytes) != 0 ||
            (bytes && p->path[bytes] != '.') || strchr(name, '.'))
            continue;
        const size_t whole = strlen(p->path);
        bool before = false;
        for (const struct schema_part *q = parts; q < p; q++)
            before = before || !strcmp(q->path, p->path);
        if (before)
            continue;
        const bool list = p->path[whole - 1] == ']';
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(name, "[?"), name);
        json_open_object(j, key);
        if (list) {
            json_text(j, "type", "array");
            json_open_object(j, "items");
        }
        write_object(j, parts, p->path, whole);
        if (list)
            json_close_object(j);
        json_close_object(j);
    }
}

static void write_object(struct json *j, const struct schema_part *parts, const char *path,
                         size_t bytes)
{
    write_type(j, "object", bytes && path[bytes - 1] == '?');
    json_bool(j, "additionalProperties", false);
    json_open_object(j, "properties");
    for (const struct column *c = schema_head; !bytes && c->key; c++)
        write_column(j, c);
    for (const struct schema_part *p = parts; p->path; p++)
        for (const struct column *c = p->columns; is_path(p, path, bytes) && (c->key || c->title);
             c++)
            if (c->key && !is_written(parts, p, c, path, bytes))
                write_column(j, c);
    write_children(j, parts, path, bytes);
    json_close_object(j);
    write_required(j, parts, path, bytes);
}

static void write_frame(struct json *j)
{
    static const struct column frame[] = {COLUMN_KEY(TEXT, "function", 0),
                                          COLUMN_KEY(TEXT, "file", 0),
                                          COLUMN_KEY(NUMBER, "line", 0),
                                          COLUMN_KEY(TEXT, "module", 0),
                                          COLUMN_KEY(FLAG, "inlined", 0),
                                          COLUMN_KEY(FLAG, "unnamed", COLUMN_MAY_LACK),
                                          COLUMN_KEY(FLAG, "cut", COLUMN_MAY_LACK),
                                          COLUMN_END};
    static const struct schema_part parts[] = {{"frame", frame}, {NULL, NULL}};
    json_open_object(j, "$defs");
    json_open_object(j, "frame");
    write_object(j, parts, "frame", strlen("frame"));
    json_close_object(j);
    json_close_object(j);
}

void schema_write(FILE *out, const char *title, const struct schema_part *parts)
{
    struct json j = {.out = out};
    json_open_object(&j, NULL);
    json_text(&j, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_text(&j, "title", title);
    write_frame(&j);
    write_object(&j, parts, "", 0);
    json_close_object(&j);
    json_end(&j);
}
