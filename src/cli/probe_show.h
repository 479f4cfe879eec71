/* probe_show.h - what `mallow probe` counted, as it comes and at the end. Owns: the form of it. */
#ifndef MALLOW_CLI_PROBE_SHOW_H
#define MALLOW_CLI_PROBE_SHOW_H

#include <stdio.h>

#include "cli/command.h"
#include "probe/probe.h"
#include "probe/show/show.h"

struct probe_printing {
    const struct command *self;
    bool json, folded;
    bool screen; /* text takes the whole screen of a terminal, again for each interval */
    struct probe_report how;
    struct probe_arenas_lines lines;
    FILE *out;
    bool failed; /* something could not be printed; err says what */
    struct error err;
};

void probe_show_result(struct probe_printing *p, const struct probe_result *r);

/* Callbacks of struct probe_options, with a struct probe_printing as `arg`. */
void probe_show_interval(void *arg, struct probe_result *since);
void probe_show_line(void *arg, const char *line);
void probe_show_moment(void *arg, uint32_t pid, const struct arena_moment *m);

/* Prints the functions that would be probed to the file `path` (NULL: standard output): their
 * names, in JSON with where they are. Returns the exit status; said. */
int probe_show_list(const struct command *self, const struct probe_options *options,
                    const char *path, bool json);

/* The exit status that stands for the program's; a failure to execute it is said. */
int probe_show_status(const struct command *self, const struct probe_result *r,
                      const char *program);

/* Says that there is no kind of this name, and which there are. Returns EXIT_USAGE. */
int probe_show_kinds(const struct command *self, const char *name);

#endif
