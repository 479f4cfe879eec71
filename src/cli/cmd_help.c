/* cmd_help.c - `mallow help`: the commands, one command, and the shell completions. */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

/* Shell completion scripts, made from the table of commands. Prints on stdout. */

static bool is_end(const struct option_spec *o) { return !o->letter && !o->name; }

/* ---- bash ---- */

/* `-o|--output` as a case pattern. */
static void bash_pattern(const struct option_spec *o)
{
    if (o->letter)
        printf("-%c", o->letter);
    if (o->letter && o->name)
        putchar('|');
    if (o->name)
        printf("--%s", o->name);
}

static void bash_values(const struct command *c)
{
    puts("        case $previous in");
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        if (o->kind == OPTION_FLAG)
            continue;
        printf("        ");
        bash_pattern(o);
        printf(") ");
        if (o->kind == OPTION_CHOICE) {
            printf("COMPREPLY=($(compgen -W '");
            for (const char *p = o->value; *p; p++)
                putchar(*p == '|' ? ' ' : *p);
            printf("' -- \"$current\"))");
        } else if (o->completion == VALUE_FILE)
            printf("COMPREPLY=($(compgen -f -- \"$current\"))");
        else if (o->completion == VALUE_DIRECTORY)
            printf("COMPREPLY=($(compgen -d -- \"$current\"))");
        else if (o->completion == VALUE_PID)
            printf("_mallow_pids");
        else
            printf("COMPREPLY=()");
        puts("; return ;;");
    }
    puts("        esac");
}

static void bash_command(const struct command *c)
{
    printf("    %s)\n", c->name);
    bash_values(c);
    printf("        words='");
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        if (o->letter)
            printf("-%c ", o->letter);
        if (o->name)
            printf("--%s ", o->name);
    }
    puts("-h --help'");
    printf("        operands=%s ;;\n", c->flags & COMMAND_PROGRAM ? "program"
                                       : c->flags & COMMAND_PIDS  ? "pids"
                                       : c->flags & COMMAND_FILES ? "files"
                                       : !strcmp(c->name, "help") ? "commands"
                                                                  : "none");
}

static void completion_print_bash(void)
{
    puts("# bash completion for mallow; made by 'mallow help --completion=bash'\n"
         "_mallow_pids()\n"
         "{\n"
         "    local p pids=''\n"
         "    for p in /proc/[0-9]*; do pids+=\" ${p#/proc/}\"; done\n"
         "    COMPREPLY=($(compgen -W \"$pids\" -- \"$current\"))\n"
         "}\n"
         "\n"
         "_mallow()\n"
         "{\n"
         "    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n"
         "    local command=${COMP_WORDS[1]} words='' operands=none i");
    printf("    local commands='");
    for (const struct command *const *c = commands; *c; c++)
        printf("%s%s", c == commands ? "" : " ", (*c)->name);
    puts("'\n"
         "    COMPREPLY=()\n"
         "    # --name=value arrives as three words\n"
         "    if [[ $current == = ]]; then current=''\n"
         "    elif [[ $previous == = ]]; then previous=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
         "    if ((COMP_CWORD == 1)); then\n"
         "        COMPREPLY=($(compgen -W \"$commands --help --version\" -- \"$current\"))\n"
         "        return\n"
         "    fi\n"
         "    case $command in");
    for (const struct command *const *c = commands; *c; c++)
        bash_command(*c);
    puts("    *) return ;;\n"
         "    esac\n"
         "    if [[ $current == -* ]]; then\n"
         "        COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
         "        return\n"
         "    fi\n"
         "    case $operands in\n"
         "    files) COMPREPLY=($(compgen -f -- \"$current\")) ;;\n"
         "    program) COMPREPLY=($(compgen -c -f -- \"$current\")) ;;\n"
         "    commands) COMPREPLY=($(compgen -W \"$commands\" -- \"$current\")) ;;\n"
         "    pids) _mallow_pids ;;\n"
         "    esac\n"
         "}\n"
         "complete -o filenames -F _mallow mallow");
}

/* ---- zsh ---- */

/* Text inside '...[...]' of _arguments: quotes, brackets and colons need care. */
static void zsh_text(const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", stdout);
        else {
            if (strchr("[]:\\", *text))
                putchar('\\');
            putchar(*text);
        }
    }
}

static void zsh_value(const struct option_spec *o)
{
    putchar(':');
    if (o->kind == OPTION_CHOICE) {
        fputs("value:(", stdout);
        for (const char *p = o->value; *p; p++)
            putchar(*p == '|' ? ' ' : *p);
        putchar(')');
        return;
    }
    zsh_text(o->value);
    fputs(o->completion == VALUE_FILE        ? ":_files"
          : o->completion == VALUE_DIRECTORY ? ":_files -/"
          : o->completion == VALUE_PID       ? ":_pids"
                                             : ": ",
          stdout);
}

static void zsh_option(const struct option_spec *o, const char *name, const char *tail)
{
    fputs("            ", stdout);
    putchar('\'');
    if (o->kind == OPTION_TEXTS)
        putchar('*');
    printf("%s%s[", name, o->kind == OPTION_FLAG ? "" : tail);
    zsh_text(o->help);
    putchar(']');
    if (o->kind != OPTION_FLAG)
        zsh_value(o);
    fputs("' \\\n", stdout);
}

