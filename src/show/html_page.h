/* html_page.h - what stands around the data of every page. */
#ifndef MALLOW_SHOW_HTML_PAGE_H
#define MALLOW_SHOW_HTML_PAGE_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

#define HTML_PAGE_BYTES 5000000u /* no page is larger */

/* title: of the window; blocks of data come between the two calls (see html_pack.h). */
void html_page_begin(FILE *out, const char *title);
void html_page_end(FILE *out);
/* Bytes that blocks may take, so that the page stays within HTML_PAGE_BYTES. */
size_t html_page_room(void);
/* The page around the document that a command prints with --json. It needs nothing else. kind: the
 * document's subject, "compare". Fails with ERROR_UNSUPPORTED when it would be too large, and when
 * the build has no page. */
int html_page_document(FILE *out, const char *title, const char *kind, const char *json,
                       size_t json_bytes, struct error *err);

/* The same into a file that is whole when it has its name. */
int html_page_file(const char *path, const char *title, const char *kind, const char *text,
                   size_t bytes, struct error *err);

#endif
