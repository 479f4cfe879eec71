/* preflight.c - Inspects a program before it runs under one of mallow's libraries. It prints the
 * reasons why that cannot work or will be incomplete, and returns the exit status if it refuses. */
#include "cli/preflight.h"

#include <errno.h>
#include <limits.h>

#include "inspect/library.h"

enum { REASONS_MAX = 12 };

int preflight(const struct command *self, char *const argv[], bool force)
{
    static struct inspect found;
    static struct inspect_reason reasons[REASONS_MAX];
    struct error err;
    size_t count = 0;
    if (inspect_command(argv, &found, &err)) {
        if (err.number != ENOENT && err.number != EACCES)
            return 0; /* it may still run; exec will say */
        command_warn(self, "%s", err.text);
        return err.number == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE;
    }
    enum inspect_verdict verdict = inspect_judge(&found, reasons, REASONS_MAX, &count);
    for (size_t i = 0; i < count; i++)
        command_warn(self, "%s: %s%s%s", found.path, reasons[i].what,
                     *reasons[i].remedy ? "; " : "", reasons[i].remedy);
    if (verdict != INSPECT_IMPOSSIBLE || force)
        return 0;
    command_warn(self, "'%s' was not run (--force runs it anyway)", argv[0]);
    return EXIT_MALLOW_FAILED;
}

int preflight_find(const struct command *self, const char *name, struct inspect *found)
{
    struct error err;
    if (!inspect_program(name, found, &err))
        return 0;
    command_warn(self, "%s", err.text);
    return err.number == ENOENT   ? EXIT_NOT_FOUND
           : err.number == EACCES ? EXIT_CANNOT_EXECUTE
                                  : EXIT_MALLOW_FAILED;
}

const char *preflight_arenas(const struct inspect *found, const char **why_not)
{
    static char library[PATH_MAX];
    static struct inspect_reason reason;
    static struct error err;
    size_t count = 0;
    *why_not = NULL;
    if (inspect_judge(found, &reason, 1, &count) == INSPECT_IMPOSSIBLE && count)
        *why_not = reason.what;
    else if (*found->linked_sanitizer)
        *why_not = "it is linked with a sanitizer, whose malloc has no arenas and whose "
                   "runtime does not start behind another library that replaces malloc";
    else if (inspect_find_library("libmallow-arenas.so", library, &err))
        *why_not = err.text;
    return *why_not ? NULL : library;
}
