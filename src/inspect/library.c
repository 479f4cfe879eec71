/* library.c - Finds a preloaded library: beside the running executable, then below its
 * installation prefix, then in the configured directory. The error lists every path that was
 * tried. */
#include "inspect/library.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"

/* The directory of the running executable, without a slash at the end. */
static int own_folder(char directory[PATH_MAX], struct error *err)
{
    ssize_t n = readlink("/proc/self/exe", directory, PATH_MAX - 1);
    if (n < 0)
        return error_system(err, "cannot read /proc/self/exe, is /proc mounted?");
    directory[n] = 0;
    char *slash = strrchr(directory, '/');
    if (slash)
        *slash = 0;
    return 0;
}

int inspect_find_library(const char *name, char path[PATH_MAX], struct error *err)
{
    char directory[PATH_MAX] = "";
    if (own_folder(directory, err))
        return -1;
    static const char *const relative[] = {"lib", MALLOW_LIBDIR_RELATIVE};
    struct buffer tried = {0};
    for (size_t i = 0; i < 3; i++) {
        struct buffer candidate = {0};
        if (i < 2)
            buffer_printf(&candidate, "%s/%s/%s", directory, relative[i], name);
        else
            buffer_printf(&candidate, "%s/%s", MALLOW_LIBDIR, name);
        const char *text = buffer_text(&candidate);
        bool found = !access(text, R_OK) && realpath(text, path);
        buffer_printf(&tried, "%s%s", i ? ", " : "", text);
        buffer_release(&candidate);
        if (found) {
            buffer_release(&tried);
            return 0;
        }
    }
    error_set(err, ERROR_UNSUPPORTED, "%s is not found; looked for %s", name, buffer_text(&tried));
    buffer_release(&tried);
    return -1;
}
