/* push_input.h - the file that `mallow push` sends.
 *
 * Owns: standard input in a file of its own. One thread. */
#ifndef MALLOW_CLI_PUSH_INPUT_H
#define MALLOW_CLI_PUSH_INPUT_H

#include "base/error.h"

/* A descriptor of a regular file, the caller's; of a file without a name for "-". -1 with *err. */
int push_open(const char *path, struct error *err);

#endif
