/* output.h - a file that is whole when it has its name: written beside it, then renamed.
 *
 * It takes its name where trust/place.h leads: no link of another user is followed. A file that is
 * not regular (a pipe, a device) is written directly, and so is a descriptor by its name:
 * /dev/stdout, /dev/stderr, /dev/fd/N. */
#ifndef MALLOW_SHOW_OUTPUT_H
#define MALLOW_SHOW_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "trust/place.h"

struct output {
    FILE *file;
    const char *path; /* borrowed */
    struct trust_whole whole;
};

/* The path, or NULL for standard output: when it is NULL, "-" or "/dev/stdout". */
const char *output_named(const char *path);
/* For output that is renamed to its name or seeks as it is written: -1 when `path` is "-", or
 * something that is neither a regular file nor a directory (whose error the writer knows), which
 * would be replaced by a file or removed. `what`: "a workload". */
int output_must_be_regular(const char *path, const char *what, struct error *err);
int output_open(struct output *o, const char *path, struct error *err);
/* Closes it, and gives it its name when `keep`; takes it away otherwise. -1 also when not all of it
 * could be written (then *err is set). */
int output_close(struct output *o, bool keep, struct error *err);
/* For reports that come one by one, at their own path: appended to the file there, or in its
 * place. Closed by fclose(). NULL with *err. */
FILE *output_stream(const char *path, bool append, struct error *err);
/* True to write to `path` would be to write over the file `other`. */
bool output_is(const char *path, const char *other);

#endif
