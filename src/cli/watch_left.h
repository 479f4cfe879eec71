/* watch_left.h - `mallow watch --left`: what watched processes that died left behind. */
#ifndef MALLOW_CLI_WATCH_LEFT_H
#define MALLOW_CLI_WATCH_LEFT_H

#include <stdbool.h>

#include "cli/command.h"

/* Lists it, or removes it; returns the exit status. */
int watch_left(const struct command *self, bool clear, bool json);

#endif
