/* document_text.h - a JSON document that is written key by key, and is whole before anything of it
 * is seen: of a command, on standard output or as a page for a browser. */
#ifndef MALLOW_SHOW_DOCUMENT_TEXT_H
#define MALLOW_SHOW_DOCUMENT_TEXT_H

#include <stddef.h>

#include "base/error.h"
#include "base/json.h"

/* Its memory is given back by one of the two ends. */
struct document_text {
    struct json json; /* for its writer: the object that is the document is open */
    char *text;
    size_t bytes;
};
int document_begin(struct document_text *d, struct error *err);
/* On standard output, or as a page, unless status says that it failed (then *err is set). Returns
 * status, or -1 with *err set. */
int document_end(struct document_text *d, int status, struct error *err);
int document_end_page(struct document_text *d, int status, const char *path, const char *title,
                      const char *kind, struct error *err);

#endif
