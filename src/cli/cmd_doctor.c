/* cmd_doctor.c - `mallow doctor`: what works on this machine, and with a program. */
#include "cli/command.h"
#include "doctor/doctor.h"

struct doctor_options {
    bool json;
};

static const struct option_spec specs[] = {
    {.name = "json",
     .kind = OPTION_FLAG,
     .offset = offsetof(struct doctor_options, json),
     .help = "one JSON document instead of text"},
    OPTION_END,
};

static int run_doctor(const struct command *self, const void *options, char **operands,
                      int operand_count)
{
    const struct doctor_options *o = options;
    static struct doctor_findings s;
    struct error err;
    if (doctor_find(&s, operand_count ? operands[0] : NULL, !operand_count, &err))
        return command_fail(self, &err);
    if (o->json)
        doctor_print_json(&s);
    else
        doctor_print_text(&s);
    const int status = command_finish(self);
    return doctor_passes(&s) ? status : EXIT_FAILED;
}

const struct command command_doctor = {
    .name = "doctor",
    .summary = "what works on this machine, and the commands that fix what does not",
    .operands = "[PROGRAM]",
    .description =
        "Looks at what recording and reading need of this machine and says for each\n"
        "thing how it is, the effect without it, and the command that fixes it. With\n"
        "PROGRAM, also says whether that program can be recorded: a static, setuid or\n"
        "32-bit program, or one that brings its own malloc, cannot, or only in part.\n"
        "\n"
        "Exit status: 0 when recording works here (and for PROGRAM), 1 when it does not.",
    .options = specs,
    .options_bytes = sizeof(struct doctor_options),
    .max_operands = 1,
    .flags = COMMAND_PROGRAM,
    .run = run_doctor,
};
