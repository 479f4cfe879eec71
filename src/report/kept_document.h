/* kept_document.h - a report as it was printed, in the index of its recording.
 *
 * Owns: the columns of the index's DOCUMENT parts (docs/format.md), and when they hold: for the
 * same options and names that read the same. One text and one document of JSON are kept, the last.
 * Nothing of a part is believed: a text that could command a terminal and JSON that is none are not
 * printed. One thread. */
#ifndef MALLOW_REPORT_KEPT_DOCUMENT_H
#define MALLOW_REPORT_KEPT_DOCUMENT_H

#include <stdio.h>

#include "report/report.h"

/* A report that is asked for. */
struct document {
    const char *path;
    struct trace *t;
    struct symbols *symbols; /* may be NULL */
    const struct report_options *o;
    bool json;
};

typedef int kept_document_writer(FILE *out, const char *path, struct trace *t,
                                 struct symbols *symbols, const struct report_options *o,
                                 struct error *err);
/* Prints it as it was printed before, where that holds; else lets `write` print it, and keeps it.
 * Returns what `write` returned, or 0. */
int kept_document_print(const struct document *d, FILE *out, kept_document_writer *write,
                        struct error *err);

#endif
