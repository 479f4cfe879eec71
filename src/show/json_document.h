/* json_document.h - a JSON document as a tree, for documents that are read back: baselines, shards,
 * pages.
 *
 * Documents that are only written go through base/json.h. */
#ifndef MALLOW_SHOW_JSON_DOCUMENT_H
#define MALLOW_SHOW_JSON_DOCUMENT_H

#include <json-c/json.h>

#include "base/error.h"

/* An object with the keys that begin every document (see json_schema()); the caller's. */
json_object *document_new(void);

/* The document in a regular file; the caller's. NULL with *err: ERROR_FORMAT when it is no JSON, or
 * what trust_open_any says. */
json_object *document_read(const char *path, struct error *err);

#endif
