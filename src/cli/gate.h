/* gate.h - judgments by limits, and the status that follows: --annotate, --junit.
 *
 * Owns: how it is said (a line on stderr each, an annotation, a test case) and which status
 * follows: EXIT_FAILED when something is above its limit, else EXIT_UNKNOWN when something could
 * not be judged. */
#ifndef MALLOW_CLI_GATE_H
#define MALLOW_CLI_GATE_H

#include "cli/command.h"

enum gate_outcome { GATE_BELOW, GATE_ABOVE, GATE_UNKNOWN };

/* The options, for a table in which `field` is a struct gate_options. */
struct gate_options {
    int annotate; /* enum gate_annotate */
    const char *junit;
};
enum gate_annotate { GATE_PLAIN, GATE_GITHUB };
#define GATE_SPECS(type, field)                                                                    \
    {0,                                                                                            \
     "annotate",                                                                                   \
     OPTION_CHOICE,                                                                                \
     offsetof(type, field.annotate),                                                               \
     "none|github",                                                                                \
     "also print failures as annotations of a CI service, on standard error",                      \
     .with = "fail-above"},                                                                        \
    {                                                                                              \
        0, "junit", OPTION_TEXT, offsetof(type, field.junit), "OUT",                               \
            "write a JUnit report, a test case a limit, to OUT", .with = "fail-above",             \
                                                                 .completion = VALUE_FILE          \
    }

struct gate_case;

struct gate {
    const struct command *self;
    const struct gate_options *options;
    struct gate_case *cases; /* private from here on */
    size_t count;
    bool failed; /* out of memory */
};

/* Notes one judgment, and says it unless it is GATE_BELOW. name: of the test case, unique. file:
 * of the source it is about; NULL: unknown. The format is the line, without a full stop. */
void gate_judge(struct gate *g, enum gate_outcome outcome, const char *name, const char *file,
                unsigned line, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Writes the JUnit report if asked; returns the exit status, EXIT_DONE when all is below. subject:
 * the judged file, a path. Releases g. */
int gate_finish(struct gate *g, const char *subject);

#endif
