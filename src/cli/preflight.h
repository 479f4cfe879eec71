/* preflight.h - before a program is run under one of mallow's libraries: can that work? */
#ifndef MALLOW_CLI_PREFLIGHT_H
#define MALLOW_CLI_PREFLIGHT_H

#include "cli/command.h"
#include "inspect/inspect.h"

/* Says on stderr what speaks against running argv (argv[0] found as execvp would) under a preloaded
 * library. Returns 0 to go on, or the exit status; with force only what can never run is refused.
 */
int preflight(const struct command *self, char *const argv[], bool force);

/* Finds the program as the shell would. Returns 0, or the exit status that a shell would use; said.
 */
int preflight_find(const struct command *self, const char *name, struct inspect *found);

/* The path of libmallow-arenas.so, static, when it can be loaded into the program; else NULL, and
 * why not in *why_not. */
const char *preflight_arenas(const struct inspect *found, const char **why_not);

#endif
