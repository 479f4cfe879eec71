/* output.h - a file that is whole when it has its name: written beside it, then renamed.
 *
 * What is not a regular file (a pipe, /dev/stdout) is written as it is. */
#ifndef MALLOW_CLI_OUTPUT_H
#define MALLOW_CLI_OUTPUT_H

#include <limits.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"

struct output {
    FILE *file;
    const char *path;         /* borrowed */
    char temporary[PATH_MAX]; /* "": none */
};

int output_open(struct output *o, const char *path, struct error *err);
/* Closes it, and gives it its name when `keep`; takes it away otherwise. -1 also when not all of it
 * could be written (then *err is set). */
int output_close(struct output *o, bool keep, struct error *err);
/* Whether to write to `path` would be to write over the file `other`. */
bool output_is(const char *path, const char *other);

#endif
