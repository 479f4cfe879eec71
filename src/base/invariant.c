/* invariant.c - ends the program where its own state contradicts itself. */
#include "base/invariant.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

void invariant_broken(const char *condition, const char *file, int line)
{
    fflush(stdout);
    text_printf(stderr, "mallow: %s:%d: this must hold and does not: %s\n", file, line, condition);
    abort();
}
