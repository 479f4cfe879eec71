/* settings.h - which variables of an environment are an allocator's settings.
 *
 * Owns: the list. They are recorded always: they hold no secrets, and without them the caches and
 * thresholds of glibc are not known. Pure; no libc, so that the preloaded libraries ask as well. */
#ifndef MALLOW_FORMAT_SETTINGS_H
#define MALLOW_FORMAT_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* `entry` is NAME=VALUE, of which the first MLW_SETTING_BYTES bytes are there, or all with their
 * NUL. True: it is a setting. */
#define MLW_SETTING_BYTES 16u
static inline __attribute__((unused)) bool mlw_is_setting(const char *entry)
{
    /* glibc cuts GLIBC_TUNABLES at its colons in place: the rest looks like other variables. */
    static const char *const begins[] = {"GLIBC_TUNABLES=", "glibc.malloc.", "MALLOC_",
                                         "_RJEM_MALLOC_",   "MIMALLOC_",     "TCMALLOC_"};
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
        size_t n = 0;
        while (begins[i][n] && entry[n] == begins[i][n])
            n++;
        if (!begins[i][n])
            return true;
    }
    return false;
}

#endif
