/* flight.h - `mallow record --last`: a recording that runs for ever in bounded space.
 *
 * Owns: when the rows that left the window are folded (trace.h), the process that does it beside
 * the program, the release of their part of the file, and the recordings that are written while the
 * program goes on. Refuses: to hold up the loop. What takes time is done by one child process at a
 * time, whose memory goes with it; the file is released by the parent, between two of them, so that
 * no reader of this recording loses what it reads. One thread. */
#ifndef MALLOW_RECORD_FLIGHT_H
#define MALLOW_RECORD_FLIGHT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image.h"
#include "limit/pressure.h"

#define FLIGHT_LEAST_BYTES (1u << 20)
#define FLIGHT_LEAST_NS    1000000ull

/* How much is kept: one of both is not 0; both: whichever is less. */
struct flight_window {
    uint64_t ns, bytes;
};

/* "5m", "2G" or both with a comma; a number with a unit of time is one. 0, or -1 with *err. */
int flight_parse(struct flight_window *w, const char *text, struct error *err);

struct flight;

/* The recording is open, and its first chunks are written; path: of it. NULL with *err, also where
 * the file system cannot release parts of a file. say: as in record_options. */
struct flight *flight_open(const struct flight_window *w, const struct pressure *when,
                           struct recording *r, const char *path,
                           void (*say)(void *arg, bool wrong, const char *line), void *arg,
                           struct error *err);

/* True if the file is so far from its bound that nothing need be left out of it. */
bool flight_has_room(const struct flight *f);

/* One look, in every round. sizes: of the processes, with pid: one of them. Whether buffers are to
 * be copied and flight_start to be called. */
bool flight_look(struct flight *f, const struct pressure_sizes *sizes, pid_t pid);
/* clock: the recording's, read before the first buffer was copied. */
void flight_start(struct flight *f, uint64_t now_ns, uint64_t clock);

/* The recording is over: a job under way ends. */
void flight_close(struct flight *f);

#endif
