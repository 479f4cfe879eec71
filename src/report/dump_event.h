/* dump_event.h - a call as a line of text or JSON, for dumps of many millions.
 *
 * Owns: how a line about a call looks. Single-threaded. */
#ifndef MALLOW_REPORT_DUMP_EVENT_H
#define MALLOW_REPORT_DUMP_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/digits.h"
#include "base/lines.h"
#include "frames/names.h"
#include "trace/trace.h"

struct dump_events { /* the state of one process's lines */
    /* set by dump_events_begin */
    struct lines *lines;
    const struct trace_image *image;
    uint32_t index;      /* the index of the image */
    struct names *names; /* NULL: a stack is its number */
    bool json;
    /* private */
    uint64_t time_ns; /* a multiple of 10^8; the text of that time but for the last 8 digits */
    uint32_t time_bytes;
    uint32_t
        thread; /* the thread that called last; the text between the time and the call is for it */
    uint32_t who_bytes;
    char time[64], who[96];
    struct digits_near near; /* in JSON */
};

void dump_events_begin(struct dump_events *d, struct lines *lines, const struct trace_image *image,
                       uint32_t index, struct names *names, bool json);

/* Writes the line of event i. The event's thread, stack and kind must exist. */
void dump_event(struct dump_events *d, const struct trace_batch *b, size_t i);

/* The functions of a stack, innermost first; in JSON as strings with commas between. */
void dump_names(struct lines *l, struct names *names, uint32_t stack, bool json);

/* Writes the beginning of a line of text: seconds since the start of the recording. */
void dump_seconds(struct lines *l, uint64_t ns);

#endif
