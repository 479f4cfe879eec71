/* schema.h - the JSON schema of a document, from the columns of its tables. */
#ifndef MALLOW_SHOW_SCHEMA_H
#define MALLOW_SHOW_SCHEMA_H

#include <stdio.h>

#include "show/table.h"

/* The keys of an object of the document. Two parts with one path: the object has the keys of both,
 * or of either. */
struct schema_part {
    /* "" of the document, "cold", "cold.types[]": of the elements of a list, "cold?": or null */
    const char *path;
    const struct column *columns;
};

extern const struct column schema_head[]; /* the keys that json_schema() writes */

/* Writes the schema of documents with these parts, up to one without a path. No other keys are
 * allowed. */
void schema_write(FILE *out, const char *title, const struct schema_part *parts);

#endif
