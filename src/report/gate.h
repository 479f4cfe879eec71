/* gate.h - the figures that a limit can be set for, of each process that a report read.
 *
 * Owns: which they are, their values, and whether a value is known. Refuses: limits, and saying
 * that one was passed (see cli/gate.h). */
#ifndef MALLOW_REPORT_GATE_H
#define MALLOW_REPORT_GATE_H

#include "analyse/figures.h"
#include "analyse/suppress.h"
#include "base/error.h"
#include "model/model.h"

struct names;
struct report_options;

enum gate_figure { /* the first METRICS are those of enum metric */
                   GATE_PEAK,
                   GATE_END,
                   GATE_ALLOCATED,
                   GATE_TEMPORARY,
                   GATE_CALLS,
                   GATE_RSS, /* largest resident size, the recorder's own memory included, as
                                peak_rss_bytes */
                   GATE_GAP, /* largest resident size (without the recorder's) above the live bytes
                              */
                   GATE_FIGURES
};
#define GATE_NAMES "peak, end, allocated, temporary, calls, rss, gap"

/* The name ("peak"), the words ("live at the peak"), and whether the figure is in bytes. */
const char *gate_name(enum gate_figure figure);
const char *gate_words(enum gate_figure figure);
bool gate_in_bytes(enum gate_figure figure);
/* The figure of this name (n bytes), or GATE_FIGURES. */
enum gate_figure gate_find(const char *name, size_t n);

struct gate_values {
    uint64_t value[GATE_FIGURES];
    const char *unknown[GATE_FIGURES]; /* why the value is not known; NULL: it is */
};

/* Fills the values of one process. m: finished, of these options. */
void gate_values_of(const struct model *m, const struct report_options *o, struct gate_values *v);
/* Adds the figures of another process; a figure unknown for one is unknown for both. */
void gate_values_add(struct gate_values *sum, const struct gate_values *v);

struct gate_place { /* the call site with the largest share of a figure */
    char *function, *file;
    unsigned line; /* 0: unknown, and file is NULL then or not */
};

struct gate_process {
    uint32_t pid;
    const char *exe; /* the trace's */
    struct gate_values values;
    struct gate_place place[METRICS]; /* function NULL: unknown, or not asked for */
};

/* The values that a report fills while it runs. All zero at first; the caller calls
 * gate_release. */
struct gate_processes {
    bool places; /* asked for: call sites, too */
    struct gate_process *items;
    size_t count;
    /* private */
    struct suppressions suppressions;
    bool suppressions_read;
};

/* Adds a process; g may be NULL. Blocks that o->suppressions names do not count as live at the
 * end. */
int gate_add(struct gate_processes *g, const struct model *m, struct names *names,
             const struct report_options *o, struct error *err);
void gate_release(struct gate_processes *g);

#endif
