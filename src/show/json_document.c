/* json_document.c - Makes a JSON tree with the fields that every document begins with, and reads
 * one from a file of bounded size. */
#include "show/json_document.h"

#include <stdlib.h>

#include "base/json_schema.h"
#include "trust/file.h"

enum { DOCUMENT_BYTES_MAX = 256 << 20 };

json_object *document_new(void)
{
    json_object *o = json_object_new_object();
    json_object_object_add(o, "schema", json_object_new_int(JSON_SCHEMA));
    json_object_object_add(o, "mallow", json_object_new_string(MALLOW_VERSION));
    return o;
}

json_object *document_read(const char *path, struct error *err)
{
    char *text = trust_read_any(path, DOCUMENT_BYTES_MAX, NULL, err);
    if (!text)
        return NULL;
    json_object *document = json_tokener_parse(text);
    free(text);
    if (!document)
        error_set(err, ERROR_FORMAT, "%s is not JSON", path);
    return document;
}
