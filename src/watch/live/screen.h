/* screen.h - the live view of `mallow watch` on a terminal.
 *
 * Owns: the choice of the view and of a row in it: a table of call sites, the whole stack and the
 * past of one, the processes, the latest frees. One at a time; one thread. */
#ifndef MALLOW_WATCH_LIVE_SCREEN_H
#define MALLOW_WATCH_LIVE_SCREEN_H

#include "watch/view/view.h"

struct watch_screen;

/* Takes the terminal at standard input and output. NULL with *err set when it cannot be had. */
struct watch_screen *watch_screen_begin(struct watch_view *view, struct watch_run *run,
                                        enum watch_order order, struct error *err);
/* Gives it back. NULL is fine. */
void watch_screen_end(struct watch_screen *s);

/* Draws the state of now; a new moment in graphs and pasts. */
void watch_screen_tick(struct watch_screen *s);
/* Reads the keys that were pressed and does what they say. */
void watch_screen_keys(struct watch_screen *s);
/* A line for the foot of the screen, until the next key. */
void watch_screen_say(struct watch_screen *s, const char *line);

#endif
