/* path.h - paths as text. Pure functions; any thread. */
#ifndef MALLOW_BASE_PATH_H
#define MALLOW_BASE_PATH_H

#include <stdbool.h>

/* The part behind the last slash; the whole path when there is none. NULL: NULL. Into `path`. */
const char *path_base_name(const char *path);

/* Removes what the kernel says behind the path of a file that has no name any more, in /proc;
 * false: it says nothing of the kind. */
bool path_take_deleted(char *path);

#endif
