/* path.c - see path.h. */
#include "base/path.h"

#include <string.h>

const char *path_base_name(const char *path)
{
    const char *slash = path ? strrchr(path, '/') : NULL;
    return slash && slash[1] ? slash + 1 : path;
}
