/* inside.h - glibc's arenas as a library inside the program sees them: needs no rights.
 *
 * Owns: the shared memory (format/arenas.h) from its making to its removal, the program's
 * environment, and turning the library's events into those of glibc's own probes. Private to this
 * directory. One thread. */
#ifndef MALLOW_PROBE_INSIDE_H
#define MALLOW_PROBE_INSIDE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "probe/arenas.h"

struct probe_engine;
struct inside;

/* library: libmallow-arenas.so. Returns 0 and *in, or -1 with *err. */
int inside_make(struct inside **in, const char *library, bool no_follow, bool sizes,
                struct error *err);
/* NAME, VALUE, ..., NULL for the program. */
const char *const *inside_environment(const struct inside *in);
/* Before the program runs. */
void inside_begin(struct inside *in, pid_t program);
/* Takes the events so far. last: no process writes any more, so an incomplete event stays
 * incomplete. */
void inside_drain(struct inside *in, struct probe_engine *e, struct arenas *a, bool last);
uint64_t inside_lost(const struct inside *in);
/* Why nothing is known of some process, in words; NULL: nothing is missing. */
const char *inside_trouble(const struct inside *in);
/* Adds a row for each process, threshold, side of it and class of size that was asked for. */
int inside_requests(const struct inside *in, struct probe_engine *e, struct error *err);
void inside_free(struct inside *in);

#endif
