/* pattern.c - Compiles and matches patterns of names: shell globs, or extended regular
 * expressions between slashes. A glob also matches a C++ function without its parameter list. */
#include "analyse/pattern.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

int pattern_compile(struct pattern *p, const char *text, struct error *err)
{
    size_t n = strlen(text);
    memset(p, 0, sizeof *p);
    p->text = text;
    if (n == 0)
        return error_set(err, ERROR_USAGE, "the pattern is empty");
    if (n < 2 || text[0] != '/' || text[n - 1] != '/')
        return 0;
    char *inner = strndup(text + 1, n - 2);
    if (!inner)
        return error_memory(err);
    int bad = regcomp(&p->regex, inner, REG_EXTENDED | REG_NOSUB);
    free(inner);
    if (bad) {
        char why[128];
        regerror(bad, &p->regex, why, sizeof why);
        return error_set(err, ERROR_USAGE, "'%s' is not an extended regular expression: %s", text,
                         why);
    }
    p->is_regex = true;
    return 0;
}

size_t pattern_bare_length(const char *name)
{
    size_t n = strlen(name), depth = 0;
    for (size_t i = n; i-- > 0;) {
        if (name[i] == ')')
            depth++;
        else if (name[i] == '(' && depth && --depth == 0)
            return i;
    }
    return n;
}

bool pattern_matches(const struct pattern *p, const char *name)
{
    if (!name)
        return false;
    if (p->is_regex)
        return regexec(&p->regex, name, 0, NULL, 0) == 0;
    if (fnmatch(p->text, name, 0) == 0)
        return true;
    size_t bare = pattern_bare_length(name);
    if (bare == 0 || !name[bare])
        return false;
    char *cut = strndup(name, bare);
    bool yes = cut && fnmatch(p->text, cut, 0) == 0;
    free(cut);
    return yes;
}

void pattern_release(struct pattern *p)
{
    if (p->is_regex)
        regfree(&p->regex);
    memset(p, 0, sizeof *p);
}
