/* document.h - a JSON document of a command, on standard output or as a page for a browser. */
#ifndef MALLOW_SHOW_DOCUMENT_H
#define MALLOW_SHOW_DOCUMENT_H

#include <json-c/json.h>

#include "base/error.h"

/* One line on standard output; or many, for people. Valid UTF-8, harmless on a terminal, whatever
 * the strings in it hold. */
void document_print(json_object *json);
void document_print_indented(json_object *json);

/* The page around it, into a file that is whole when it has its name. title, kind: as of
 * html_page_document. -1 with *err set on failure. */
int document_page(const char *path, const char *title, const char *kind, json_object *json,
                  struct error *err);

#endif
