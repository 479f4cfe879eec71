/* pattern.h - patterns that people give for names of functions, modules and threads. */
#ifndef MALLOW_ANALYSE_PATTERN_H
#define MALLOW_ANALYSE_PATTERN_H

#include <regex.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* `/RE/` is an extended regular expression that matches anywhere; anything else is a glob (* ?
 * [..]) that matches the whole name. A name with parameters, `f(int)`, also matches without them.
 */
struct pattern {
    const char *text; /* borrowed */
    bool is_regex;
    regex_t regex;
};

int pattern_compile(struct pattern *p, const char *text, struct error *err);
bool pattern_matches(const struct pattern *p, const char *name); /* name NULL: false */
/* Length in bytes of a function's name without its parameters; the whole when it has none. */
size_t pattern_bare_length(const char *name);
void pattern_release(struct pattern *p);

#endif
