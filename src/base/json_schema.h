/* json_schema.h - the version that begins every JSON document of mallow. In a header of its own,
 * since json.h and json-c have names in common. */
#ifndef MALLOW_BASE_JSON_SCHEMA_H
#define MALLOW_BASE_JSON_SCHEMA_H

enum { JSON_SCHEMA = 1 };

#endif
