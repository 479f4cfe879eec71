/* document.h - a page around the document that a command prints with --json. */
#ifndef MALLOW_REPORT_DOCUMENT_H
#define MALLOW_REPORT_DOCUMENT_H

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"

/* One page of HTML that needs nothing else. kind: what the document is, "compare". Fails with
 * ERROR_UNSUPPORTED when it would be too large, and when the build has no page. */
int report_html_document(FILE *out, const char *title, const char *kind, const char *json,
                         size_t json_bytes, struct error *err);

#endif
