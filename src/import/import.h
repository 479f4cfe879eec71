/* import.h - foreign traces, turned into recordings.
 *
 * Owns: the readers of heaptrack's files, of dj/malloc's traces and glibc's mtrace(3), of
 * `perf script`; one file each. What a foreign trace does not say (times, stacks, addresses,
 * threads) the recording lacks, and a note in it says so. Reads bytes that may be damaged: every
 * error names the line or the offset. */
#ifndef MALLOW_IMPORT_IMPORT_H
#define MALLOW_IMPORT_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum import_format { IMPORT_UNKNOWN, IMPORT_HEAPTRACK, IMPORT_MTRACE, IMPORT_PERF };

struct import_result {
    enum import_format format;
    uint64_t calls;   /* in the recording */
    uint64_t skipped; /* lines or records that say nothing of an allocation */
    uint64_t unsure;  /* calls whose effect had to be guessed: see the reader */
    bool cut;         /* the file ends too early; what came before is in the recording */
};

/* "heaptrack", ...; NULL at the end: by enum import_format, from 1. */
extern const char *const import_names[];

/* Reads the file at path (heaptrack's may be compressed by gzip or zstd) and writes the sealed
 * recording `out`, which appears when it is complete. format IMPORT_UNKNOWN: by its first bytes.
 * ERROR_USAGE when it is none of the formats. */
int import_file(const char *path, enum import_format format, const char *out,
                struct import_result *result, struct error *err);

#endif
