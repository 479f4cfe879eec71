/* export.h - a recording in the formats of other tools.
 *
 * Owns: the table of formats, one file of this directory each. All stream: memory is that of a
 * report of one process at a time. Refuses: options, the opening of recordings, messages (see
 * cli/). */
#ifndef MALLOW_EXPORT_EXPORT_H
#define MALLOW_EXPORT_EXPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "analyse/figures.h"
#include "base/error.h"
#include "frames/look.h"
#include "frames/select.h"
#include "symbol/symbol.h"
#include "trace/trace.h"

enum export_flags {
    EXPORT_BY = 1,          /* has one value, which export_options.by chooses */
    EXPORT_ONE_PROCESS = 2, /* has no word for processes */
    EXPORT_BINARY = 4,      /* not for a terminal */
    EXPORT_DIRECTORY = 8,   /* writes a new directory, not a stream */
    EXPORT_DATABASE = 16    /* writes a file that it must be able to go back in */
};

struct export_job;

struct export_format {
    const char *name;
    const char *summary; /* the format and its readers */
    unsigned flags;      /* enum export_flags */
    unsigned columns;    /* that it reads (enum trace_column); 0: those of a report */
    int (*write)(struct export_job *job, struct error *err);
};

/* Ends with a name of NULL. */
extern const struct export_format export_formats[];

/* The columns that a trace must be opened with. */
unsigned export_columns(const struct export_format *f);

/* The content of the output, and its form. */
struct export_options {
    struct selection_options select;
    unsigned threads; /* that may work at once; 0: as many as there are processors */
    struct names_look look;
    enum metric by;
    bool by_given; /* formats with several values: this one first */
};

struct export_request {
    const struct export_format *format;
    FILE *out;          /* for streams; the caller's. NULL for directories and databases */
    const char *output; /* for directories (made here, must not exist) and databases (replaced) */
    const char *recording; /* path, to be named in the output */
    const struct export_options *options;
};

/* The losses of an export. */
struct export_result {
    uint64_t processes; /* that are in the output */
    uint64_t left_out;  /* events that the format has no word for (mmap and the like) */
    uint64_t samples;   /* stacks or events written */
};

/* Writes the whole. Whether a stream arrived is the caller's to ask at its end. ERROR_USAGE when
 * the format holds one process and several are chosen. */
int export_write(struct trace *t, struct symbols *symbols, const struct export_request *request,
                 struct export_result *result, struct error *err);

#endif
