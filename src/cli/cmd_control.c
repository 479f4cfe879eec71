/* cmd_control.c - `mallow control`: steers the recording of a program that runs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/proc.h"
#include "cli/command.h"
#include "show/output.h"
#include "heap/heap.h"
#include "record/control.h"

enum { LABEL_BYTES = 4000 };

struct control_cli {
    bool heap;
    const char *output;
};

static const struct option_spec specs[] = {
    {0, "heap", OPTION_FLAG, offsetof(struct control_cli, heap), NULL,
     "with snapshot: also save the heap of the process, for 'mallow heap'"},
    {'o', "output", OPTION_TEXT, offsetof(struct control_cli, output), "FILE",
     "save it as FILE (default mallow.PROGRAM.PID.mlh)", .completion = VALUE_FILE, .with = "heap"},
    OPTION_END,
};

/* mallow.PROGRAM.PID.mlh, as a recording is named. */
static void heap_name(uint64_t pid, char *name, size_t room)
{
    char comm[32];
    (void)proc_read((pid_t)pid, "comm", comm, sizeof comm);
    comm[strcspn(comm, "\n")] = 0;
    for (char *c = comm; *c; c++)
        if (*c == '/' || *c <= ' ' || *c > '~')
            *c = '_';
    snprintf(name, room, "mallow.%s.%" PRIu64 ".mlh", *comm ? comm : "program", pid);
}

static int save_heap(const struct command *self, const struct control_cli *cli, uint64_t pid)
{
    char name[128], target[32];
    struct output output = {0};
    struct error err;
    heap_name(pid, name, sizeof name);
    const char *path = cli->output ? cli->output : name;
    snprintf(target, sizeof target, "%" PRIu64, pid);
    if (output_must_be_regular(path, "a heap", &err) || output_open(&output, path, &err))
        return command_fail(self, &err);
    const struct heap_options how = {.save = output.file};
    struct heap *h = heap_read(target, &how, &err);
    int status = h ? 0 : -1;
    if (output_close(&output, h != NULL, &err))
        status = -1;
    if (h && !heap_facts(h)->verified)
        command_warn(self, "the heap could not be verified: %s", heap_facts(h)->reason);
    heap_free(h);
    if (status)
        return command_fail(self, &err);
    command_warn(self, "saved the heap as %s", path);
    return EXIT_DONE;
}

static int run_control(const struct command *self, const void *options, char **operands,
                       int operand_count)
{
    const struct control_cli *cli = options;
    uint64_t pid;
    if (!human_parse_count(operands[0], &pid) || pid == 0 || pid > INT32_MAX)
        return command_usage(self, "'%s' is not a process id", operands[0]);
    int action = control_action_named(operands[1]);
    if (action < 0)
        return command_usage(self,
                             "unknown action '%s'; start, stop, pause, unpause, sync, reset, mark "
                             "LABEL, snapshot or dump FILE",
                             operands[1]);
    const char *label = operand_count > 2 ? operands[2] : NULL;
    if (action == CONTROL_MARK && !label)
        return command_usage(self, "mark needs a label: mallow control %s mark LABEL", operands[0]);
    if (action == CONTROL_DUMP && !label)
        return command_usage(self, "dump needs a file: mallow control %s dump FILE", operands[0]);
    if (action == CONTROL_DUMP && !output_named(label))
        return command_usage(self, "a recording cannot go to standard output; give a file");
    if (action != CONTROL_MARK && action != CONTROL_DUMP && label)
        return command_usage(self, "%s takes no '%s'", operands[1], label);
    if (label && strlen(label) > LABEL_BYTES)
        return command_usage(self, "the label is too long: %d bytes at most", LABEL_BYTES);
    if ((cli->heap || cli->output) && action != CONTROL_SNAPSHOT)
        return command_usage(self, "--heap needs snapshot: mallow control %s snapshot --heap",
                             operands[0]);
    struct error err = {0};
    if (control_run((pid_t)pid, (enum control_action)action, label, NULL, &err)) {
        err.kind = ERROR_SYSTEM; /* a process that is not there is no mistake in the command line */
        return command_fail(self, &err);
    }
    return cli->heap ? save_heap(self, cli, pid) : EXIT_DONE;
}

const struct command command_control = {
    .name = "control",
    .summary = "pause, resume, reset or mark the recording of a running program",
    .operands = "PID ACTION [LABEL|FILE]",
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
        "  snapshot        splits the resident size by kind of mapping now\n"
        "  dump FILE       writes FILE, a recording of all processes until now;\n"
        "                  with 'mallow record --last', of the window\n",
    .options = specs,
    .options_bytes = sizeof(struct control_cli),
    .min_operands = 2,
    .max_operands = 3,
    .flags = COMMAND_PIDS,
    .run = run_control,
};
