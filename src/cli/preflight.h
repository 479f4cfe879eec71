/* preflight.h - before a program is run under one of mallow's libraries: can that work? */
#ifndef MALLOW_CLI_PREFLIGHT_H
#define MALLOW_CLI_PREFLIGHT_H

#include "cli/command.h"

/* Says on stderr what speaks against running `name` (found as execvp would) under a preloaded
 * library. Returns 0 to go on, or the exit status; with force only what can never run is refused.
 */
int preflight(const struct command *self, const char *name, bool force);

#endif
