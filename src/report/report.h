/* report.h - where the memory of a recorded program went: as text, as JSON, event by event.
 *
 * Owns: the content and its layout. Refuses: parsing of options, opening of files, terminals (see
 * cli/). Each function reads the trace from its start to its end once, streaming. */
#ifndef MALLOW_REPORT_REPORT_H
#define MALLOW_REPORT_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "analyse/figures.h"
#include "base/error.h"
#include "frames/look.h"
#include "frames/select.h"
#include "symbol/symbol.h"
#include "trace/trace.h"

#define REPORT_ALL        UINT32_MAX
#define REPORT_JSON_SITES 1000u

struct gate_processes;

struct report_options {
    struct selection_options select; /* the selection */
    const char *suppressions;        /* path of a suppression file */
    const char *at; /* the moment to explain, see explained_wish; NULL: chosen automatically */
    /* The content of the report. */
    enum metric by;
    bool by_given;    /* text: this tree only */
    uint64_t top;     /* sites; 0: text 10, JSON REPORT_JSON_SITES; REPORT_ALL: all */
    unsigned depth;   /* text: callers in a tree; 0: 8 */
    bool all_frames;  /* text: wrappers and library frames may be call sites */
    bool frame_table; /* JSON: frames[] of a site has places in frame_table[] */
    bool heap;        /* JSON: also where the free memory of the heap lies; reads the image again */
    bool names;       /* dump: functions, not numbers of stacks */
    uint64_t every;   /* dump: print every N-th call only; 0: all */
    unsigned threads; /* dump: threads to use at once; 0: as many as there are processors */
    uint64_t
        window_ns; /* dump: print a line for each window of this length; 0: a line for each call */
    const char *sources; /* page: text of sources below this directory, absolute; NULL: none */
    /* How to show it. */
    struct names_look look;
    unsigned columns; /* width of the terminal; 0: lines are not cut */
    bool unicode, bold;
    bool plots;   /* text: time as a plot of several lines instead of a line of bars */
    bool numbers; /* text: no bars at all */
    /* Values to fill on the way: figures of each process (report/gate.h); NULL: none. */
    struct gate_processes *gate;
    void (*progress)(void *arg, uint64_t done, uint64_t total); /* may be NULL */
    void *progress_arg;
};

/* Returns the trace columns that these functions need. */
unsigned report_columns(void);
unsigned report_dump_columns(void);

/* Prints the report as text. path: the name of the file to print. symbols NULL: addresses
 * instead of names. Returns 0, or -1 with *err. */
int report_text(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *options, struct error *err);
/* Prints the report as JSON. On failure it still closes the document, with the cause in the
 * field "error". */
int report_json(FILE *out, const char *path, struct trace *t, struct symbols *symbols,
                const struct report_options *options, struct error *err);

/* Prints every event of all processes in time order, one line each. */
int report_dump(FILE *out, struct trace *t, struct symbols *symbols,
                const struct report_options *options, bool json, struct error *err);

#endif
