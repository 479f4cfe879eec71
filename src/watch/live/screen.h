/* screen.h - the live view of `mallow watch` on a terminal.
 *
 * Owns: the choice of the view and of a row in it: a table of call sites, the whole stack and the
 * past of one, the processes, the latest frees. One at a time; one thread. */
#ifndef MALLOW_WATCH_LIVE_SCREEN_H
#define MALLOW_WATCH_LIVE_SCREEN_H

#include "watch/view/view.h"

struct watch_screen;

/* Takes the terminal at standard input and output. Returns NULL with *err if it is not
 * available. */
struct watch_screen *watch_screen_begin(struct watch_view *view, struct watch_run *run,
                                        enum watch_order order, struct error *err);
/* Gives the terminal back. NULL is fine. */
void watch_screen_end(struct watch_screen *s);

/* Draws the present state, which is a new moment in graphs. */
void watch_screen_tick(struct watch_screen *s);
/* Reads the pressed keys and obeys them. */
void watch_screen_keys(struct watch_screen *s);
/* Shows a line at the foot of the screen until the next key. */
void watch_screen_say(struct watch_screen *s, const char *line);

#endif