static void zsh_command(const struct command *c)
{
    char name[80];
    printf("        %s)\n        _arguments -s -S \\\n", c->name);
    for (const struct option_spec *o = c->options; !is_end(o); o++) {
        if (o->letter) {
            snprintf(name, sizeof name, "-%c", o->letter);
            zsh_option(o, name, "+");
        }
        if (o->name) {
            snprintf(name, sizeof name, "--%s", o->name);
            zsh_option(o, name, "=");
        }
    }
    puts("            '(-)-h[print this help]' \\\n"
         "            '(-)--help[print this help]' \\");
    printf("            %s ;;\n", c->flags & COMMAND_PROGRAM ? "'*::program:_normal'"
                                  : c->flags & COMMAND_PIDS  ? "'1:process:_pids' '*: :'"
                                  : c->flags & COMMAND_FILES ? "'*:file:_files'"
                                  : !strcmp(c->name, "help") ? "'1:command:->commands'"
                                                             : "'*: :'");
}

static void completion_print_zsh(void)
{
    puts("#compdef mallow\n"
         "# zsh completion for mallow; made by 'mallow help --completion=zsh'\n"
         "_mallow()\n"
         "{\n"
         "    local curcontext=$curcontext state line\n"
         "    local -a commands\n"
         "    commands=(");
    for (const struct command *const *c = commands; *c; c++) {
        printf("        '%s:", (*c)->name);
        zsh_text((*c)->summary);
        puts("'");
    }
    puts("    )\n"
         "    _arguments -C \\\n"
         "        '(- *)--help[list the commands]' \\\n"
         "        '(- *)--version[print the version]' \\\n"
         "        '1:command:->commands' \\\n"
         "        '*::argument:->arguments'\n"
         "    case $state in\n"
         "    commands) _describe -t commands 'mallow command' commands ;;\n"
         "    arguments)\n"
         "        case $words[1] in");
    for (const struct command *const *c = commands; *c; c++)
        zsh_command(*c);
    puts("        esac\n"
         "        [[ $state == commands ]] && _describe -t commands 'mallow command' commands ;;\n"
         "    esac\n"
         "}\n"
         "_mallow \"$@\"");
}

/* ---- fish ---- */

/* Text between single quotes. */
static void fish_text(const char *text)
{
    putchar('\'');
    for (; *text; text++) {
        if (*text == '\'' || *text == '\\')
            putchar('\\');
        putchar(*text);
    }
    putchar('\'');
}

/* The beginning of a line that holds after the command `name`. */
static void fish_after(const char *name)
{
    printf("complete -c mallow -n '__fish_seen_subcommand_from %s'", name);
}

static void fish_option(const struct command *c, const struct option_spec *o)
{
    fish_after(c->name);
    if (o->letter)
        printf(" -s %c", o->letter);
    if (o->name)
        printf(" -l %s", o->name);
    if (o->kind == OPTION_CHOICE) {
        fputs(" -x -a '", stdout);
        for (const char *p = o->value; *p; p++)
            putchar(*p == '|' ? ' ' : *p);
        putchar('\'');
    } else if (o->kind != OPTION_FLAG)
        fputs(o->completion == VALUE_FILE        ? " -r -F"
              : o->completion == VALUE_DIRECTORY ? " -x -a '(__fish_complete_directories)'"
              : o->completion == VALUE_PID       ? " -x -a '(__fish_complete_pids)'"
                                                 : " -x",
              stdout);
    fputs(" -d ", stdout);
    fish_text(o->help);
    putchar('\n');
}

static void fish_command(const struct command *c)
{
    for (const struct option_spec *o = c->options; !is_end(o); o++)
        fish_option(c, o);
    fish_after(c->name);
    puts(" -s h -l help -d 'print this help'");
    fish_after(c->name);
    puts(c->flags & COMMAND_PROGRAM ? " -x -a '(__fish_complete_subcommand)'"
         : c->flags & COMMAND_PIDS  ? " -x -a '(__fish_complete_pids)'"
         : c->flags & COMMAND_FILES ? " -F"
         : !strcmp(c->name, "help") ? " -x -a \"$__mallow_commands\""
                                    : " -f");
}

static void completion_print_fish(void)
{
    puts("# fish completion for mallow; made by 'mallow help --completion=fish'");
    fputs("set -g __mallow_commands", stdout);
    for (const struct command *const *c = commands; *c; c++)
        printf(" %s", (*c)->name);
    puts("\n"
         "complete -c mallow -n __fish_use_subcommand -f -l help -d 'list the commands'\n"
         "complete -c mallow -n __fish_use_subcommand -f -l version -d 'print the version'");
    for (const struct command *const *c = commands; *c; c++) {
        printf("complete -c mallow -n __fish_use_subcommand -f -a %s -d ", (*c)->name);
        fish_text((*c)->summary);
        putchar('\n');
    }
    for (const struct command *const *c = commands; *c; c++)
        fish_command(*c);
}

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
