/* sql.h - the text of a question, from a template with words. Private to fleet/.
 *
 * A template is SQL in which $word stands for what an engine's table of words has for it, and
 * $word(argument) for the same with the argument in place of $1. So the questions of an engine are
 * a table of texts, which people can read. What users say is quoted by the engine's own functions
 * and is never read as a template. */
#ifndef MALLOW_FLEET_SQL_H
#define MALLOW_FLEET_SQL_H

#include "base/buffer.h"
#include "fleet/store.h"

struct sql;
struct sql_word {
    const char *name;
    const char *text; /* a template; NULL: `put` writes it */
    void (*put)(const struct sql *s, struct buffer *to, const char *argument);
};

struct sql {
    const struct sql_word *words; /* up to one without a name */
    const struct store_query *q;
    const void *arg;    /* the engine's */
    const char *figure; /* the value of $f inside $each(...) */
};

/* Appends a template. Words of all engines: $by, the column of the figure asked for; $width and
 * $top; $each(template), the template for each figure, which is $f in it. */
void sql_put(const struct sql *s, struct buffer *to, const char *text);
/* The same as a text, to be freed; NULL without memory. */
char *sql_text(const struct sql *s, const char *text);

#endif
