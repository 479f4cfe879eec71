/* path.c - Takes a path apart as text: the last component, and the mark " (deleted)" that /proc
 * adds. */
#include "base/path.h"

#include <string.h>

const char *path_base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}

bool path_take_deleted(char *path)
{
    static const char deleted[] = " (deleted)";
    const size_t n = strlen(path), mark = sizeof deleted - 1;
    if (n <= mark || strcmp(path + n - mark, deleted) != 0)
        return false;
    path[n - mark] = 0;
    return true;
}
