#include "cli/preflight.h"

#include <errno.h>

#include "inspect/inspect.h"

enum { REASONS_MAX = 12 };

int preflight(const struct command *self, const char *name, bool force)
{
    static struct inspect found;
    static struct inspect_reason reasons[REASONS_MAX];
    struct error err;
    size_t count = 0;
    if (inspect_program(name, &found, &err)) {
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
    command_warn(self, "'%s' was not run (--force runs it all the same)", name);
    return EXIT_MALLOW_FAILED;
}
