/* error.h - how a function below cli/ says that it failed, and why.
 *
 * A function that can fail returns 0 on success and -1 (or NULL) on failure, and fills the
 * struct error that it was given. Nothing here prints. */
#ifndef MALLOW_BASE_ERROR_H
#define MALLOW_BASE_ERROR_H

#include <stdarg.h>

enum error_kind {
    ERROR_NONE = 0,
    ERROR_SYSTEM,     /* a system call failed; `number` is its errno */
    ERROR_FORMAT,     /* bytes that are not what they should be */
    ERROR_USAGE,      /* the caller asked for something that does not exist */
    ERROR_MEMORY,     /* out of memory */
    ERROR_UNSUPPORTED /* cannot work here; the text says why and what to do */
};

struct error {
    enum error_kind kind;
    int number;     /* errno, when kind is ERROR_SYSTEM */
    char text[512]; /* one line, no newline, fit for a terminal (base/text.h); names the action, its
                       object, and why it failed */
};

/* Sets the error, formatted as by text_printf; returns -1, so that `return error_set(...)` reads
 * well.
 */
int error_set(struct error *e, enum error_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ERROR_MEMORY with "out of memory", and for the second with `: ` and what the memory was for. */
int error_memory(struct error *e);
int error_memory_for(struct error *e, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ERROR_SYSTEM with `: ` and the text of errno behind the formatted text; keeps errno. */
int error_system(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts `context: ` before the text that is there. Returns -1. */
int error_prefix(struct error *e, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
