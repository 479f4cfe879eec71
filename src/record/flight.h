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

/* The window: at least one of the two is not 0. If both are set, the smaller window counts. */
struct flight_window {
    uint64_t ns, bytes;
};

/* Parses "5m", "2G", or both with a comma. Returns 0, or -1 with *err. */
int flight_parse(struct flight_window *w, const char *text, struct error *err);

struct flight;

/* Call it when the recording is open and its first chunks are written. path: the recording's.
 * say: as in record_options. Returns NULL with *err, also if the file system cannot release
 * parts of a file. */
struct flight *flight_open(const struct flight_window *w, const struct pressure *when,
                           struct recording *r, const char *path,
                           void (*say)(void *arg, bool wrong, const char *line), void *arg,
                           struct error *err);

/* True if the file is far enough below its bound that no call needs to be left out. NULL is
 * fine. */
bool flight_has_room(const struct flight *f);

/* Looks at the window and the thresholds; call it in every round. sizes: of the processes; pid:
 * one of them. Returns true if the caller is to copy buffers and then call flight_start. */
bool flight_look(struct flight *f, const struct pressure_sizes *sizes, pid_t pid);
/* Starts the child process that folds or writes. clock: the recording's clock, read before the
 * first buffer was copied. */
void flight_start(struct flight *f, uint64_t now_ns, uint64_t clock);

/* Ends a job under way and frees f, when the recording is over. NULL is fine. */
void flight_close(struct flight *f);

#endif
