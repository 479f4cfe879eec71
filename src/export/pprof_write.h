/* pprof_write.h - a profile in the format of pprof: a gzipped protobuf, written as it comes.
 *
 * Owns: the encoding (google/pprof's profile.proto), the string table, functions kept once each.
 * Knows nothing of recordings. Memory grows with distinct strings and functions only; locations and
 * samples go straight into the file. Not thread-safe; one struct pprof per file.
 *
 *     struct pprof *p = pprof_new(out, &err);
 *     pprof_value_type(p, "inuse_space", "bytes");
 *     uint64_t m = pprof_mapping(p, &(struct pprof_mapping){.start = ..., .path = "/bin/x"});
 *     uint64_t l = pprof_location(p, m, address, lines, line_count);
 *     pprof_sample(p, &l, 1, values, 1, NULL, 0);
 *     if (pprof_finish(p, &err)) ...
 *
 * Failure is sticky: after one, every call does nothing, ids are 0, and pprof_finish says why. Text
 * that is not UTF-8 gets '?' for each bad byte, because readers refuse such files. */
#ifndef MALLOW_EXPORT_PPROF_WRITE_H
#define MALLOW_EXPORT_PPROF_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

struct pprof;

/* A file that was mapped into the process. Strings and bytes are borrowed for the call. */
struct pprof_mapping {
    uint64_t start, limit; /* addresses in the process; limit is the first behind it */
    uint64_t offset;       /* in the file, of start */
    const char *path;
    const uint8_t *build_id; /* NULL for none; written as hex digits */
    size_t build_id_bytes;
    bool has_names, has_files, has_lines, has_inlined; /* true if the locations in it have these */
};

struct pprof_line {
    const char *function;    /* as people read it; never NULL */
    const char *system_name; /* as the linker knows it; NULL: the same */
    const char *file;        /* NULL when unknown */
    uint64_t line;           /* 0 when unknown */
};

struct pprof_label {
    const char *key;
    const char *text;        /* or, when NULL: */
    int64_t number;          /* with */
    const char *number_unit; /* NULL for none */
};

/* out stays the caller's. NULL with *err set when out of memory. */
struct pprof *pprof_new(FILE *out, struct error *err);

/* Names the values of a sample, in their order: ("alloc_objects", "count"). The first mapping
 * that is added should be the program itself. */
void pprof_value_type(struct pprof *p, const char *type, const char *unit);
/* Shown when the reader does not choose; one of the types above. */
void pprof_default_type(struct pprof *p, const char *type);
/* How the program was sampled: every `period` units of `type` ("space", "bytes"). */
void pprof_period(struct pprof *p, const char *type, const char *unit, int64_t period);
/* When the profile was taken, since 1970, and how long it took. */
void pprof_time(struct pprof *p, uint64_t realtime_ns, uint64_t duration_ns);
void pprof_comment(struct pprof *p, const char *text);

/* Each returns an id, from 1; 0 after a failure. */
uint64_t pprof_mapping(struct pprof *p, const struct pprof_mapping *m);
/* A place in the program. mapping 0: in none. address: of the call, not behind it (return address
 * less 1). lines: innermost first, inlined functions before the one they were inlined into; may be
 * empty (then the reader looks for names itself). The caller keeps equal places apart. */
uint64_t pprof_location(struct pprof *p, uint64_t mapping, uint64_t address,
                        const struct pprof_line *lines, size_t line_count);

/* Readers show the caller of such a function in its place: the profile's drop_frames names it. Not
 * where that would name a function that is kept. */
void pprof_drop(struct pprof *p, const char *function);
void pprof_keep(struct pprof *p, const char *function);

/* A stack, innermost location first, with as many values as there are types. */
void pprof_sample(struct pprof *p, const uint64_t *locations, size_t location_count,
                  const int64_t *values, size_t value_count, const struct pprof_label *labels,
                  size_t label_count);

/* Completes the file (it is not flushed or closed) and frees p. 0, or -1 with *err set. */
int pprof_finish(struct pprof *p, struct error *err);
/* Frees p and leaves the file as it is. NULL is fine. */
void pprof_abandon(struct pprof *p);

#endif
