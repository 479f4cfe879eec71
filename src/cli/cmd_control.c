/* cmd_control.c - `mallow control`: steers the recording of a program that runs. */
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "cli/command.h"
#include "record/control.h"

enum { LABEL_BYTES = 4000 };

static const struct option_spec specs[] = {OPTION_END};

static int run(const struct command *self, const void *options, char **operands, int operand_count)
{
    (void)options;
    uint64_t pid;
    if (!human_parse_count(operands[0], &pid) || pid == 0 || pid > INT32_MAX)
        return command_usage(self, "'%s' is no process id", operands[0]);
    int action = control_action_named(operands[1]);
    if (action < 0)
        return command_usage(self,
                             "unknown action '%s'; start, stop, pause, unpause, sync, reset, mark "
                             "LABEL or snapshot",
                             operands[1]);
    const char *label = operand_count > 2 ? operands[2] : NULL;
    if (action == CONTROL_MARK && !label)
        return command_usage(self, "mark needs a label: mallow control %s mark LABEL", operands[0]);
    if (action != CONTROL_MARK && label)
        return command_usage(self, "%s takes no '%s'", operands[1], label);
    if (label && strlen(label) > LABEL_BYTES)
        return command_usage(self, "the label is too long: %d bytes at most", LABEL_BYTES);
    struct error err = {0};
    if (control_run((pid_t)pid, (enum control_action)action, label, NULL, &err)) {
        err.kind = ERROR_SYSTEM; /* a process that is not there is no mistake in the command line */
        return command_fail(self, &err);
    }
    return EXIT_DONE;
}

const struct command command_control = {
    .name = "control",
    .summary = "pause, resume, reset or mark the recording of a running program",
    .operands = "PID ACTION [LABEL]",
    .description =
        "Steers the recording of the process PID, which runs under 'mallow record'; or,\n"
        "when PID is a 'mallow record', of every process of its recording.\n"
        "ACTION is one of\n"
        "\n"
        "  start, stop     begin or end recording\n"
        "  pause, unpause  the same, counted apart: it records when it was started and is\n"
        "                  not paused\n"
        "  sync            everything that was recorded so far is in the file\n"
        "  reset           discard everything recorded so far\n"
        "  mark LABEL      a named moment, for the reports\n"
        "  snapshot        splits the resident size by kind of mapping now\n",
    .options = specs,
    .min_operands = 2,
    .max_operands = 3,
    .flags = COMMAND_PIDS,
    .run = run,
};
