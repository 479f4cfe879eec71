/* path.h - paths as text. Pure functions; any thread. */
#ifndef MALLOW_BASE_PATH_H
#define MALLOW_BASE_PATH_H

/* What follows the last slash; the whole path when nothing does. NULL: NULL. Into `path`. */
const char *path_base_name(const char *path);

#endif
