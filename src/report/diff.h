/* diff.h - two recordings side by side, by call stack.
 *
 * Owns: which stacks of one are those of the other although addresses moved and the program was
 * built again. A frame is the same by its function (without what the compiler hangs behind a clone)
 * and its module (a library without its version; the program itself whatever it is called); line
 * numbers do not count. A frame without a name is the same by its offset while its module has the
 * same build-id in both, else it is any unnamed frame of that module. All processes of a recording
 * are added up. */
#ifndef MALLOW_REPORT_DIFF_H
#define MALLOW_REPORT_DIFF_H

#include "base/strings.h"
#include "frames/names.h"
#include "report/gate.h"
#include "report/report.h"
#include "symbol/intern.h"

struct diff_side { /* a recording */
    const char *path;
    uint32_t processes;
    uint64_t events, lost_events;
    struct figures totals;   /* peaks: the sum of those of each process */
    struct gate_values gate; /* the same, with RSS */
};

struct diff_site {
    struct figures old, now;
    uint32_t tip; /* innermost frame, in parent[] and frame[]; 0: no stack was recorded */
};

struct diff {
    struct diff_side old, now;
    struct diff_site *items; /* sorted by the growth of `by`, largest first */
    size_t count;            /* sites that differ in any figure */
    enum metric by;
    /* A forest of frames, outermost at the roots. [1..frame_count] */
    uint32_t *parent;
    struct name_frame
        *frame; /* from the new recording if it has the frame; line 0: several lines */
    uint32_t frame_count;
    /* private */
    size_t room, item_room;
    uint8_t *seen; /* by frame: the sides that had it */
    uint32_t *site_of;
    struct strings keys, nodes, builds;
    struct intern texts;
};

/* Reads both recordings completely. of_old: the options for the old one, which differ in times
 * only. The caller calls diff_release, also after a failure. */
int diff_build(struct diff *d, const char *old_path, struct trace *old,
               const struct report_options *of_old, const char *new_path, struct trace *now,
               const struct report_options *options, struct symbols *symbols, struct error *err);
void diff_release(struct diff *d);

/* Brings items into the order of another figure. */
void diff_sort(struct diff *d, enum metric by);
/* now - old of a site or total. */
int64_t diff_growth(const struct figures *old, const struct figures *now, enum metric by);

/* Returns the call site of a tip, as an index into d->frame[]; see names_site. */
uint32_t diff_call_site(const struct diff *d, uint32_t tip);
/* Returns the call site's frame of the site that grew most; NULL if none grew. */
const struct name_frame *diff_grown_most(const struct diff *d, enum metric by);

void diff_text(FILE *out, const struct diff *d, struct symbols *symbols,
               const struct report_options *options);
void diff_json(FILE *out, const struct diff *d, struct symbols *symbols,
               const struct report_options *options);

#endif
