/* tunables.h - the tunables of glibc's malloc in an environment.
 *
 * Owns: how they are written: GLIBC_TUNABLES=glibc.malloc.NAME=VALUE:... Which of them a version
 * takes, and what they do, is the caller's. Pure functions; no memory. */
#ifndef MALLOW_MODEL_TUNABLES_H
#define MALLOW_MODEL_TUNABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define TUNABLES_VARIABLE "GLIBC_TUNABLES="
#define TUNABLE_PREFIX    "glibc.malloc."

/* Behind `prefix`, where `text` begins with it; else NULL. */
static inline const char *tunables_after(const char *text, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* Where the tunables of a variable begin; "" where it has none. glibc cuts GLIBC_TUNABLES at its
 * colons in place: the rest looks like other variables. */
static inline const char *tunables_of(const char *variable)
{
    const char *const all = tunables_after(variable, TUNABLES_VARIABLE);
    return all ? all : tunables_after(variable, TUNABLE_PREFIX) ? variable : "";
}

struct tunable {
    const char *name; /* behind the prefix */
    size_t name_bytes;
    const char *value; /* ends with a colon or NUL */
};

/* The next tunable of malloc from *at on, which moves behind it. False: there is none. */
static inline bool tunables_next(const char **at, struct tunable *t)
{
    while (**at) {
        const size_t n = strcspn(*at, ":");
        const char *const name = tunables_after(*at, TUNABLE_PREFIX);
        const char *const equals = memchr(*at, '=', n);
        *at += n + ((*at)[n] != 0);
        if (!name || !equals || equals <= name)
            continue;
        *t = (struct tunable){name, (size_t)(equals - name), equals + 1};
        return true;
    }
    return false;
}

#endif
