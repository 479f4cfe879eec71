/* headers.h - the headers that a user gives for a request: each a text, or a file of them.
 *
 * Owns: their copies. A value may be a secret, so no message repeats one. One thread. */
#ifndef MALLOW_PUSH_HEADERS_H
#define MALLOW_PUSH_HEADERS_H

#include <stddef.h>

#include "base/error.h"

struct push_headers { /* begins as zero */
    char **text;      /* "NAME: VALUE" */
    size_t count;
};

/* Adds each of `given`: "NAME: VALUE", or "@FILE" with a header on each line. -1 with *err; the
 * list keeps what came before, and is to be released. */
int push_headers_collect(struct push_headers *list, const char *const *given, size_t count,
                         struct error *err);

void push_headers_release(struct push_headers *list);

#endif
