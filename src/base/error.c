/* error.c - Formats the text of an error. Texts pass through text_format, so that names chosen
 * by other users cannot command a terminal. No function here allocates, and error_system leaves
 * errno as it was. */
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

int error_set(struct error *e, enum error_kind kind, const char *format, ...)
{
    va_list ap;
    e->kind = kind;
    e->number = 0;
    va_start(ap, format);
    text_format(e->text, sizeof e->text, format, ap);
    va_end(ap);
    return -1;
}

/* `: ` and what follows, as far as there is room. */
static void append_format(struct error *e, size_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void append_format(struct error *e, size_t n, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    text_format(e->text + n, sizeof e->text - n, format, ap);
    va_end(ap);
}

int error_memory(struct error *e) { return error_set(e, ERROR_MEMORY, "out of memory"); }

int error_memory_for(struct error *e, const char *format, ...)
{
    va_list ap;
    e->kind = ERROR_MEMORY;
    e->number = 0;
    int n = snprintf(e->text, sizeof e->text, "out of memory: ");
    va_start(ap, format);
    text_format(e->text + n, sizeof e->text - (size_t)n, format, ap);
    va_end(ap);
    return -1;
}

int error_system(struct error *e, const char *format, ...)
{
    int saved = errno;
    va_list ap;
    e->kind = ERROR_SYSTEM;
    e->number = saved;
    va_start(ap, format);
    size_t n = text_format(e->text, sizeof e->text, format, ap);
    va_end(ap);
    append_format(e, n, ": %s", strerror(saved));
    errno = saved;
    return -1;
}

int error_prefix(struct error *e, const char *format, ...)
{
    char old[sizeof e->text];
    va_list ap;
    memcpy(old, e->text, sizeof old);
    va_start(ap, format);
    size_t n = text_format(e->text, sizeof e->text, format, ap);
    va_end(ap);
    append_format(e, n, ": %s", old);
    return -1;
}
