/* cmd_help.c - `mallow help`: the commands, one command, and the shell completions. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"
#include "cli/completion.h"

struct help_options {
    int completion; /* 0 none given */
};

static const struct option_spec specs[] = {
    {.name = "completion",
     .kind = OPTION_CHOICE,
     .offset = offsetof(struct help_options, completion),
     .value = "bash|zsh|fish",
     .help = "print the completion script for this shell instead"},
    OPTION_END,
};

static const struct help_options defaults = {.completion = -1};

static void print_commands(void)
{
    puts("usage: mallow COMMAND [OPTIONS] [ARGUMENTS]\n"
         "\n"
         "Records what a program does with its memory, and says where the memory went.\n"
         "\n"
         "Commands:");
    for (const struct command *const *c = commands; *c; c++)
        printf("  %-10s %s\n", (*c)->name, (*c)->summary);
    puts("\n"
         "  --version  print the version\n"
         "\n"
         "'mallow COMMAND --help' shows the options of a command.");
}

static int run_help(const struct command *self, const void *options, char **operands,
                    int operand_count)
{
    const struct help_options *o = options;
    if (o->completion == 0)
        completion_print_bash();
    else if (o->completion == 1)
        completion_print_zsh();
    else if (o->completion == 2)
        completion_print_fish();
    else if (operand_count == 0)
        print_commands();
    else {
        const struct command *c = command_find(operands[0]);
        if (!c) {
            const char *near = command_suggest(operands[0]);
            if (near)
                return command_usage(self, "unknown command '%s'; did you mean '%s'?", operands[0],
                                     near);
            return command_usage(self, "unknown command '%s'; 'mallow help' lists the commands",
                                 operands[0]);
        }
        options_print_help(c);
    }
    return command_finish(self);
}

const struct command command_help = {
    .name = "help",
    .summary = "what the commands are, and what each can do",
    .operands = "[COMMAND]",
    .description = "Lists the commands, or shows what COMMAND does and which options it takes.",
    .options = specs,
    .defaults = &defaults,
    .options_bytes = sizeof(struct help_options),
    .max_operands = 1,
    .run = run_help,
};
