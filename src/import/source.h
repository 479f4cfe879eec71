/* source.h - the lines of a file that may be compressed by gzip or zstd. */
#ifndef MALLOW_IMPORT_SOURCE_H
#define MALLOW_IMPORT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

#define SOURCE_LINE_MAX (1u << 20) /* a longer line is damage */

struct source;

struct source *source_open(const char *path, struct error *err);
void source_close(struct source *s); /* NULL is fine */

/* The next line without its end, NUL behind it; valid until the next call. 1, 0 at the end, -1 with
 * *err. A NUL within a line is an error: it is not text. */
int source_line(struct source *s, char **line, size_t *bytes, struct error *err);
/* Calls `take` with each line, as source_line gives it, until the end or until it fails. 0, or -1
 * with *err. */
typedef int source_take(void *arg, char *line, size_t bytes, struct error *err);
int source_each(struct source *s, source_take *take, void *arg, struct error *err);
/* After the end: whether the file ends within a line (which is left out then) or within compressed
 * data: it was cut off, or is not finished. */
bool source_is_cut(const struct source *s);
/* The number of the line that source_line gave last, from 1. */
uint64_t source_line_number(const struct source *s);
/* "FILE, line N: WHY". Returns -1. */
int source_error(const struct source *s, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
