/* record_show.h - what became of a recording, on standard error. */
#ifndef MALLOW_CLI_RECORD_SHOW_H
#define MALLOW_CLI_RECORD_SHOW_H

#include "cli/command.h"
#include "show/output.h"
#include "record/record.h"

/* A line for each thing that is not in the recording, or not as it should be. */
void record_say_losses(const struct command *self, const struct record_result *r);

/* Where the recording is, and what to do with it. */
void record_say_result(const struct command *self, const struct record_result *r);

/* For the lines that are said while it is recorded, and while it is sealed. */
struct record_speaker {
    const struct command *command;
    struct progress progress;
    bool quiet;
};
/* arg: a struct record_speaker; as the callbacks of struct record_options. */
void record_say(void *arg, bool wrong, const char *line);
void record_progress(void *arg, uint64_t done, uint64_t total);

#endif
