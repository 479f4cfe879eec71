/* commands.c - the table of commands: one line each, in the order of `mallow help`. */
#include <stddef.h>

#include "cli/command.h"

extern const struct command command_record;
extern const struct command command_report;
extern const struct command command_diff;
extern const struct command command_dump;
extern const struct command command_export;
extern const struct command command_workload;
extern const struct command command_replay;
extern const struct command command_compare;
extern const struct command command_tune;
extern const struct command command_advise;
extern const struct command command_probe;
extern const struct command command_watch;
extern const struct command command_heap;
extern const struct command command_control;
extern const struct command command_doctor;
extern const struct command command_import;
extern const struct command command_push;
extern const struct command command_pull;
extern const struct command command_fleet;
extern const struct command command_help;

const struct command *const commands[] = {
    &command_record,   &command_report, &command_dump,
    &command_diff,     &command_export, &command_import,
    &command_workload, &command_replay, &command_compare,
    &command_tune,     &command_advise, &command_probe,
    &command_watch,    &command_heap,   &command_push,
    &command_pull,     &command_fleet,  &command_control,
    &command_doctor,   &command_help,   NULL,
};
