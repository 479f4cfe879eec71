/* library.h - where the preloaded libraries are on this machine. Reads the file system only. */
#ifndef MALLOW_INSPECT_LIBRARY_H
#define MALLOW_INSPECT_LIBRARY_H

#include <limits.h>

#include "base/error.h"

/* Finds `name` ("libmallow-record.so") and puts its absolute path, links resolved, into `path`.
 * Looks beside the running executable in lib/ (a run from the build directory), then in the library
 * directory as it lies relative to the executable (an installation that was moved), then where it
 * was installed. Returns 0; -1 with *err naming every place that was tried. */
int inspect_find_library(const char *name, char path[PATH_MAX], struct error *err);

#endif
