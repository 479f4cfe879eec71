/* document.h - a JSON document as a tree, for documents that are read back: baselines, shards,
 * pages.
 *
 * Documents that are only written go through base/json.h. */
#ifndef MALLOW_COMPARE_DOCUMENT_H
#define MALLOW_COMPARE_DOCUMENT_H

#include <json-c/json.h>

/* An object with the key that begins every document (JSON_SCHEMA); the caller's. */
json_object *document_new(void);

#endif
