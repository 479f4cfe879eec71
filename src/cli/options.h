/* options.h - the options of a command as a table: parsing, help and completion come from it.
 *
 * A command describes its options once; the parser fills a struct of the command's own, and the
 * same table makes `--help`, the completions, and the check that the man page names each option.
 *
 *     struct report_options { const char *filter; uint64_t top; bool json; };
 *     static const struct option_spec specs[] = {
 *         {'n', NULL, OPTION_COUNT, offsetof(struct report_options, top), "N",
 *          "print the first N sites (default 20)"},
 *         {0, "json", OPTION_FLAG, offsetof(struct report_options, json), NULL,
 *          "one JSON document instead of text"},
 *         OPTION_END};
 *
 * Spellings: `--name VALUE`, `--name=VALUE`, `-n VALUE`, `-nVALUE`, `-ab` for flags; `--` ends the
 * options. -h and --help are there without being in the table. Names are not abbreviated. The last
 * of a repeated option wins, except OPTION_TEXTS, which collects. */
#ifndef MALLOW_CLI_OPTIONS_H
#define MALLOW_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text_list.h"

enum option_kind {
    OPTION_FLAG,       /* bool: true when given; takes no value */
    OPTION_TEXT,       /* const char *: the value, borrowed from argv */
    OPTION_TEXTS,      /* struct text_list: every value given, in order; the items are freed by the
                        * caller      of command->run */
    OPTION_COUNT,      /* uint64_t: a whole number */
    OPTION_SIZE,       /* uint64_t: bytes; K M G as in base/human.h */
    OPTION_DURATION,   /* uint64_t: nanoseconds; ms s m h */
    OPTION_CHOICE,     /* int: index of the value in option_spec.value, "first|second|third" */
    OPTION_SIZE_RANGE, /* struct option_range: FROM..TO, FROM.., ..TO; sizes */
    OPTION_TIME_RANGE  /* struct option_span: the same with durations, or names of marks */
};

/* Both ends belong to the range. A side left out is 0 or UINT64_MAX. An option that was not given
 * leaves the command's default: use {0, UINT64_MAX} for everything. */
struct option_range {
    uint64_t from, to;
};

/* `range` is all there is to it when both sides are durations or left out. Otherwise it is
 * everything, and `text` says what: borrowed from argv, NULL when the option was not given. */
struct option_span {
    struct option_range range;
    const char *text;
    bool marks;
};

/* The kind of a value, for completion only. */
enum option_value { VALUE_OTHER = 0, VALUE_FILE, VALUE_DIRECTORY, VALUE_PID };

struct option_spec {
    char letter;      /* 'o' for -o; 0 for none */
    const char *name; /* "stacks" for --stacks; NULL for none; one of the two is needed */
    enum option_kind kind;
    size_t offset;             /* offset of the field in the command's struct of options */
    const char *value;         /* name of the value in help: "FILE"; the choices of OPTION_CHOICE */
    const char *help;          /* one sentence, lower case, no period; states the default */
    uint64_t minimum, maximum; /* OPTION_COUNT, _SIZE, _DURATION: bounds; both 0 for none */
    enum option_value completion;
    const char *with; /* "listen|p": means something only with one of these, which are long names
                         or, alone, letters; NULL: nothing is needed */
    const char *not_with; /* the same: excludes each of these */
};

/* Ends a table. */
#define OPTION_END                                                                                 \
    {                                                                                              \
        0, NULL, OPTION_FLAG, 0, NULL, NULL, 0, 0, VALUE_OTHER, NULL, NULL                         \
    }

struct command;

enum options_result { OPTIONS_OK, OPTIONS_HELP, OPTIONS_BAD };

/* Parses argv[1..argc-1] by the table of `command` into `into`, which holds the defaults. argv is
 * reordered: *operands points at the operand_count operands in it. With COMMAND_PROGRAM, options
 * end at the first operand. OPTIONS_BAD: one line has been printed on stderr. */
enum options_result options_parse(const struct command *command, int argc, char **argv, void *into,
                                  char ***operands, int *operand_count);

/* Checks the relations of the options that differ from the defaults. 0, or EXIT_USAGE with one line
 * on stderr. */
int options_check(const struct command *command, const void *options);

/* Frees the lists that options_parse made in `into`. */
void options_release(const struct command *command, void *into);

/* --- the same options from elsewhere --- */

#define OPTIONS_MOST 128u /* options of a command that takes them from elsewhere */

/* Stores an option of this long name; a flag is yes or no. place: where it stands, for messages.
 * taken: one for each option, false at first: only lists are given twice. 0, or EXIT_USAGE with one
 * line on stderr. The value is borrowed. */
int options_set(const struct command *command, const char *place, const char *name,
                const char *value, bool taken[OPTIONS_MOST], void *into);
/* Puts the options of the command line, those that differ from the defaults, over `into`. Lists
 * then belong to both. */
void options_overlay(const struct command *command, const void *given, void *into);
/* Frees the lists of `into` that are not those of `given`. */
void options_release_others(const struct command *command, const void *given, void *into);
/* True if an option is the same in both. */
bool options_same(const struct option_spec *option, const void *a, const void *b);

/* Prints the help of a command on stdout. */
void options_print_help(const struct command *command);

/* How many single-character edits (insert, delete, replace, swap neighbors) turn a into b; for "did
 * you mean". Texts longer than 63 characters count as far away. */
unsigned options_distance(const char *a, const char *b);

#endif
