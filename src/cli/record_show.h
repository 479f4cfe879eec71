/* record_show.h - what became of a recording, on standard error. */
#ifndef MALLOW_CLI_RECORD_SHOW_H
#define MALLOW_CLI_RECORD_SHOW_H

#include "cli/command.h"
#include "record/record.h"

/* A line for each thing that is not in the recording, or not as it should be. */
void record_say_losses(const struct command *self, const struct record_result *r);

/* Where the recording is, and what to do with it. */
void record_say_result(const struct command *self, const struct record_result *r);

#endif
