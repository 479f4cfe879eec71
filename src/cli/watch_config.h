/* watch_config.h - `mallow watch --config FILE`: options from a file, and those that change while a
 * watch runs.
 *
 * Owns: the text of the file; which settings may change, and that a file with a mistake changes
 * nothing. One thread, that of the run. */
#ifndef MALLOW_CLI_WATCH_CONFIG_H
#define MALLOW_CLI_WATCH_CONFIG_H

#include "cli/watch_session.h"

struct watch_config {
    const struct command *command;
    const struct watch_cli *given; /* the command line's */
    struct watch_cli now;          /* these, on top of the file's */
    struct watch_options *options; /* options of the run; their settings point into this */
    struct watch_run *const *run;  /* where the run will be */
    char *text;                    /* text of the file; NULL: none */
    uint64_t period;
    uint32_t guard, guard_side, on_error;
};

/* Fills `now`. 0, or an exit status; the reason has been printed. To be released in any case. */
int watch_config_open(struct watch_config *c, const struct command *self,
                      const struct watch_cli *given);
void watch_config_release(struct watch_config *c);
/* Checks that the options of -a go together with the others. 0, or an exit status; the reason has
 * been printed. */
int watch_config_check(const struct command *self, const struct watch_cli *o);

/* Puts the settings that may change into the options, which are to be those of the run, and with a
 * file what SIGHUP does: it is read again. What changed and may is so from then on in every watched
 * process; of what may not, and of mistakes, a line is printed. run: where the run will be. 0, or
 * an exit status. */
int watch_config_settings(struct watch_config *c, struct watch_options *options,
                          struct watch_run *const *run);

#endif
