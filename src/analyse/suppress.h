/* suppress.h - suppression files of LeakSanitizer: known leaks, not to be shown again.
 *
 * Lines are `leak:PATTERN`; empty lines and lines that begin with # are skipped. PATTERN is found
 * anywhere in a name, `*` stands for any text, `^` at its start and `$` at its end anchor it. A
 * block is suppressed when the pattern matches the function, the source file or the module of any
 * frame of its stack.
 *
 * mallow adds a kind of its own, `stack:FUNCTION;FUNCTION;...`, innermost first: exactly this call
 * stack, and no other that has some of the functions. `mallow watch` writes such lines. */
#ifndef MALLOW_ANALYSE_SUPPRESS_H
#define MALLOW_ANALYSE_SUPPRESS_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct suppression {
    char *pattern;
    bool whole_stack; /* pattern is the functions of a stack, joined by semicolons */
    unsigned line;
    uint64_t blocks, bytes; /* that it suppressed */
};

struct suppressions {
    struct suppression *items;
    size_t count;
};

/* Reads a regular file of at most 64 MiB; on an error nothing is kept, and err names the file and
 * the line. */
int suppressions_read(struct suppressions *s, const char *path, struct error *err);
/* Appends a stack to the file at path, which is made if it is not there. comment: a line that says
 * what this is; stack: functions joined by semicolons. */
int suppressions_append(const char *path, const char *comment, const char *stack,
                        struct error *err);
void suppressions_release(struct suppressions *s);

/* True if `pattern` matches `name`; NULL never matches. */
bool suppression_matches(const char *pattern, const char *name);

/* How many matched nothing. */
size_t suppressions_unused(const struct suppressions *s);

#endif
