/* view.h - what `mallow watch` says of the processes that it watches: text, or JSON lines.
 *
 * Owns: names of the stacks of every process, the known list, the looks. A report is put together
 * by what the stacks read like: sites with the same names from end to end are one. One thread. */
#ifndef MALLOW_WATCH_VIEW_VIEW_H
#define MALLOW_WATCH_VIEW_VIEW_H

#include "analyse/suppress.h"
#include "frames/names.h"
#include "show/layout.h"
#include "watch/run.h"

struct watch_view_options {
    FILE *out;
    bool json;
    struct symbols *symbols; /* NULL: addresses only */
    const char *known;       /* a file of known stacks, read and written; NULL: none */
    uint64_t top;            /* sites in a report; 0: text 10, JSON all */
    unsigned depth;          /* text: frames of a site; 0: 8 */
    unsigned columns;        /* as struct page */
    bool unicode, bold;
    enum watch_order order;
    struct names_look look;
};

struct watch_view;

/* Returns NULL with *err if the known list has a mistake, or without memory. A known list that
 * does not exist yet is empty. */
struct watch_view *watch_view_new(const struct watch_view_options *options, struct error *err);
void watch_view_free(struct watch_view *v);

/* Sets the stream for text or JSON and its width, from now on. */
void watch_view_retarget(struct watch_view *v, FILE *out, unsigned columns);

/* Frees the names of a process that gets no last report. */
void watch_view_forget(struct watch_view *v, const struct watch_process *p);

/* Sets the order of sites from now on, here and in the reports of the run. */
void watch_view_order(struct watch_view *v, struct watch_run *run, enum watch_order order);

/* Prints a report. marking: its blocks are about to be marked as known, and their stacks are
 * appended to the known list. The last report of a process (FINAL) frees its names. Returns 0,
 * or -1 with *err. */
int watch_view_report(struct watch_view *v, const struct watch_report *r, bool marking,
                      struct error *err);
/* Writes the report to `out` as a JSON object, also if this view prints text. Returns 0, or -1
 * with *err. */
int watch_view_json(struct watch_view *v, FILE *out, const struct watch_report *r,
                    struct error *err);
int watch_view_caught(struct watch_view *v, const struct watch_caught *c, struct error *err);

/* --- for callers that draw rows themselves --- */

struct watch_row {
    struct watch_site site; /* sums over all stacks that read alike; .stack is one of them */
    const uint32_t *frames; /* ids, innermost first */
    size_t count;
    size_t first;           /* the call site (names.h) */
    size_t stacks;          /* more stacks with that call site, in .site as well; 0 before
                               watch_rows_by_site */
    struct estimate others; /* their part */
};

struct watch_rows {
    struct watch_row *items; /* in the order of the report, with chosen blocks */
    size_t count;
    const struct names *names;
    uint32_t *frames;             /* private */
    uint64_t known_blocks;        /* samples that the known list excludes */
    struct estimate known, total; /* known: excluded; total: the rest */
    double growth_bytes;
};

/* Makes rows of a report: its sites with names, without known ones. The caller calls
 * watch_rows_free. Returns 0, or -1 with *err. */
int watch_view_rows(struct watch_view *v, const struct watch_report *r, struct watch_rows *rows,
                    struct error *err);
void watch_rows_free(struct watch_rows *rows);

/* Merges rows with the same call site into one, which keeps the first row's stack, and sorts
 * them by their sums. Returns false without memory; then nothing changed. */
bool watch_rows_by_site(struct watch_rows *rows, enum watch_order order);

#endif
