/* document.c - see document.h. */
#include "compare/document.h"

#include "base/json_schema.h"

json_object *document_new(void)
{
    json_object *o = json_object_new_object();
    json_object_object_add(o, "schema", json_object_new_int(JSON_SCHEMA));
    return o;
}
