/* watch_screen.h - the live view of `mallow watch` on a terminal.
 *
 * Owns: the terminal while it is shown (its modes, the alternate screen, the cursor), and gives it
 * back as it was on every way out: the end, exit(), a fatal signal, Ctrl-Z. One at a time. */
#ifndef MALLOW_CLI_WATCH_SCREEN_H
#define MALLOW_CLI_WATCH_SCREEN_H

#include "report/watch_view.h"

struct watch_screen;

/* Takes the terminal at standard input and output. NULL with *err set when it cannot be had. */
struct watch_screen *watch_screen_begin(struct watch_view *view, struct watch_run *run,
                                        const struct watch_options *options, struct error *err);
/* Gives it back. NULL is fine. */
void watch_screen_end(struct watch_screen *s);

/* Draws the current state. */
void watch_screen_draw(struct watch_screen *s);
/* Reads the keys that were pressed and does what they say. */
void watch_screen_keys(struct watch_screen *s);
/* A line for the foot of the screen, until the next. */
void watch_screen_say(struct watch_screen *s, const char *line);

#endif
