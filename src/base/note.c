/* note.c - formats the lines that code below cli/ hands to its caller. */
#include "base/note.h"

#include <stdarg.h>

#include "base/text.h"

void note_line(const struct note *n, const char *format, ...)
{
    char text[1024];
    va_list ap;
    if (!n->line)
        return;
    va_start(ap, format);
    text_format(text, sizeof text, format, ap);
    va_end(ap);
    n->line(n->arg, text);
}
