/* command.h - what a command is, and what a command may use to talk to people.
 *
 * Each cmd_NAME.c defines `const struct command command_NAME` and is listed by one line in
 * commands.c and one in meson.build. main.c parses the options and checks the number of operands;
 * run() gets them ready-made. Only src/cli prints messages; errors of the layers below arrive as
 * struct error and leave through command_fail. */
#ifndef MALLOW_CLI_COMMAND_H
#define MALLOW_CLI_COMMAND_H

#include "base/error.h"
#include "base/note.h"
#include "cli/options.h"
#include "show/terminal.h"

/* Exit statuses. `record` and its like return the program's own, or EXIT_NOT_*. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_UNKNOWN = 3,          /* a limit of --fail-above could not be judged */
    EXIT_MALLOW_FAILED = 125,  /* mallow itself failed before the program ran */
    EXIT_CANNOT_EXECUTE = 126, /* the program was found and could not be executed */
    EXIT_NOT_FOUND = 127
};

enum command_flags {
    COMMAND_PROGRAM = 1, /* options end at the first operand, which is a program with arguments */
    COMMAND_FILES = 2,   /* operands are files; for completion */
    COMMAND_PIDS = 4,    /* the first operand is a process id; for completion */
    COMMAND_CHECKS = 8   /* run() calls options_check itself, once it knows all options */
};

struct command {
    const char *name;
    const char *summary;     /* one line of `mallow help`, lower case, no full stop */
    const char *operands;    /* as in the usage line: "FILE", "[--] PROGRAM [ARGS...]", "" */
    const char *description; /* paragraphs of `--help`, wrapped by hand at 78 columns */
    void (*list)(void);      /* prints a list behind them; NULL: none */
    const char *remarks;     /* paragraphs behind the list; NULL: none */
    const struct option_spec *options; /* ends with OPTION_END; never NULL */
    const void *defaults;              /* struct of options before parsing; NULL: all zero */
    size_t options_bytes;              /* sizeof that struct; 0 for none */
    int min_operands, max_operands;    /* max -1: no limit */
    unsigned flags;                    /* enum command_flags */

    /* Returns the exit status. options: the filled struct. operands[operand_count] is NULL. */
    int (*run)(const struct command *self, const void *options, char **operands, int operand_count);
};

/* All commands, in the order of `mallow help`, NULL at the end. In commands.c. */
extern const struct command *const commands[];

/* The command of this name, or NULL. */
const struct command *command_find(const char *name);

/* The most similar command's name for a mistyped one, or NULL when nothing is near. */
const char *command_suggest(const char *name);

/* Prints `mallow NAME: MESSAGE` as one line on stderr; returns EXIT_USAGE. The message names the
 * mistake and the remedy. */
int command_usage(const struct command *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints `mallow NAME: ERR` on stderr; returns EXIT_FAILED (EXIT_USAGE for ERROR_USAGE). */
int command_fail(const struct command *c, const struct error *err);

/* The same for want of memory, where there is no error yet. */
int command_no_memory(const struct command *c);

/* Prints `mallow NAME: MESSAGE` on stderr, for what the user should know although the command goes
 * on. */
void command_warn(const struct command *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* command_warn as a note, for code below cli/. */
struct note command_note(const struct command *c);

/* Call before exiting 0 after printing results: flushes stdout and says so, with EXIT_FAILED, when
 * the output did not arrive (a full disk, a closed pipe). */
int command_finish(const struct command *c);

#endif
