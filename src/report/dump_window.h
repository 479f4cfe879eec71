/* dump_window.h - the records of a stretch of time as one line: how many, and the least, the mean
 * and the most of the requested size and of the live bytes.
 *
 * Owns: the figures of the window that is open, over all processes. Single-threaded. */
#ifndef MALLOW_REPORT_DUMP_WINDOW_H
#define MALLOW_REPORT_DUMP_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "base/lines.h"

struct window_figure {
    uint64_t count, least, most;
    double sum;
};

struct dump_window {
    uint64_t width_ns; /* set by the caller; 0: not used */
    bool json;         /* set by the caller */
    uint64_t number;   /* the window's number: it begins at number * width_ns */
    uint64_t records;  /* in it */
    uint64_t live_bytes;
    struct window_figure size, live;
};

/* Writes the heading of the text; nothing for JSON. */
void dump_window_title(const struct dump_window *w, struct lines *out);
/* Adds a record. Records come in the order of time; one beyond the window writes the window
 * first. sized: the record has a requested size. settled: w->live_bytes, which the caller
 * updates before the call, is the state after a whole call, not between the halves of a realloc. */
void dump_window_add(struct dump_window *w, struct lines *out, uint64_t time_ns, bool sized,
                     uint64_t size_bytes, bool settled);
/* Writes the last one. */
void dump_window_end(struct dump_window *w, struct lines *out);

#endif
