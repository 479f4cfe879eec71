/* error.c - see error.h. */
#include "error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, enum error_kind kind, const char *format, ...)
{
    va_list ap;
    e->kind = kind;
    e->number = 0;
    va_start(ap, format);
    vsnprintf(e->text, sizeof e->text, format, ap);
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
    int n = vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", strerror(saved));
    errno = saved;
    return -1;
}

int error_prefix(struct error *e, const char *format, ...)
{
    char old[sizeof e->text];
    va_list ap;
    memcpy(old, e->text, sizeof old);
    va_start(ap, format);
    int n = vsnprintf(e->text, sizeof e->text, format, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof e->text)
        snprintf(e->text + n, sizeof e->text - (size_t)n, ": %s", old);
    return -1;
}
