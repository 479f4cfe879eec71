/* table.h - a table as data: its columns once, from which text, JSON and the schema are made.
 *
 * A row is a struct, a column one of its members. Columns that the caller computes are members of a
 * struct of the caller's. Nothing is kept. */
#ifndef MALLOW_SHOW_TABLE_H
#define MALLOW_SHOW_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/human.h"
#include "base/json.h"
#include "frames/names.h"

enum column_kind {
    COLUMN_BYTES,
    COLUMN_COUNT,
    COLUMN_NUMBER, /* that is no sum: a process id, a line */
    COLUMN_SIGNED,
    COLUMN_TIME,   /* nanoseconds */
    COLUMN_CLOCK,  /* nanoseconds of a clock: since table.start_ns, or before it */
    COLUMN_SINCE,  /* the same; 0 before it */
    COLUMN_GROWTH, /* bytes, signed: "+1.2 MB" in text, "." for 0 */
    COLUMN_RANGE,  /* bytes, this member to the next one: "1.2 MB..1.4 MB", "exact"; text alone */
    COLUMN_LEAST,  /* bytes, the smallest of several; UINT64_MAX, of none, is 0 */
    COLUMN_FLAG,   /* bool */
    COLUMN_TEXT,   /* const char *; NULL is null */
    COLUMN_ADDRESS,
    COLUMN_FRAMES, /* uint32_t, a stack: `frames` and `call_site`. Only with table.names */
    /* For schemas alone; other code writes them. */
    COLUMN_OBJECT, /* any keys: counts by name */
    COLUMN_LIST,   /* a list of texts */
    COLUMN_STACK   /* a list of frames */
};

enum {
    COLUMN_MAY_LACK = 1, /* the key is left out where the member is 0 or "" */
    COLUMN_FOLLOWS = 2,  /* the last column before it without this flag was left out, so is this */
    COLUMN_MAY_NULL = 4, /* the value can be null: of a number, where it is UINT64_MAX */
    COLUMN_DASH = 8,     /* in text "-" where it is 0 */
    COLUMN_WITH = 16     /* the first of the caller's own bits: the column is left out unless
                            table.with has them all */
};

struct column {
    const char *key;   /* in JSON; NULL: text alone */
    const char *title; /* in text, above the numbers; NULL: JSON alone */
    uint16_t offset;
    uint16_t shown;
    uint8_t kind, bytes; /* bytes: of the member */
    uint8_t width;       /* in text; 0: as of its kind */
};
/* clang-format off */
/* A column that is a member; flags: of `shown`; columns: its width in text. */
#define COLUMN_WIDE(type, member, of, json_key, text_title, flags, columns) \
    {.key = (json_key), .title = (text_title), .offset = offsetof(type, member), .shown = (flags), \
     .kind = COLUMN_##of, .bytes = sizeof(((type *)NULL)->member), .width = (columns)}
#define COLUMN(type, member, of, json_key, text_title, flags) \
    COLUMN_WIDE(type, member, of, json_key, text_title, flags, 0)
/* A key that other code writes. */
#define COLUMN_KEY(of, json_key, flags) {.key = (json_key), .shown = (flags), .kind = COLUMN_##of}
#define COLUMN_END {0}
/* clang-format on */

struct table {
    const struct column *columns; /* up to COLUMN_END */
    uint16_t with;                /* bits of the caller that are on */
    struct names *names;          /* the names of COLUMN_FRAMES; NULL: left out */
    const char *sorted;           /* the title that has a mark; NULL: none */
    uint64_t start_ns;            /* where COLUMN_CLOCK and COLUMN_SINCE begin */
};

/* One that has no more than columns, as an argument. */
#define TABLE(of) (&(struct table){.columns = (of)})

/* The keys of a row, into the object that is open; as an object; row NULL: null. */
void table_fields(struct json *j, const struct table *t, const void *row);
void table_object(struct json *j, const char *key, const struct table *t, const void *row);
/* A list of objects. `bytes`: of a row. */
void table_json(struct json *j, const char *key, const struct table *t, const void *rows,
                size_t count, size_t bytes);
/* A list for each column, into the object that is open. */
void table_lists(struct json *j, const struct table *t, const void *rows, size_t count,
                 size_t bytes);

/* In text: the titles; a row's numbers, after which the caller writes what the row is of. */
void table_titles(struct buffer *b, const struct table *t);
void table_cells(struct buffer *b, const struct table *t, const void *row);
const char *table_growth(char out[HUMAN_TEXT_BYTES + 1], int64_t bytes); /* as COLUMN_GROWTH */
/* The same on a FILE: an empty line and the titles, `last` at their end; a row's numbers. */
void table_heading(FILE *out, const struct table *t, const char *last);
void table_numbers(FILE *out, const struct table *t, const void *row);

/* The frames of a stack, innermost first: ids of names. Returns how many; at most max. names may be
 * NULL, stack 0: none. */
size_t table_stack(struct names *names, uint32_t stack, uint32_t *ids, size_t max);
/* `frames`, innermost first and at most TABLE_FRAMES, and `call_site`: which of them it is, unless
 * there are none. */
enum { TABLE_FRAMES = 512 };
void table_frames(struct json *j, struct names *names, uint32_t stack);

#endif
