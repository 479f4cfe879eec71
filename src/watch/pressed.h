/* pressed.h - watched processes and the limits on their memory: thresholds, and who was killed.
 *
 * Owns: the control groups of watched processes, with the resident size of all that are watched in
 * one; which threshold each group has crossed; how many kills of the kernel each has seen. A
 * process that cannot be seen in /proc (another pid namespace) is left out. One thread. */
#ifndef MALLOW_WATCH_PRESSED_H
#define MALLOW_WATCH_PRESSED_H

#include "limit/pressure.h"
#include "watch/process.h"

struct pressed;

/* rules: their count may be 0. NULL: no memory. */
struct pressed *pressed_new(const struct pressure *rules, struct error *err);
void pressed_free(struct pressed *s); /* NULL is fine */

/* A process is watched from now on; before the first look at it. */
void pressed_joined(struct pressed *s, struct watch_process *p);

/* Looks at all, when it is time to: in every round with rules, else once a second. each() is called
 * for every running process of a group that crosses a threshold upwards, with a line that says so.
 */
typedef void pressed_each(void *arg, struct watch_process *p, const char *line);
void pressed_look(struct pressed *s, uint64_t now_ns, struct watch_process *const *items,
                  uint32_t count, pressed_each *each, void *arg);

/* True if the kernel killed a process of this one's group since this was asked last: then it was
 * this one, which was killed. */
bool pressed_killed(const struct watch_process *p);

#endif
